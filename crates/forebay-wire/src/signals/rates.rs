//! What two readings of one endpoint tell together.

use super::{Counters, Signals};

/// Seconds by which a start time may differ between two readings of one
/// process: pages round it to nine or more digits.
const START_TOLERANCE: f64 = 2.0;

/// How far a counter has moved. One that fell was reset, so all of its new
/// value came since; never negative, and zero for values that mean nothing.
pub fn delta(previous: f64, current: f64) -> f64 {
    let moved = if current < previous { current } else { current - previous };
    if moved.is_finite() { moved.max(0.0) } else { 0.0 }
}

/// [`delta`], unknown where either reading is.
pub fn delta_known(previous: Option<f64>, current: Option<f64>) -> Option<f64> {
    Some(delta(previous?, current?))
}

/// Whether the engine began anew between two readings: another start time, or,
/// where that is unknown, a counter that fell.
pub fn restarted(previous: &Signals, current: &Signals) -> bool {
    if let (Some(then), Some(now)) = (previous.process_start, current.process_start)
        && (then - now).abs() > START_TOLERANCE
    {
        return true;
    }
    let pairs = previous.counters.all().into_iter().zip(current.counters.all());
    pairs.into_iter().any(|pair| matches!(pair, (Some(then), Some(now)) if now < then))
}

impl Counters {
    fn all(&self) -> [Option<f64>; 7] {
        [
            self.prompt_tokens,
            self.generation_tokens,
            self.prefix_queries,
            self.prefix_hits,
            self.preemptions,
            self.requests,
            self.rejections,
        ]
    }
}
