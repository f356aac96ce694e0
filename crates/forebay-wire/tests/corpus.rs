//! The fuzz targets' checks, run over their corpus as plain tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::{fs, path::Path};

#[path = "../../../fuzz/checks/body.rs"]
mod body;
#[path = "../../../fuzz/checks/prom.rs"]
mod prom;
#[path = "../../../fuzz/checks/sse.rs"]
mod sse;

/// Damaged copies that are tried of every file.
const MUTATIONS: u64 = 10;

fn run(folder: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for path in files {
        let data = fs::read(&path).unwrap();
        for seed in 0..=MUTATIONS {
            let data = damaged(&data, seed);
            if std::panic::catch_unwind(|| check(&data)).is_err() {
                panic!("{} with damage {seed} breaks a promise: {}", path.display(), data.escape_ascii());
            }
        }
    }
}

/// `data` with a few bytes changed, inserted, removed or moved; itself for seed 0.
fn damaged(data: &[u8], seed: u64) -> Vec<u8> {
    let mut data = data.to_vec();
    // Knuth's linear congruential generator: enough to vary, and the same everywhere.
    let mut state = seed;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    for _ in 0..seed.min(1 + seed % 4) {
        let at = random(data.len() + 1);
        let byte = match random(2) {
            0 => random(256) as u8,
            _ => br#"{}[]",:\-0 "#[random(11)],
        };
        match random(4) {
            0 => data.insert(at, byte),
            1 if at < data.len() => data[at] = byte,
            2 if at < data.len() => drop(data.remove(at)),
            _ => {
                let end = (at + random(40)).min(data.len());
                let piece: Vec<u8> = data.drain(at..end).collect();
                let to = random(data.len() + 1);
                data.splice(to..to, piece);
            }
        }
    }
    data
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
