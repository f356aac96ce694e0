//! forebay-admin
