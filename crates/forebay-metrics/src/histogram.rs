//! A histogram without a lock: of durations, or of whole numbers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds in the metric's unit, and how finely the sum is kept.
pub(crate) struct Scale {
    pub(crate) bounds: &'static [f64],
    /// Billionths of the unit to one tick of the sum. The sum of 10,000 streams
    /// that run all day would wrap a `u64` of nanoseconds within a month; of
    /// microseconds after 58 years.
    nanos_per_tick: u64,
}

/// From a cached, tiny prompt to a request that waits in a long queue.
pub(crate) static TTFT: Scale = Scale {
    bounds: &[
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0,
        20.0, 30.0, 60.0, 120.0, 300.0,
    ],
    nanos_per_tick: 1_000,
};

/// From speculative decoding of a small model to an endpoint that preempts.
pub(crate) static TPOT: Scale = Scale {
    bounds: &[
        0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5,
        1.0, 2.0,
    ],
    nanos_per_tick: 1_000,
};

/// From an embedding to a generation of half an hour.
pub(crate) static REQUEST: Scale = Scale {
    bounds: &[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0,
        1800.0,
    ],
    nanos_per_tick: 1_000,
};

/// From no wait at all to the longest that a client stands.
pub(crate) static QUEUE_WAIT: Scale = Scale {
    bounds: &[
        0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
        300.0,
    ],
    nanos_per_tick: 1_000,
};

/// Table look-ups and arithmetic, 100 ns to 10 ms.
pub(crate) static DECISION: Scale = Scale {
    bounds: &[
        1e-7, 2.5e-7, 5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
        1e-2,
    ],
    nanos_per_tick: 1,
};

/// One page of an endpoint, from a neighbour's to one that times out.
pub(crate) static SCRAPE: Scale = Scale {
    bounds: &[
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    ],
    nanos_per_tick: 1_000,
};

/// From a prediction that is right to one that is a long prompt off; the first
/// bounds are within a block of the index.
pub(crate) static PREFIX_ERROR: Scale = Scale {
    bounds: &[0.0, 16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 65536.0],
    nanos_per_tick: NANOS,
};

const NANOS: u64 = 1_000_000_000;

/// Counts of values by bucket, and their sum. Two atomic additions a record.
pub(crate) struct Histogram {
    scale: &'static Scale,
    /// One for each bound and one for everything above; not cumulative.
    buckets: Box<[AtomicU64]>,
    sum_ticks: AtomicU64,
}

/// What a histogram held at one moment.
pub(crate) struct Snapshot {
    /// Upper bound (the last is infinite) and how many fell between it and the one before.
    pub(crate) buckets: Vec<(f64, u64)>,
    pub(crate) sum: f64,
    pub(crate) count: u64,
}

impl Histogram {
    pub(crate) fn new(scale: &'static Scale) -> Histogram {
        let buckets = (0..=scale.bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { scale, buckets, sum_ticks: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, d: Duration) {
        let tick = u128::from(self.scale.nanos_per_tick);
        let ticks = u64::try_from((d.as_nanos() + tick / 2) / tick).unwrap_or(u64::MAX);
        self.record(d.as_secs_f64(), ticks);
    }

    /// Records a whole number, on a scale of them.
    pub(crate) fn observe_count(&self, n: u64) {
        debug_assert_eq!(self.scale.nanos_per_tick, NANOS);
        self.record(n as f64, n);
    }

    fn record(&self, value: f64, ticks: u64) {
        let bucket = self.scale.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_ticks.fetch_add(ticks, Relaxed);
    }

    /// The count is that of the buckets read, so that it equals the last
    /// cumulative bucket even while others record.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let bounds = self.scale.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(self.buckets.iter().map(|b| b.load(Relaxed))).collect();
        let count = buckets.iter().map(|(_, n)| n).sum();
        let sum = self.sum_ticks.load(Relaxed) as f64 * self.scale.nanos_per_tick as f64 / NANOS as f64;
        Snapshot { buckets, sum, count }
    }
}
