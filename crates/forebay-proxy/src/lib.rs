//! forebay-proxy
