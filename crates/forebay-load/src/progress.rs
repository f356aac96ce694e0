//! The bar on a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many requests on standard error, hidden unless it is wanted and
/// that is a terminal.
pub(crate) fn progress_bar(wanted: bool, requests: usize) -> ProgressBar {
    if !wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(requests as u64);
    // Its own style when the template were wrong.
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} requests, {eta} left {msg}") {
        bar.set_style(style);
    }
    bar
}
