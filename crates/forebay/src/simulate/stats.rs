//! Means over seeds and how sure they are.

use serde::Serialize;

/// A mean over runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Mean {
    /// None when no run has a value.
    pub(super) mean: Option<f64>,
    /// Half the width of its 95 % confidence interval; none with fewer than two values.
    pub(super) half: Option<f64>,
}

impl Mean {
    /// Of one value for each run; runs without a value are left out.
    pub(super) fn of(values: impl IntoIterator<Item = Option<f64>>) -> Mean {
        let values: Vec<f64> = values.into_iter().flatten().filter(|value| value.is_finite()).collect();
        if values.is_empty() {
            return Mean::default();
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let half = (values.len() > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
            student(values.len() - 1) * (variance / n).sqrt()
        });
        Mean { mean: Some(mean), half }
    }
}

/// The 97.5 % point of Student's t with so many degrees of freedom.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match freedom {
        0 => f64::NAN,
        1..=30 => TABLE[freedom - 1],
        // The first terms of its expansion: right to three digits from here on.
        _ => 1.96 + 2.372 / freedom as f64 + 2.8 / (freedom as f64).powi(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let of = |values: &[f64]| Mean::of(values.iter().copied().map(Some));
        assert_eq!(of(&[]), Mean::default());
        assert_eq!(of(&[3.0]), Mean { mean: Some(3.0), half: None });
        // Deviation 1, three values: 4.303 / √3.
        let three = of(&[1.0, 2.0, 3.0]);
        assert_eq!(three.mean, Some(2.0));
        assert!((three.half.unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!(of(&[0.5; 4]).half, Some(0.0));
        assert_eq!(Mean::of([Some(1.0), None, Some(3.0)]).mean, Some(2.0));
        for (freedom, want) in [(31, 2.0395), (60, 2.0003), (120, 1.9799), (1_000_000, 1.96)] {
            assert!((student(freedom) - want).abs() < 1e-3, "{freedom}: {}", student(freedom));
        }
    }
}
