//! An endpoint that is new or was away gets its share bit by bit.

use std::time::Duration;

use forebay_core::Time;
use serde::{Deserialize, Serialize};

/// How an endpoint ramps up. The factor is Envoy's:
/// `max(floor, (time since ready / window) ^ (1 / aggression))`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowStart {
    /// How long it takes; zero: it gets its share at once.
    pub window: Duration,
    /// 1 ramps evenly; above 1 faster at first, below 1 slower at first.
    pub aggression: f64,
    /// The share that it has at least, 0 to 1.
    pub floor: f64,
}

impl Default for SlowStart {
    fn default() -> SlowStart {
        SlowStart { window: Duration::from_secs(10), aggression: 1.0, floor: 0.1 }
    }
}

impl SlowStart {
    /// The share of its load that an endpoint may have, above 0 and at most 1.
    pub fn factor(&self, ready_since: Option<Time>, now: Time) -> f64 {
        let Some(since) = ready_since else { return 1.0 };
        let passed = now.since(since);
        if passed >= self.window {
            return 1.0;
        }
        let share = passed.as_secs_f64() / self.window.as_secs_f64();
        let aggression =
            if self.aggression.is_finite() && self.aggression > 0.0 { self.aggression } else { 1.0 };
        share.powf(aggression.recip()).max(self.floor).clamp(1e-3, 1.0)
    }

    /// Whether it is still ramping up.
    pub fn is_ramping(&self, ready_since: Option<Time>, now: Time) -> bool {
        ready_since.is_some_and(|since| now.since(since) < self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_is_envoys() {
        let at = |s: f64| Time::from_millis_f64(s * 1e3);
        let slow = SlowStart::default();
        assert_eq!(slow.factor(None, at(5.0)), 1.0);
        assert_eq!(slow.factor(Some(at(0.0)), at(0.0)), 0.1);
        assert!((slow.factor(Some(at(0.0)), at(5.0)) - 0.5).abs() < 1e-9);
        assert_eq!(slow.factor(Some(at(0.0)), at(10.0)), 1.0);
        let eager = SlowStart { aggression: 2.0, ..slow };
        assert!((eager.factor(Some(at(0.0)), at(2.5)) - 0.5).abs() < 1e-9);
        let off = SlowStart { window: Duration::ZERO, ..slow };
        assert_eq!(off.factor(Some(at(0.0)), at(0.0)), 1.0);
    }
}
