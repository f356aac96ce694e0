//! How many requests end at an endpoint, as this gateway sees it.

use forebay_core::Time;
use serde::{Deserialize, Serialize};

use super::Endpoints;

/// Over how many seconds the rates are taken: some ten requests at an endpoint
/// that serves one in three seconds.
const RATE_S: f64 = 30.0;
/// Rates of a shorter time than this are not taken for anything.
const LEAST_S: f64 = 1.0;

/// Requests that ended there lately, fading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Served {
    /// When the first one ended.
    since: Option<Time>,
    at: Time,
    finished: f64,
    failed: f64,
}

impl Served {
    fn kept(&self, now: Time) -> f64 {
        (-now.since(self.at).as_secs_f64() / RATE_S).exp()
    }

    fn count(&mut self, failed: bool, now: Time) {
        let kept = self.kept(now);
        self.finished *= kept;
        self.failed *= kept;
        *(if failed { &mut self.failed } else { &mut self.finished }) += 1.0;
        self.at = self.at.max(now);
        self.since.get_or_insert(now);
    }

    /// Requests per second that finished and that failed.
    fn rates(&self, now: Time) -> (f64, f64) {
        let Some(since) = self.since else { return (0.0, 0.0) };
        let age = now.since(since).as_secs_f64().max(LEAST_S);
        // The sums of a steady rate, not yet full while it is young.
        let full = RATE_S * (1.0 - (-age / RATE_S).exp());
        let kept = self.kept(now) / full;
        (self.finished * kept, self.failed * kept)
    }
}

impl Endpoints {
    /// A request ended there: it finished, or failed by the endpoint's fault.
    pub(crate) fn count_end(&mut self, slot: u32, finished: bool, failed: bool, now: Time) {
        if finished || failed {
            self.served[slot as usize].count(failed, now);
        }
    }

    /// Requests of this gateway per second that finished and that failed there,
    /// over the last half minute or so.
    pub(crate) fn end_rates(&self, slot: u32, now: Time) -> (f64, f64) {
        self.served[slot as usize].rates(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: f64) -> Time {
        Time::from_millis_f64(s * 1e3)
    }

    #[test]
    fn a_steady_rate_reads_as_it_is_also_while_young() {
        let mut served = Served::default();
        assert_eq!(served.rates(at(5.0)), (0.0, 0.0));
        for i in 0..400 {
            served.count(i % 4 == 3, at(100.0 + f64::from(i) * 0.25));
            if i >= 40 {
                let (finished, failed) = served.rates(at(100.0 + f64::from(i) * 0.25));
                assert!(
                    (finished - 3.0).abs() < 0.4 && (failed - 1.0).abs() < 0.25,
                    "{i}: {finished} {failed}"
                );
            }
        }
        let (finished, _) = served.rates(at(100.0 + 100.0 + 60.0));
        assert!((0.2..0.7).contains(&finished), "fades: {finished}");
        // Two at once are no thousand per second.
        let mut two = Served::default();
        two.count(false, at(1.0));
        two.count(false, at(1.0));
        assert!(two.rates(at(1.0)).0 < 2.1);
    }
}
