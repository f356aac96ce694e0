//! The atomics behind the series. Relaxed ordering is enough: a series orders nothing.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A value that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// One more.
    pub fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One less.
    pub fn dec(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// Exactly `value` from now on.
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    /// The present value.
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// A value that only goes up.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Takes over a count that is kept elsewhere; it must never go down.
    pub(crate) fn mirror(&self, count: u64) {
        self.0.store(count, Relaxed);
    }
}

/// A figure that may be unknown; an unknown one has no series, and one that is
/// not a finite number counts as unknown.
#[derive(Debug)]
pub(crate) struct FloatCell(AtomicU64);

impl Default for FloatCell {
    fn default() -> Self {
        FloatCell(AtomicU64::new(f64::NAN.to_bits()))
    }
}

impl FloatCell {
    pub(crate) fn set(&self, value: Option<f64>) {
        let value = value.filter(|value| value.is_finite()).unwrap_or(f64::NAN);
        self.0.store(value.to_bits(), Relaxed);
    }

    pub(crate) fn get(&self) -> Option<f64> {
        let value = f64::from_bits(self.0.load(Relaxed));
        (!value.is_nan()).then_some(value)
    }
}
