//! forebay-config
