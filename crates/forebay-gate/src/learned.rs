//! What a pool learns from its own traffic.

use std::time::Duration;

use forebay_core::{RequestFacts, Time};
use forebay_predict::{Arrivals, ErrorStats, Ewma, LoadTime, TpotCorrection, Watchdog};
use serde::{Deserialize, Serialize};

use crate::endpoints::Endpoints;
use crate::peers::PeerWord;
use crate::pick::cost::{SLO_CLASSES, SloClass, Weights};

/// What a missed TPOT limit costs when there is no TTFT limit to measure it
/// by, in milliseconds.
const VALUE_WITHOUT_TTFT: f32 = 5000.0;
/// Critical requests are worth this many standard ones.
const CRITICAL_VALUE: f32 = 4.0;

/// Arrivals, sizes and corrections of one pool; the same whatever its policy,
/// so that a policy that is switched to does not begin from nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Learned {
    arrivals: Arrivals,
    /// Milliseconds of capacity that a request takes.
    capacity: Ewma,
    /// Output tokens of a request that finished.
    output: Ewma,
    /// Share of a prompt that was held where it was sent.
    held: Ewma,
    correction: TpotCorrection,
    /// What an endpoint takes to load an adapter.
    adapter_load: LoadTime,
    classes: Vec<SloClass>,
    /// The fastest prefill of the pool, in milliseconds per token.
    fastest: f32,
    fastest_at: Time,
    /// Thousands of prompt tokens that the pool usually has in flight for each
    /// token that its endpoints can prefill in a millisecond; 0 while there are
    /// hardly any.
    usual_mean: f32,
    /// Whether the pool's predictions can be relied on.
    pub(crate) watchdog: Watchdog,
    /// First tokens seen, and how far off their predictions were.
    pub(crate) errors: ErrorStats,
    /// The same for the time per token, and for the length of answers.
    pub(crate) tpot_errors: ErrorStats,
    pub(crate) output_errors: ErrorStats,
    /// Requests that the shadow policy would have sent to the same endpoint.
    pub(crate) shadow_agreed: u64,
    /// Requests that it was asked about.
    pub(crate) shadow_asked: u64,
    /// Sum of what its choices would have cost more, where they would have
    /// cost more, in milliseconds of price.
    pub(crate) shadow_dearer_ms: f64,
    /// Sum of what they would have cost less, where they would have cost less.
    pub(crate) shadow_cheaper_ms: f64,
}

impl Default for Learned {
    fn default() -> Learned {
        Learned {
            arrivals: Arrivals::new(),
            capacity: Ewma::new(0.995, 100.0, 20.0),
            output: Ewma::new(0.99, 200.0, 10.0),
            held: Ewma::new(0.98, 0.0, 10.0),
            correction: TpotCorrection::new(),
            adapter_load: LoadTime::new(),
            classes: Vec::new(),
            fastest: 0.0,
            fastest_at: Time::ZERO,
            usual_mean: 0.0,
            watchdog: Watchdog::default(),
            errors: ErrorStats::default(),
            tpot_errors: ErrorStats::default(),
            output_errors: ErrorStats::default(),
            shadow_agreed: 0,
            shadow_asked: 0,
            shadow_dearer_ms: 0.0,
            shadow_cheaper_ms: 0.0,
        }
    }
}

/// The fastest endpoint is looked for anew this often.
const FASTEST_EVERY: Duration = Duration::from_millis(250);

impl Learned {
    pub(crate) fn arrive(&mut self, now: Time) {
        self.arrivals.arrive(now);
    }

    pub(crate) fn arrivals_per_ms(&self, now: Time) -> f32 {
        self.arrivals.per_ms(now) as f32
    }

    /// A request that takes so much of its endpoint's own time, and of whose
    /// prompt so much was held there, was sent.
    pub(crate) fn dispatched(&mut self, capacity_ms: f32, held_share: f32) {
        self.held.add(f64::from(held_share.clamp(0.0, 1.0)));
        self.capacity.add(f64::from(capacity_ms.max(1.0)));
    }

    pub(crate) fn capacity_ms(&self) -> f32 {
        self.capacity.value().max(1.0) as f32
    }

    /// Share of the prompts that is found held, 0 to 1.
    pub(crate) fn held_share(&self) -> f32 {
        self.held.value() as f32
    }

    /// An answer was whole and had so many tokens.
    pub(crate) fn finished(&mut self, tokens: u32) {
        // No single answer counts for more than a few of the usual ones.
        let most = self.output.value() * 8.0 + 1024.0;
        self.output.add(f64::from(tokens.max(1)).min(most));
    }

    pub(crate) fn usual_output(&self) -> f32 {
        self.output.value().max(1.0) as f32
    }

    /// Observed against predicted time per token, both in milliseconds.
    pub(crate) fn tpot(&mut self, observed_ms: f64, predicted_ms: f64) {
        self.correction.observe(observed_ms, predicted_ms);
    }

    pub(crate) fn gamma(&self) -> f32 {
        self.correction.value() as f32
    }

    pub(crate) fn classes(&self) -> &[SloClass] {
        &self.classes
    }

    /// The class of a request by its TPOT limit and what a miss is worth. Past
    /// the bound the nearest existing class is taken: limits come from clients.
    pub(crate) fn class_of(&mut self, facts: &RequestFacts, weights: &Weights) -> u8 {
        let limit = facts.slo.tpot_ms.filter(|ms| *ms > 0.0).unwrap_or(f32::INFINITY);
        self.index_of(SloClass { tpot_limit: limit, value: value_of(facts, weights) })
    }

