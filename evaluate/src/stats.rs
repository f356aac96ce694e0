//! Means over seeds and how sure they are.

/// A mean over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    /// Half the width of its 95 % confidence interval; 0 with one value.
    pub(crate) half: f64,
}

impl Mean {
    /// Of at least one value; NaN of none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Mean {
        let values: Vec<f64> = values.into_iter().collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        if values.len() < 2 {
            return Mean { mean, half: 0.0 };
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Mean { mean, half: student(values.len() - 1) * (variance / n).sqrt() }
    }

    /// Of the differences seed by seed: the same seed is the same traffic.
    pub(crate) fn of_differences(ours: &[f64], theirs: &[f64]) -> Mean {
        Mean::of(ours.iter().zip(theirs).map(|(a, b)| a - b))
    }
}

/// The 97.5 % point of Student's t with so many degrees of freedom.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    TABLE.get(freedom.wrapping_sub(1)).copied().unwrap_or(1.96 + 2.372 / freedom.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let three = Mean::of([1.0, 2.0, 3.0]);
        assert!((three.mean - 2.0).abs() < 1e-12 && (three.half - 2.4843).abs() < 1e-3);
        assert_eq!(Mean::of([5.0]), Mean { mean: 5.0, half: 0.0 });
        let paired = Mean::of_differences(&[1.0, 2.0, 3.0], &[0.5, 1.5, 2.5]);
        assert_eq!(paired, Mean { mean: 0.5, half: 0.0 });
    }
}
