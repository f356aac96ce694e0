//! The load figures of a vLLM page.

use forebay_core::{LoadReport, Time};

use super::read_named;

const RUNNING: &str = "vllm:num_requests_running";
const WAITING: &str = "vllm:num_requests_waiting";
const KV: &str = "vllm:kv_cache_usage_perc";
/// The name of the same until 0.11.
const OLD_KV: &str = "vllm:gpu_cache_usage_perc";

/// One figure, brought together over the series of a page.
#[derive(Clone, Copy, Default)]
struct Figure {
    value: Option<f64>,
    /// A series had a value that means nothing; then the figure is unknown,
    /// because a part of a sum is not a small sum.
    bad: bool,
}

impl Figure {
    fn add(&mut self, value: f64, max: f64, join: fn(f64, f64) -> f64) {
        if (0.0..=max).contains(&value) {
            self.value = Some(self.value.map_or(value, |known| join(known, value)));
        } else {
            self.bad = true;
        }
    }

    fn get(self) -> Option<f64> {
        self.value.filter(|_| !self.bad)
    }
}

/// Running and waiting requests (summed over data-parallel ranks and models)
/// and KV usage (the fullest rank) of a vLLM page, true at `at`. A figure that
/// is missing or makes no sense (NaN, negative, a usage above 1) is unknown.
pub fn vllm_load(page: &[u8], at: Time) -> LoadReport {
    const COUNT_MAX: f64 = u32::MAX as f64;
    let [mut running, mut waiting, mut kv, mut old_kv] = [Figure::default(); 4];
    read_named(
        page,
        |name| matches!(name, RUNNING | WAITING | KV | OLD_KV),
        |sample| match sample.name {
            RUNNING => running.add(sample.value, COUNT_MAX, |a, b| a + b),
            WAITING => waiting.add(sample.value, COUNT_MAX, |a, b| a + b),
            KV => kv.add(sample.value, 1.0, f64::max),
            OLD_KV => old_kv.add(sample.value, 1.0, f64::max),
            _ => {}
        },
    );
    // When both names are there, the new one counts, even when it is unusable.
    let kv = if kv.value.is_some() || kv.bad { kv } else { old_kv };
    LoadReport {
        at,
        running: running.get().map(|v| v as u32),
        waiting: waiting.get().map(|v| v as u32),
        kv_usage: kv.get().map(|v| v as f32),
        ..LoadReport::default()
    }
}
