//! forebay-fleet
