//! The metrics page: what is rendered, and what its documentation says.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod documentation;
mod exposition;
mod full;

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs promtool on `input` and fails the test when it objects. Without the
/// tool the check is left out, except in CI, which installs it.
fn promtool(args: &[&str], input: &str) {
    let child = Command::new("promtool")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: promtool (Debian package prometheus): {error}");
            return;
        }
        Err(error) => panic!("promtool (Debian package prometheus) is needed in CI: {error}"),
    };
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("promtool reads");
    let out = child.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    // A lint of `check metrics` is an exit status as well.
    assert!(out.status.success(), "{said}\n{input}");
}
