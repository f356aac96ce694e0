//! forebay-live
