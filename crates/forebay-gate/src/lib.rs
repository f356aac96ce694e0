//! forebay-gate
