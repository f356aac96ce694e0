//! The fuzz targets' checks, run over their corpus as plain tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::{fs, path::Path};

#[path = "../../../fuzz/checks/body.rs"]
mod body;
#[path = "../../../fuzz/checks/prom.rs"]
mod prom;
#[path = "../../../fuzz/checks/sse.rs"]
mod sse;

fn run(folder: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        if std::panic::catch_unwind(|| check(&data)).is_err() {
            panic!("{} breaks a promise", path.display());
        }
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn bodies() {
    run("../../fuzz/corpus/body", body::check);
}

#[test]
fn streams() {
    run("../../fuzz/corpus/sse", sse::check);
    run("testdata", sse::check);
}

#[test]
fn metrics_pages() {
    run("../../fuzz/corpus/prom", prom::check);
    run("testdata", prom::check);
}