    /// Turns the classes of a peer's word into this pool's own.
    pub(crate) fn translate(&mut self, word: &mut PeerWord) {
        let classes: Vec<usize> =
            word.classes.iter().take(SLO_CLASSES).map(|class| usize::from(self.index_of(*class))).collect();
        for (_, load) in &mut word.loads {
            let theirs = std::mem::take(&mut load.classes);
            for (count, &own) in theirs.iter().zip(&classes) {
                load.classes[own] = load.classes[own].saturating_add(*count);
            }
        }
    }

    fn index_of(&mut self, class: SloClass) -> u8 {
        if let Some(at) = self.classes.iter().position(|known| *known == class) {
            return at as u8;
        }
        if self.classes.len() < SLO_CLASSES {
            self.classes.push(class);
            return self.classes.len() as u8 - 1;
        }
        let distance = |known: &SloClass| {
            let ratio = (known.tpot_limit / class.tpot_limit).ln().abs();
            // Infinity over infinity: both without a limit.
            let apart = if ratio.is_nan() { 0.0 } else { ratio };
            apart + ((known.value + 1.0) / (class.value + 1.0)).ln().abs()
        };
        let nearest = self.classes.iter().enumerate().min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
        nearest.map_or(0, |(at, _)| at as u8)
    }

    /// 1 over the usual load for each unit of speed; 0 when there is hardly any.
    pub(crate) fn usual_mean_inverse(&self) -> f32 {
        if self.usual_mean > 0.0 { self.usual_mean.recip() } else { 0.0 }
    }

    pub(crate) fn fastest(&self) -> f32 {
        self.fastest
    }

    /// A first token came so many milliseconds later than it would have been
    /// expected without its adapter to be loaded first.
    pub(crate) fn adapter_loaded(&mut self, excess_ms: f64) {
        self.adapter_load.observe(excess_ms);
    }

    pub(crate) fn adapter_load_ms(&self) -> f32 {
        self.adapter_load.ms() as f32
    }

    /// Whether [`Learned::refresh`] has something to do.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.fastest <= 0.0 || now.since(self.fastest_at) >= FASTEST_EVERY
    }

    /// Looks for the fastest endpoint among all that this gateway sends to,
    /// when that is due; O(members).
    pub(crate) fn refresh(&mut self, now: Time, members: &[u32], endpoints: &Endpoints) {
        if !self.is_due(now) {
            return;
        }
        self.fastest_at = now;
        let least = members.iter().map(|&slot| endpoints.row(slot).per_token).fold(f32::INFINITY, f32::min);
        let usual: f32 = members.iter().map(|&slot| endpoints.row(slot).usual).sum();
        let speed: f32 = members.iter().map(|&slot| endpoints.row(slot).per_token.recip()).sum();
        // Of next to nothing no share is too large.
        let busy = usual >= members.len() as f32;
        self.usual_mean = if busy && speed.is_finite() { usual / speed } else { 0.0 };
        self.fastest = if least.is_finite() { least } else { 1.0 };
    }
}

/// What a miss of this request's limits costs, in milliseconds of delay that
/// one would accept to avoid it.
pub(crate) fn value_of(facts: &RequestFacts, weights: &Weights) -> f32 {
    let base = match (facts.slo.ttft_ms, facts.slo.tpot_ms) {
        (Some(limit), _) => weights.miss * limit,
        (None, Some(_)) => VALUE_WITHOUT_TTFT * weights.miss / 2.5,
        (None, None) => 0.0,
    };
    let priority = facts.priority.0;
    if priority < 0 {
        return 0.0;
    }
    let share = (priority as f32 / forebay_core::Priority::CRITICAL.0 as f32).min(1.0);
    base * (1.0 + (CRITICAL_VALUE - 1.0) * share)
}

/// What a request cost that was lost after so long: the time, as that until a
/// first token that never came, and its miss.
pub(crate) fn lost_ms(facts: &RequestFacts, weights: &Weights, took: Duration) -> f32 {
    weights.ttft * took.as_secs_f32() * 1e3 + value_of(facts, weights)
}

#[cfg(test)]
mod tests {
    use forebay_core::{Priority, Slo};

    use super::*;
    use crate::Profile;

    fn facts(ttft: Option<f32>, tpot: Option<f32>, priority: Priority) -> RequestFacts {
        RequestFacts { slo: Slo { ttft_ms: ttft, tpot_ms: tpot }, priority, ..RequestFacts::default() }
    }

    #[test]
    fn a_miss_is_worth_what_the_priority_says() {
        let weights = Profile::Balanced.weights();
        let value = |ttft, tpot, priority| value_of(&facts(ttft, tpot, priority), &weights);
        assert_eq!(value(Some(2000.0), Some(50.0), Priority::STANDARD), 5000.0);
        assert_eq!(value(Some(2000.0), None, Priority::CRITICAL), 20_000.0);
        assert_eq!(value(Some(2000.0), None, Priority::SHEDDABLE), 0.0);
        assert_eq!(value(None, Some(50.0), Priority::STANDARD), 5000.0);
        assert_eq!(value(None, None, Priority::CRITICAL), 0.0);
    }

    #[test]
    fn classes_are_bounded_whatever_clients_ask() {
        let mut learned = Learned::default();
        let weights = Profile::Balanced.weights();
        for tpot in 1..1000 {
            let class = learned.class_of(&facts(None, Some(tpot as f32), Priority::STANDARD), &weights);
            assert!(usize::from(class) < learned.classes().len());
        }
        assert_eq!(learned.classes().len(), SLO_CLASSES);
        assert_eq!(learned.class_of(&facts(None, Some(3.0), Priority::STANDARD), &weights), 2);
    }
}
