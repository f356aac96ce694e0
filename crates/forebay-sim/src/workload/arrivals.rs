//! When requests come by themselves.

use std::sync::Arc;

use forebay_core::Time;
use rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1, Gamma};
use rand_pcg::Pcg64Mcg;

use super::{WorkloadError, positive};

/// A process of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalSpec {
    /// Seconds from the start, in order, and requests per second from then on
    /// until the next one. After the last one it begins again from the first,
    /// `period` seconds after the start.
    pub curve: Arc<[(f64, f64)]>,
    /// Seconds after which the curve begins again; 0: never.
    pub period: f64,
    /// Standard deviation over mean of the time between two arrivals, at a
    /// constant rate: 1 is a Poisson process, 13 what a code assistant's users did.
    pub cv: f64,
}

impl ArrivalSpec {
    /// A Poisson process.
    pub fn poisson(rate: f64) -> ArrivalSpec {
        ArrivalSpec::bursty(rate, 1.0)
    }

    /// A constant rate that comes in bursts.
    pub fn bursty(rate: f64, cv: f64) -> ArrivalSpec {
        ArrivalSpec { curve: Arc::from([(0.0, rate)]), period: 0.0, cv }
    }

    /// Refuses what makes no arrivals.
    ///
    /// # Errors
    /// Names the first such value.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        let first = self.curve.first().map_or(f64::NAN, |(at, _)| *at);
        if first != 0.0 {
            return Err(WorkloadError {
                field: "arrivals.curve",
                given: first,
                what: "is not where it begins: 0",
            });
        }
        let mut most = 0.0f64;
        for pair in self.curve.windows(2) {
            positive("arrivals.curve (its times must grow)", pair[1].0 - pair[0].0)?;
        }
        for (_, rate) in self.curve.iter() {
            super::at_most("arrivals.rate", *rate, 1e7)?;
            most = most.max(*rate);
        }
        positive("arrivals.rate", most)?;
        let last = self.curve.last().map_or(0.0, |(at, _)| *at);
        if self.period != 0.0 {
            positive("arrivals.period", self.period - last)?;
        } else {
            positive("arrivals.rate (the last one)", self.curve.last().map_or(0.0, |(_, rate)| *rate))?;
        }
        positive("arrivals.cv", self.cv)?;
        super::at_most("arrivals.cv", self.cv, 50.0)
    }
}

/// The arrivals of a process, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    spec: ArrivalSpec,
    gaps: Option<Gamma<f64>>,
    rng: Pcg64Mcg,
    /// Seconds since the start.
    at: f64,
    /// Which stretch of the curve, and when the curve began.
    stretch: usize,
    began: f64,
}

/// Stretches that are passed over in vain before the process is taken to have ended.
const MOST_STRETCHES: u32 = 1_000_000;

impl Arrivals {
    pub(crate) fn new(spec: &ArrivalSpec, seed: u64) -> Arrivals {
        // Gaps have mean 1 here; the rate stretches time.
        let shape = 1.0 / (spec.cv * spec.cv);
        let gaps = if spec.cv == 1.0 { None } else { Gamma::new(shape, 1.0 / shape).ok() };
        Arrivals {
            spec: spec.clone(),
            gaps,
            rng: Pcg64Mcg::seed_from_u64(seed ^ 0x6172_7269),
            at: 0.0,
            stretch: 0,
            began: 0.0,
        }
    }

    /// When the next one comes; none when none comes any more.
    pub(crate) fn next_time(&mut self) -> Option<Time> {
        let mut left = match &self.gaps {
            Some(gaps) => gaps.sample(&mut self.rng),
            None => Exp1.sample(&mut self.rng),
        };
        for _ in 0..MOST_STRETCHES {
            let (_, rate) = *self.spec.curve.get(self.stretch)?;
            let end = match self.spec.curve.get(self.stretch + 1) {
                Some((next, _)) => self.began + next,
                None if self.spec.period > 0.0 => self.began + self.spec.period,
                None => f64::INFINITY,
            };
            let room = (end - self.at) * rate;
            if left <= room && rate > 0.0 {
                self.at += left / rate;
                return Some(Time::from_millis_f64(self.at * 1e3));
            }
            if end.is_infinite() {
                return None;
            }
            left -= room;
            self.at = end;
            self.stretch += 1;
            if self.stretch == self.spec.curve.len() {
                self.stretch = 0;
                self.began = end;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(spec: &ArrivalSpec, count: usize) -> Vec<f64> {
        let mut arrivals = Arrivals::new(spec, 5);
        let times: Vec<f64> =
            (0..count).map(|_| arrivals.next_time().unwrap().as_millis_f64() * 1e-3).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn rate_and_burstiness_are_as_asked() {
        for (rate, cv) in [(10.0, 1.0), (10.0, 0.3), (3.0, 4.0)] {
            let gaps = gaps(&ArrivalSpec::bursty(rate, cv), 200_000);
            let n = gaps.len() as f64;
            let mean = gaps.iter().sum::<f64>() / n;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
            assert!((mean * rate - 1.0).abs() < 0.05, "{mean}");
            assert!((variance.sqrt() / mean / cv - 1.0).abs() < 0.1, "{cv}: {}", variance.sqrt() / mean);
        }
    }

    #[test]
    fn a_curve_is_followed_and_repeated() {
        let spec =
            ArrivalSpec { curve: Arc::from([(0.0, 10.0), (10.0, 0.0), (20.0, 40.0)]), period: 30.0, cv: 1.0 };
        spec.validate().unwrap();
        let mut arrivals = Arrivals::new(&spec, 1);
        let mut counts = [0u32; 9];
        while let Some(at) = arrivals.next_time() {
            let Some(count) = counts.get_mut((at.as_millis_f64() / 10_000.0) as usize) else { break };
            *count += 1;
        }
        for (i, want) in [100, 0, 400, 100, 0, 400, 100, 0, 400].into_iter().enumerate() {
            assert!(counts[i].abs_diff(want) <= want / 3, "{counts:?}");
        }
    }

    #[test]
    fn what_makes_no_arrivals_is_refused_by_name() {
        let refused = |spec: ArrivalSpec| spec.validate().unwrap_err().to_string();
        assert!(refused(ArrivalSpec::poisson(0.0)).contains("arrivals.rate"));
        assert!(refused(ArrivalSpec::poisson(f64::NAN)).contains("NaN"));
        assert!(refused(ArrivalSpec::bursty(1.0, -1.0)).contains("arrivals.cv cannot be -1"));
        let curve: Arc<[(f64, f64)]> = Arc::from([(0.0, 1.0), (5.0, 2.0), (5.0, 1.0)]);
        assert!(refused(ArrivalSpec { curve, period: 0.0, cv: 1.0 }).contains("grow"));
    }
}
