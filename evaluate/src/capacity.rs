//! The load at which goodput falls below a limit.

/// Goodput that a fleet must keep to count as carrying a load.
pub(crate) const LIMIT: f64 = 0.9;

/// How the number is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It is the load.
    At,
    /// The load is less: even this one was too much.
    Below,
    /// The load is at least this: nothing above it was tried.
    AtLeast,
}

/// Requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Capacity {
    pub(crate) rate: f64,
    pub(crate) side: Side,
}

/// From loads, in rising order, and the goodput at each; by a straight line
/// between two loads. Where goodput rises with load, which is noise, the loads
/// around share their mean.
pub(crate) fn capacity(points: &[(f64, f64)]) -> Capacity {
    let Some((&(first, _), &(last, _))) = points.first().zip(points.last()) else {
        return Capacity { rate: 0.0, side: Side::AtLeast };
    };
    let falling = falling(&points.iter().map(|(_, goodput)| *goodput).collect::<Vec<_>>());
    if falling[0] < LIMIT {
        return Capacity { rate: first, side: Side::Below };
    }
    for (at, pair) in falling.windows(2).enumerate() {
        let (above, below) = (pair[0], pair[1]);
        if below < LIMIT {
            let (from, to) = (points[at].0, points[at + 1].0);
            let rate = from + (to - from) * (above - LIMIT) / (above - below);
            return Capacity { rate, side: Side::At };
        }
    }
    Capacity { rate: last, side: Side::AtLeast }
}

/// The closest sequence that never rises (pool adjacent violators).
pub(crate) fn falling(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &value in values {
        let (mut mean, mut count) = (value, 1);
        while let Some(&(before, many)) = pools.last()
            && before < mean
        {
            mean = (mean * count as f64 + before * many as f64) / (count + many) as f64;
            count += many;
            pools.pop();
        }
        pools.push((mean, count));
    }
    pools.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[(f64, f64)]) -> (f64, Side) {
        let capacity = capacity(points);
        ((capacity.rate * 1e6).round() / 1e6, capacity.side)
    }

    #[test]
    fn it_lies_between_two_loads() {
        assert_eq!(at(&[(10.0, 1.0), (20.0, 0.95), (30.0, 0.85)]), (25.0, Side::At));
        assert_eq!(at(&[(10.0, 0.9), (20.0, 0.0)]), (10.0, Side::At));
    }

    #[test]
    fn beyond_what_was_tried_it_is_a_bound() {
        assert_eq!(at(&[(10.0, 0.8), (20.0, 0.7)]), (10.0, Side::Below));
        assert_eq!(at(&[(10.0, 1.0), (20.0, 0.9)]), (20.0, Side::AtLeast));
        assert_eq!(at(&[]), (0.0, Side::AtLeast));
    }

    #[test]
    fn noise_is_smoothed() {
        assert_eq!(falling(&[1.0, 0.8, 0.9, 0.5]), [1.0, 0.8500000000000001, 0.8500000000000001, 0.5]);
        assert_eq!(falling(&[0.1, 0.2, 0.3]), [0.20000000000000004; 3]);
        // .89 then .93 is .91 on both: the fall is after them.
        assert_eq!(at(&[(1.0, 0.89), (2.0, 0.93), (3.0, 0.89)]), (2.5, Side::At));
    }
}
