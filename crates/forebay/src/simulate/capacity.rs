//! The load that a policy carries.

use serde::Serialize;

use super::policies::Named;
use super::rows::Row;
use super::table::trimmed;

/// Goodput that is good enough.
pub(super) const GOAL: f64 = 0.9;
/// A gap between two rates of such a part of the rate needs no closer look.
pub(super) const CLOSE: f64 = 0.02;

/// The highest load at which a policy still keeps its promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Capacity {
    pub(super) policy: String,
    pub(super) rival: bool,
    /// Requests per second with [`GOAL`] goodput, between two rates by a straight line.
    pub(super) rate: f64,
    /// Those two rates; none where it is below or above all of them.
    pub(super) between: Option<[f64; 2]>,
    /// They are far apart, and nobody looked closer: it may be off by several per cent.
    pub(super) rough: bool,
    /// The lowest rate was already too much (`rate` is that one): it is less.
    pub(super) below: bool,
    /// The highest rate was not too much (`rate` is that one): it may be more.
    pub(super) above: bool,
}

impl Capacity {
    pub(super) fn show(&self) -> String {
        let sign = match (self.below, self.above, self.rough) {
            (true, ..) => "< ",
            (_, true, _) => "≥ ",
            (.., true) => "~ ",
            _ => "",
        };
        format!("{sign}{}", trimmed(self.rate))
    }

    /// The two rates around it; empty without them.
    pub(super) fn show_between(&self) -> String {
        self.between.map_or_else(String::new, |[from, to]| format!("{}–{}", trimmed(from), trimmed(to)))
    }
}

/// Of every policy, best first; empty with fewer than two loads. `refined` are
/// rows at further rates.
pub(super) fn of(policies: &[Named], rows: &[Row], refined: &[Row]) -> Vec<Capacity> {
    let mut all: Vec<Capacity> = policies
        .iter()
        .filter_map(|policy| {
            let curve = curve(&policy.name, rows, refined);
            let points: Vec<(f64, f64)> =
                curve.iter().filter_map(|row| Some((row.rate?, row.goodput))).collect();
            let found = highest(&points)?;
            let is_wide = found.between.is_some_and(|[from, to]| to - from > CLOSE * to);
            let rough = is_wide && !refined.iter().any(|row| row.policy == policy.name);
            Some(Capacity { policy: policy.name.clone(), rival: policy.is_rival(), rough, ..found })
        })
        .collect();
    all.sort_by(|a, b| a.below.cmp(&b.below).then(b.rate.total_cmp(&a.rate)));
    all
}

/// All rows of a policy in order of their rates.
pub(super) fn curve<'a>(policy: &str, rows: &'a [Row], refined: &'a [Row]) -> Vec<&'a Row> {
    let mut curve: Vec<&Row> = rows.iter().chain(refined).filter(|row| row.policy == policy).collect();
    curve.sort_by(|a, b| a.rate.unwrap_or(0.0).total_cmp(&b.rate.unwrap_or(0.0)));
    curve
}

/// Where goodput first falls below the goal, by rate and goodput in order of rate.
fn highest(points: &[(f64, f64)]) -> Option<Capacity> {
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 2 {
        return None;
    }
    let at = |rate: f64| Capacity {
        policy: String::new(),
        rival: false,
        rate,
        between: None,
        rough: false,
        below: false,
        above: false,
    };
    if first.1 < GOAL {
        return Some(Capacity { below: true, ..at(first.0) });
    }
    for pair in points.windows(2) {
        let ((from, good), (to, bad)) = (pair[0], pair[1]);
        if bad < GOAL {
            let rate = from + (to - from) * (good - GOAL) / (good - bad);
            return Some(Capacity { between: Some([from, to]), ..at(rate) });
        }
    }
    Some(Capacity { above: true, ..at(last.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_where_goodput_falls_below_the_goal() {
        let found = |points: &[(f64, f64)]| highest(points).map(|c| (c.rate, c.below, c.above, c.between));
        assert_eq!(found(&[(1.0, 1.0)]), None);
        assert_eq!(found(&[(1.0, 0.8), (2.0, 0.95)]), Some((1.0, true, false, None)));
        assert_eq!(found(&[(1.0, 1.0), (2.0, 0.95)]), Some((2.0, false, true, None)));
        let (rate, below, above, between) =
            found(&[(1.0, 1.0), (2.0, 0.95), (4.0, 0.85), (8.0, 0.99)]).unwrap();
        assert!((rate - 3.0).abs() < 1e-9 && !below && !above);
        assert_eq!(between, Some([2.0, 4.0]));
    }
}
