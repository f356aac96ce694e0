//! forebay-engine
