//! The load that a policy carries.

use serde::Serialize;

use super::policies::Named;
use super::rows::Row;
use super::table::trimmed;

/// Goodput that is good enough.
pub(super) const GOAL: f64 = 0.9;

/// The highest load at which a policy still keeps its promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Capacity {
    pub(super) policy: String,
    pub(super) rival: bool,
    /// Requests per second with [`GOAL`] goodput, between two rates by a straight line.
    pub(super) rate: f64,
    /// The lowest rate was already too much (`rate` is that one): it is less.
    pub(super) below: bool,
    /// The highest rate was not too much (`rate` is that one): it may be more.
    pub(super) above: bool,
}

impl Capacity {
    pub(super) fn show(&self) -> String {
        let sign = match (self.below, self.above) {
            (true, _) => "< ",
            (_, true) => "≥ ",
            _ => "",
        };
        format!("{sign}{}", trimmed(self.rate))
    }
}

/// Of every policy, best first; empty with fewer than two loads.
pub(super) fn of(policies: &[Named], rows: &[Row]) -> Vec<Capacity> {
    let mut all: Vec<Capacity> = policies
        .iter()
        .filter_map(|policy| {
            let points: Vec<(f64, f64)> = rows
                .iter()
                .filter(|row| row.policy == policy.name)
                .filter_map(|row| Some((row.rate?, row.goodput)))
                .collect();
            let (rate, below, above) = highest(&points)?;
            Some(Capacity { policy: policy.name.clone(), rival: policy.is_rival(), rate, below, above })
        })
        .collect();
    all.sort_by(|a, b| a.below.cmp(&b.below).then(b.rate.total_cmp(&a.rate)));
    all
}

/// Where goodput first falls below the goal, by rate and goodput in order of
/// rate; and whether that is below or above all of them.
fn highest(points: &[(f64, f64)]) -> Option<(f64, bool, bool)> {
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 2 {
        return None;
    }
    if first.1 < GOAL {
        return Some((first.0, true, false));
    }
    for pair in points.windows(2) {
        let ((from, good), (to, bad)) = (pair[0], pair[1]);
        if bad < GOAL {
            return Some((from + (to - from) * (good - GOAL) / (good - bad), false, false));
        }
    }
    Some((last.0, false, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_where_goodput_falls_below_the_goal() {
        assert_eq!(highest(&[(1.0, 1.0)]), None);
        assert_eq!(highest(&[(1.0, 0.8), (2.0, 0.95)]), Some((1.0, true, false)));
        assert_eq!(highest(&[(1.0, 1.0), (2.0, 0.95)]), Some((2.0, false, true)));
        let (rate, below, above) = highest(&[(1.0, 1.0), (2.0, 0.95), (4.0, 0.85), (8.0, 0.99)]).unwrap();
        assert!((rate - 3.0).abs() < 1e-9 && !below && !above);
    }
}
