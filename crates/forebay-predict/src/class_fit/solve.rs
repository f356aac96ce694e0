//! Least squares with three unknowns, from moments that forget.

use serde::{Deserialize, Serialize};

/// Share of the moments that is kept at each sample.
const KEEP: f64 = 0.998;
/// Relative residuals beyond this many spreads count less.
const HUBER: f64 = 1.5;
/// Spread of relative residuals: at first, least and most.
const SPREAD: (f64, f64, f64) = (0.3, 0.03, 1.0);
/// Standard deviation of the ratios before anything was seen.
const PRIOR: f64 = 0.7;

/// Weighted moments of samples `y ≈ θ·x`, each divided by its own prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Moments {
    xx: [[f64; 3]; 3],
    xy: [f64; 3],
    count: f64,
    spread: f64,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { xx: [[0.0; 3]; 3], xy: [0.0; 3], count: 0.0, spread: SPREAD.0 }
    }
}

impl Moments {
    /// Counts a sample; `theta` is the present solution. False when the sample
    /// cannot be used.
    pub(super) fn add(&mut self, x: [f64; 3], y: f64, theta: &[f64; 3]) -> bool {
        let predicted: f64 = x.iter().zip(theta).map(|(x, t)| x * t).sum();
        if !(predicted.is_finite() && predicted > 1e-9 && y.is_finite() && y < 1e12) {
            return false;
        }
        let residual = (y / predicted - 1.0).abs();
        let limit = HUBER * self.spread;
        let weight = if residual > limit { limit / residual } else { 1.0 };
        let x = x.map(|x| x / predicted);
        let y = y / predicted;
        for (i, row) in self.xx.iter_mut().enumerate() {
            for (j, cell) in row.iter_mut().enumerate() {
                *cell = KEEP * *cell + weight * x[i] * x[j];
            }
            self.xy[i] = KEEP * self.xy[i] + weight * x[i] * y;
        }
        self.count = KEEP * self.count + 1.0;
        let seen = residual.min(3.0 * self.spread);
        self.spread = (self.spread + 0.02 * (seen - self.spread)).clamp(SPREAD.1, SPREAD.2);
        true
    }

    /// Samples that still count.
    pub(super) fn count(&self) -> f64 {
        self.count
    }

    /// The ratios that fit both sets best, and their standard errors.
    pub(super) fn solve(first: &Moments, token: &Moments) -> ([f64; 3], [f64; 3]) {
        // Both in units of their own variance; the prior is one sample of θ = 1.
        let prior = 1.0 / (PRIOR * PRIOR);
        let precisions = [first, token].map(|set| (1.0 / (1.25 * set.spread * 1.25 * set.spread), set));
        let sum = |of: fn(&Moments, usize, usize) -> f64, i, j| -> f64 {
            precisions.iter().map(|(precision, set)| precision * of(set, i, j)).sum()
        };
        let m = [0, 1, 2].map(|i| {
            [0, 1, 2].map(|j| sum(|set, i, j| set.xx[i][j], i, j) + if i == j { prior } else { 0.0 })
        });
        let v = [0, 1, 2].map(|i| sum(|set, i, _| set.xy[i], i, 0) + prior);
        let inverse = inverse(&m);
        let theta = [0, 1, 2].map(|i: usize| (0..3).map(|j| inverse[i][j] * v[j]).sum::<f64>());
        let sane = |t: f64| if t.is_finite() { t.clamp(1e-3, 1e3) } else { 1.0 };
        let error = [0, 1, 2].map(|i: usize| inverse[i][i].max(0.0).sqrt());
        (theta.map(sane), error.map(|e| if e.is_finite() { e } else { PRIOR }))
    }
}

/// Inverse of a symmetric, positive definite matrix (the ridge makes it one).
fn inverse(m: &[[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let minor = |i: usize, j: usize| {
        let (r, c) = ([(i + 1) % 3, (i + 2) % 3], [(j + 1) % 3, (j + 2) % 3]);
        m[r[0]][c[0]] * m[r[1]][c[1]] - m[r[0]][c[1]] * m[r[1]][c[0]]
    };
    let determinant: f64 = (0..3).map(|j| m[0][j] * minor(0, j)).sum();
    [0, 1, 2].map(|i| [0, 1, 2].map(|j| minor(j, i) / determinant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_is_one() {
        let m = [[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]];
        let n = inverse(&m);
        for (i, row) in m.iter().enumerate() {
            for j in [0, 1, 2] {
                let cell: f64 = row.iter().zip(&n).map(|(cell, column)| cell * column[j]).sum();
                assert!((cell - if i == j { 1.0 } else { 0.0 }).abs() < 1e-12, "{i} {j} {cell}");
            }
        }
    }

    #[test]
    fn a_ratio_that_nothing_shows_stays_one() {
        let mut moments = Moments::default();
        let mut theta = [1.0; 3];
        for i in 0..200 {
            let x = [10.0, f64::from(i % 7) * 5.0, 0.0];
            moments.add(x, 20.0 + 1.5 * x[1], &theta);
            theta = Moments::solve(&moments, &Moments::default()).0;
        }
        assert!((theta[0] - 2.0).abs() < 0.05 && (theta[1] - 1.5).abs() < 0.05, "{theta:?}");
        assert!((theta[2] - 1.0).abs() < 1e-9);
    }
}
