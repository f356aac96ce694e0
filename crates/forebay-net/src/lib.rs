//! forebay-net
