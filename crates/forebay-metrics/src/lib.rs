//! forebay-metrics
