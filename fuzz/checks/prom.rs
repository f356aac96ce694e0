//! What must hold for every metrics page.

use forebay_core::Time;
use forebay_wire::prom::{read, vllm_load};

/// Panics when reading `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let mut samples = 0;
    read(data, |sample| {
        samples += 1;
        assert!(!sample.name.is_empty());
        assert!(sample.labels.iter().all(|(name, _)| !name.is_empty()));
    });
    assert!(samples <= data.split(|&b| b == b'\n').count());
    let report = vllm_load(data, Time::ZERO);
    assert!(report.kv_usage.is_none_or(|kv| (0.0..=1.0).contains(&kv)));
}
