//! What must hold for every metrics page.

use forebay_wire::prom::read;
use forebay_wire::signals::{Combine, CustomSignal, Dialect, Reader, detect};

/// Panics when reading `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let mut samples = 0;
    read(data, |sample| {
        samples += 1;
        assert!(!sample.name.is_empty());
        assert!(sample.labels.iter().all(|(name, _)| !name.is_empty()));
    });
    assert!(samples <= data.split(|&b| b == b'\n').count());
    let custom = ["queue", "vllm:num_requests_waiting"].map(|metric| CustomSignal {
        metric: metric.to_owned(),
        labels: vec![],
        combine: Combine::Sum,
    });
    // The page's own engine, and one that it is most likely not of.
    for dialect in [detect(data).unwrap_or(Dialect::Vllm), Dialect::Triton] {
        for model in [None, Some("tiny")] {
            let signals = Reader::new(dialect, model, &custom).read(data);
            assert!(signals.kv_usage.is_none_or(|kv| (0.0..=1.0).contains(&kv)));
            assert!(signals.gpu.utilization.is_none_or(|share| (0.0..=1.0).contains(&share)));
            assert!(signals.custom.into_iter().flatten().all(f64::is_finite));
            assert!(signals.process_start.is_none_or(f64::is_finite));
        }
    }
}
