//! How many tokens something has.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

use super::WorkloadError;

/// A distribution of token counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Always so many.
    Fixed(u32),
    /// From the first to the second, both included, all alike.
    Uniform(u32, u32),
    /// Log-normal: many short ones and a long tail.
    LogNormal {
        /// The mean, before it is cut off.
        mean: f64,
        /// Standard deviation of the logarithm; 0: always the mean.
        sigma: f64,
        /// Never more.
        most: u32,
    },
}

impl Length {
    pub(crate) fn draw(&self, rng: &mut Pcg64Mcg) -> u32 {
        match *self {
            Length::Fixed(tokens) => tokens,
            Length::Uniform(from, to) => rng.random_range(from.min(to)..=to.max(from)),
            Length::LogNormal { mean, sigma, most } => {
                let z: f64 = StandardNormal.sample(rng);
                let tokens = (mean.max(1e-9).ln() - sigma * sigma / 2.0 + sigma * z).exp();
                // The cast saturates and maps NaN to zero.
                (tokens.round() as u32).clamp(1, most.max(1))
            }
        }
    }

    pub(crate) fn validate(&self, field: &'static str) -> Result<(), WorkloadError> {
        match *self {
            Length::Fixed(tokens) => super::at_most(field, f64::from(tokens), MOST),
            Length::Uniform(from, to) if from > to => {
                Err(WorkloadError { field, given: f64::from(from), what: "is more than the upper bound" })
            }
            Length::Uniform(_, to) => super::at_most(field, f64::from(to), MOST),
            Length::LogNormal { mean, sigma, most } => {
                super::positive(field, mean)?;
                super::at_most(field, sigma, 5.0)?;
                super::at_most(field, f64::from(most), MOST)
            }
        }
    }
}

/// More tokens than any model reads.
const MOST: f64 = 1e8;
