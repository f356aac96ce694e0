//! How good one set of prices is: cost per unit of ideal cost, with its error.

use serde::{Deserialize, Serialize};

/// Sums over the requests that one alternative was used for, faded.
///
/// The estimate is the ratio of the sums and not the mean of the ratios: it is
/// the total cost that is to be least, and a short request's ratio is mostly
/// noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Evidence {
    weight: f64,
    weight_squared: f64,
    cost: f64,
    ideal: f64,
    cost_cost: f64,
    cost_ideal: f64,
    ideal_ideal: f64,
}

impl Evidence {
    /// Everything counts this much less from now on.
    pub(super) fn fade(&mut self, keep: f64) {
        self.weight *= keep;
        self.weight_squared *= keep * keep;
        self.cost *= keep;
        self.ideal *= keep;
        self.cost_cost *= keep;
        self.cost_ideal *= keep;
        self.ideal_ideal *= keep;
    }

    pub(super) fn add(&mut self, cost: f64, ideal: f64) {
        self.weight += 1.0;
        self.weight_squared += 1.0;
        self.cost += cost;
        self.ideal += ideal;
        self.cost_cost += cost * cost;
        self.cost_ideal += cost * ideal;
        self.ideal_ideal += ideal * ideal;
    }

    /// How many requests it stands for, faded.
    pub(super) fn requests(&self) -> f64 {
        self.weight
    }

    /// Cost over ideal cost; none without evidence.
    pub(super) fn ratio(&self) -> Option<f64> {
        (self.ideal > 0.0).then(|| self.cost / self.ideal)
    }

    /// Variance of the ratio (delta method); infinite for less than two requests.
    pub(super) fn variance(&self) -> f64 {
        let (Some(ratio), true) = (self.ratio(), self.weight > 1.5) else { return f64::INFINITY };
        let rest = self.cost_cost - 2.0 * ratio * self.cost_ideal + ratio * ratio * self.ideal_ideal;
        let spread = rest.max(0.0) / (self.weight - 1.0);
        let mean_ideal = self.ideal / self.weight;
        // Faded weights: as many equal ones as would give the same variance.
        let share = self.weight_squared / (self.weight * self.weight);
        spread / (mean_ideal * mean_ideal) * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_no_noise_and_noise_is() {
        let mut exact = Evidence::default();
        for size in 1..100 {
            exact.add(3.0 * f64::from(size), f64::from(size));
        }
        assert!((exact.ratio().unwrap() - 3.0).abs() < 1e-9 && exact.variance() < 1e-9);
        let mut noisy = Evidence::default();
        for i in 0..400 {
            noisy.add(if i % 2 == 0 { 2.0 } else { 4.0 }, 1.0);
        }
        // Standard deviation 1 over 20.
        assert!((noisy.variance().sqrt() - 0.05).abs() < 1e-3, "{}", noisy.variance());
    }

    #[test]
    fn evidence_fades_to_nothing() {
        let mut evidence = Evidence::default();
        assert_eq!((evidence.ratio(), evidence.variance()), (None, f64::INFINITY));
        for _ in 0..50 {
            evidence.add(2.0, 1.0);
        }
        for _ in 0..2000 {
            evidence.fade(0.99);
        }
        assert!(evidence.requests() < 1e-3 && evidence.variance().is_infinite());
    }
}
