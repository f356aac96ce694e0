//! forebay-wire
