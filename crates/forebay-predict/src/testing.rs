//! Deterministic noise for tests.

use forebay_core::Time;

/// The time that many seconds after the origin.
pub(crate) fn at(seconds: f64) -> Time {
    Time::from_millis_f64(seconds * 1e3)
}

/// A linear congruential generator (Knuth's MMIX constants).
pub(crate) struct Lcg(u64);

impl Lcg {
    pub(crate) fn new(seed: u64) -> Lcg {
        let mut lcg = Lcg(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d);
        lcg.unit();
        lcg
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal, mean 0 and deviation 1 (sum of twelve uniforms).
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// A factor around 1 with that relative deviation.
    pub(crate) fn noise(&mut self, deviation: f64) -> f64 {
        (deviation * self.normal()).exp()
    }
}
