//! Network time apart from processing time.

use forebay_core::Time;
use serde::{Deserialize, Serialize};

/// Nanoseconds in one of the two windows that make the last minute.
const WINDOW_NS: u64 = 30_000_000_000;

/// The lowest round trip to each endpoint within about the last minute, from
/// connects and probes: the least is the network, what is above it is queueing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkTime {
    slots: Vec<Option<Windows>>,
}

/// The lowest value of the running half minute and of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Windows {
    window: u64,
    current: f64,
    previous: Option<f64>,
}

impl NetworkTime {
    /// Nothing measured.
    pub fn new() -> NetworkTime {
        NetworkTime::default()
    }

    /// Counts a round trip to the endpoint of `slot`; ignored unless finite
    /// and not negative.
    pub fn observe(&mut self, slot: u32, round_trip_ms: f64, now: Time) {
        if !(round_trip_ms.is_finite() && round_trip_ms >= 0.0) {
            return;
        }
        let index = slot as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        let window = now.as_nanos() / WINDOW_NS;
        self.slots[index] = Some(match self.slots[index] {
            Some(seen) if window <= seen.window => {
                Windows { current: seen.current.min(round_trip_ms), ..seen }
            }
            Some(seen) => Windows {
                window,
                current: round_trip_ms,
                previous: (window == seen.window + 1).then_some(seen.current),
            },
            None => Windows { window, current: round_trip_ms, previous: None },
        });
    }

    /// The lowest round trip in milliseconds; zero when none was ever
    /// measured. An endpoint that was not measured for a minute keeps its last
    /// value: the network did not become faster because nobody looked.
    pub fn lowest_ms(&self, slot: u32) -> f64 {
        match self.slots.get(slot as usize).copied().flatten() {
            Some(seen) => seen.previous.map_or(seen.current, |p| p.min(seen.current)),
            None => 0.0,
        }
    }

    /// Forgets an endpoint that left.
    pub fn leave(&mut self, slot: u32) {
        if let Some(seen) = self.slots.get_mut(slot as usize) {
            *seen = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn the_lowest_of_the_last_minute_counts() {
        let mut network = NetworkTime::new();
        assert_eq!(network.lowest_ms(3), 0.0);
        network.observe(3, 0.4, at(1.0));
        network.observe(3, 2.0, at(29.0));
        assert_eq!(network.lowest_ms(3), 0.4);
        network.observe(3, 1.5, at(31.0));
        assert_eq!(network.lowest_ms(3), 0.4);
        // The route changed: the old minimum goes with its window.
        network.observe(3, 1.7, at(61.0));
        assert_eq!(network.lowest_ms(3), 1.5);
        network.observe(3, 1.9, at(1000.0));
        assert_eq!(network.lowest_ms(3), 1.9);
        assert_eq!(network.lowest_ms(2), 0.0);
        network.leave(3);
        network.leave(99);
        assert_eq!(network.lowest_ms(3), 0.0);
    }

    #[test]
    fn nonsense_is_ignored() {
        let mut network = NetworkTime::new();
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            network.observe(0, bad, at(1.0));
        }
        assert_eq!(network, NetworkTime::new());
        network.observe(0, 3.0, at(40.0));
        network.observe(0, 2.0, at(1.0));
        assert_eq!(network.lowest_ms(0), 2.0);
    }
}
