//! A claim's rows in the table, and how figures are written.

use crate::cell::Outcome;
use crate::doc::Doc;
use crate::stats::Mean;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Confirmed,
    Partly,
    NotReached,
}

impl Verdict {
    /// Of several cases: whether each reached what was claimed.
    pub(super) fn of(cases: &[bool]) -> Verdict {
        match cases.iter().filter(|reached| **reached).count() {
            0 => Verdict::NotReached,
            n if n == cases.len() => Verdict::Confirmed,
            _ => Verdict::Partly,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Partly => "partly",
            Verdict::NotReached => "not reached",
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) claimed: &'static str,
    pub(super) reached: String,
    /// One sentence.
    pub(super) conditions: String,
    pub(super) verdict: Verdict,
    /// Why it was not reached, where that is the verdict.
    pub(super) because: String,
}

impl Row {
    pub(super) fn cells(&self) -> Vec<String> {
        let verdict = self.verdict.as_str();
        let verdict =
            if self.verdict == Verdict::NotReached { format!("**{verdict}**") } else { verdict.to_owned() };
        vec![self.claimed.to_owned(), self.reached.clone(), self.conditions.clone(), verdict]
    }

    /// Unless everything was reached.
    pub(super) fn why(&self) -> Option<&str> {
        (self.verdict != Verdict::Confirmed && !self.because.is_empty()).then_some(self.because.as_str())
    }
}

/// A claim with all its rows and what else there is to show.
pub(super) struct Claim {
    pub(super) title: &'static str,
    pub(super) rows: Vec<Row>,
    pub(super) detail: Doc,
}

/// A mean and its interval with so many digits after the point.
pub(super) fn figure(mean: Mean, digits: usize) -> String {
    let width = if mean.half > 0.0 { format!(" ± {:.digits$}", mean.half) } else { String::new() };
    format!("{:.digits$}{width}", mean.mean).replace('-', "−")
}

/// Three digits that count, so that 4.56 and 1,230 are as exact.
pub(super) fn load(mean: Mean) -> String {
    let digits = match mean.mean {
        x if x < 10.0 => 2,
        x if x < 100.0 => 1,
        _ => 0,
    };
    figure(mean, digits)
}

/// A share in per cent.
pub(super) fn share(mean: Mean) -> String {
    figure(Mean { mean: 100.0 * mean.mean, half: 100.0 * mean.half }, 0) + " %"
}

/// A change in per cent, with its sign.
pub(super) fn change(mean: Mean) -> String {
    let sign = if mean.mean > 0.0 { "+" } else { "" };
    format!("{sign}{}", share(mean))
}

/// Of one figure of every seed.
pub(super) fn mean(seeds: &[Outcome], of: impl Fn(&Outcome) -> f64) -> Mean {
    Mean::of(seeds.iter().map(of))
}

/// How much more of something one has than the other, seed by seed, as a share.
pub(super) fn more(ours: &[f64], theirs: &[f64]) -> Mean {
    Mean::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs.max(1e-12) - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_interval_and_a_sign() {
        let mean = Mean { mean: -0.123, half: 0.02 };
        assert_eq!(change(mean), "−12 ± 2 %");
        assert_eq!(change(Mean { mean: 0.5, half: 0.0 }), "+50 %");
        assert_eq!(load(Mean { mean: 4.561, half: 0.1 }), "4.56 ± 0.10");
        assert_eq!(load(Mean { mean: 1234.5, half: 0.0 }), "1234");
    }

    #[test]
    fn a_verdict_counts_cases() {
        assert_eq!(Verdict::of(&[true, true]), Verdict::Confirmed);
        assert_eq!(Verdict::of(&[true, false]), Verdict::Partly);
        assert_eq!(Verdict::of(&[false, false]), Verdict::NotReached);
    }

    #[test]
    fn more_is_seed_by_seed() {
        let more = more(&[2.0, 3.0], &[1.0, 2.0]);
        assert!((more.mean - 0.75).abs() < 1e-12);
    }
}
