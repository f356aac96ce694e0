//! What an operator says of endpoints' capacity: their weights.

use forebay_core::Time;

use super::Endpoints;

/// First tokens' and quarter seconds' worth of evidence together, from which on
/// a weight that is changed says nothing more of the speed.
const EVIDENCE: f64 = 3.0;

impl Endpoints {
    pub(crate) fn set_weight(&mut self, slot: u32, weight: f64) {
        self.weight[slot as usize] = sane_weight(weight);
    }

    pub(crate) fn weight(&self, slot: u32) -> f64 {
        self.weight[slot as usize]
    }

    /// Relative capacity for the policies that go by one: as the operator says,
    /// or from the speeds that were learned.
    pub(crate) fn capacity(&self, slot: u32, dynamic: bool) -> f64 {
        if !dynamic {
            return self.weight(slot);
        }
        let row = self.row(slot);
        1.0 / f64::from(row.per_token * row.step).sqrt().max(1e-6)
    }

    /// Until an endpoint shows how fast it is, its weight does: against the
    /// mean weight of those of its class among `members`. `own` says whose
    /// weight counts in this pool.
    ///
    /// The class's speed is known by its name. To take the weight itself for a
    /// multiple of it would count an `h100` with twice the weight of an `a100`
    /// twice: equal weights in a class say nothing.
    pub(crate) fn weigh(&mut self, members: &[u32], own: impl Fn(u32) -> bool, now: Time) {
        let mut classes = vec![(0.0, 0u32); self.models.len()];
        for &slot in members {
            let (sum, count) = &mut classes[usize::from(self.class[slot as usize])];
            *sum += self.weight(slot);
            *count += 1;
        }
        for &slot in members {
            let (sum, count) = classes[usize::from(self.class[slot as usize])];
            let ratio = self.weight(slot) * f64::from(count) / sum;
            // Sums of what people write are off by a rounding.
            let prior = if (ratio - 1.0).abs() < 1e-9 { 1.0 } else { ratio };
            if prior != self.prior[slot as usize] && own(slot) {
                self.expect_speed(slot, prior, now);
            }
        }
    }

    /// An endpoint is taken to be so many times as fast as its class.
    fn expect_speed(&mut self, slot: u32, prior: f64, now: Time) {
        let known = self.speeds.report(slot, now);
        if known.is_none_or(|known| known.prefill_evidence + known.decode_evidence < EVIDENCE) {
            let i = slot as usize;
            self.prior[i] = prior;
            self.speeds.join(slot, self.class[i], prior);
            self.refresh_row(slot);
        }
    }
}

/// Weights come from people; a policy divides by them.
pub(super) fn sane_weight(weight: f64) -> f64 {
    if weight.is_finite() && weight > 0.0 { weight.clamp(1e-6, 1e6) } else { 1.0 }
}
