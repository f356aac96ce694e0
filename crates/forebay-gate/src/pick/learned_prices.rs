//! `predictive` with prices that a bandit tunes while it runs.

use forebay_core::Time;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::cost::{self, Weights};
use super::evidence::Evidence;
use super::predictive::{Profiled, block_of, common};
use super::{Note, Observed, Pick, Policy, View};
use crate::policy_kind::PolicyKind;
use crate::profile::Profile;

/// What the alternatives count the first token, the delay of others and a miss
/// for, in multiples of the profile's weights. The first is the profile itself.
const ARMS: [(f32, f32, f32); 7] = [
    (1.0, 1.0, 1.0),
    (0.5, 1.0, 1.0),
    (2.0, 1.0, 1.0),
    (1.0, 0.5, 1.0),
    (1.0, 2.0, 1.0),
    (1.0, 1.0, 0.5),
    (1.0, 1.0, 2.0),
];
/// The profile's own weights.
const DEFAULT: u8 = 0;
/// Load below which a pool is calm, and from which on it is full.
const LOADS: [f32; 2] = [0.4, 0.75];
/// Tokens to be computed below which a prompt is short, and from which on it is long.
const PROMPTS: [u32; 2] = [512, 4096];
/// Circumstances that are told apart: three loads by three sizes.
const CONTEXTS: usize = 9;
/// The share of requests that try something else than what is held to be best.
const EXPLORE: f64 = 0.05;
/// An alternative that is surely worse than the default by more than this
/// share is not tried.
const MARGIN: f64 = 0.05;
/// No alternative is used while all of them together have cost so much more
/// than the default would have. Less than the margin, because the ends of those
/// that are under way will be heard of later.
const BUDGET: f64 = 0.04;
/// What a request counts for after each further one of the same circumstances:
/// about the last two thousand count.
const KEEP: f64 = 0.9995;
/// Standard errors that make it sure.
const SURE: f64 = 2.5;
/// Requests before anything is held against or for an alternative.
const FIRST: f64 = 8.0;
/// Requests before an alternative may take over.
const ENOUGH: f64 = 30.0;
/// A request that took longer than so many times the ideal says no more than that.
const WORST: f64 = 100.0;

/// A request that was lost cost at least so many times the ideal: whoever sent
/// it has to begin again, and what is lost at once must not look cheap.
const LOST: f64 = 10.0;

/// What is known under one set of circumstances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Book {
    arms: [Evidence; ARMS.len()],
    /// Which alternative is in use.
    best: u8,
    /// What the alternatives cost more than the default would have, faded; at
    /// least 0: what was gained is no licence to lose.
    excess: f64,
    /// What everything would have cost with the default, faded.
    total: f64,
}

impl Book {
    fn arm(&self, arm: u8) -> &Evidence {
        &self.arms[usize::from(arm).min(ARMS.len() - 1)]
    }

    /// The alternative for the next request.
    fn choose(&self, base: &Weights, rng: &mut Pcg64Mcg) -> u8 {
        let draw = rng.random::<f64>();
        if self.excess > BUDGET * self.total {
            return DEFAULT;
        }
        if draw >= EXPLORE || self.arm(DEFAULT).requests() < ENOUGH {
            return self.best;
        }
        // One that took over is checked against the default all the time.
        if self.best != DEFAULT && draw < EXPLORE / 2.0 {
            return DEFAULT;
        }
        self.promising(base, rng).unwrap_or(self.best)
    }

    /// Of the alternatives that are not surely too bad, the one that may be best.
    fn promising(&self, base: &Weights, rng: &mut Pcg64Mcg) -> Option<u8> {
        let limit = self.arm(DEFAULT).ratio()? * (1.0 + MARGIN);
        let mut found: Option<(f64, u8)> = None;
        let mut ties = 1u32;
        for arm in 0..ARMS.len() as u8 {
            if arm == DEFAULT || arm == self.best || weights_of(base, arm) == *base {
                continue;
            }
            let evidence = self.arm(arm);
            let least = match evidence.ratio() {
                Some(ratio) if evidence.requests() >= FIRST => ratio - SURE * evidence.variance().sqrt(),
                _ => f64::NEG_INFINITY,
            };
            if least > limit {
                continue;
            }
            match found {
                Some((best, _)) if least > best => {}
                Some((best, _)) if least == best => {
                    ties += 1;
                    if rng.random_range(0..ties) == 0 {
                        found = Some((least, arm));
                    }
                }
                _ => {
                    ties = 1;
                    found = Some((least, arm));
                }
            }
        }
        found.map(|(_, arm)| arm)
    }

    fn learn(&mut self, arm: u8, cost: f64, ideal: f64) {
        for evidence in &mut self.arms {
            evidence.fade(KEEP);
        }
        if let Some(known) = self.arm(DEFAULT).ratio() {
            let more = if arm == DEFAULT { 0.0 } else { cost - known * ideal };
            self.excess = (self.excess * KEEP + more).max(0.0);
            self.total = self.total * KEEP + known * ideal;
        }
        if let Some(evidence) = self.arms.get_mut(usize::from(arm)) {
            evidence.add(cost, ideal);
        }
        self.judge();
    }

    /// Whether another alternative is to be used from now on.
    fn judge(&mut self) {
        let default = *self.arm(DEFAULT);
        let Some(known) = default.ratio().filter(|_| default.requests() >= FIRST) else {
            self.best = DEFAULT;
            return;
        };
        // Back as soon as it is not better any more: that needs no proof.
        if self.arm(self.best).ratio().is_none_or(|ratio| ratio >= known) {
            self.best = DEFAULT;
        }
        for arm in 0..ARMS.len() as u8 {
            let (rival, holder) = (self.arm(arm), self.arm(self.best));
            let (Some(ratio), Some(held)) = (rival.ratio(), holder.ratio()) else { continue };
            let error = (rival.variance() + holder.variance()).sqrt();
            if arm != self.best && ratio < known && rival.requests() >= ENOUGH && held - ratio > SURE * error
            {
                self.best = arm;
            }
        }
    }
}

/// The weights of an alternative.
fn weights_of(base: &Weights, arm: u8) -> Weights {
    let (ttft, harm, miss) = ARMS.get(usize::from(arm)).copied().unwrap_or(ARMS[0]);
    Weights { ttft: base.ttft * ttft, harm: base.harm * harm, miss: base.miss * miss, ..*base }
}

/// A contextual bandit over sets of weights for `predictive`.
///
/// What a request cost is what it took, by the profile's own weights, and what
/// it was predicted to cost others when it was placed (delay of the streams
/// there, their misses, capacity): without the second part the most selfish
/// prices would always win. It is divided by what the request would have cost
/// at the fastest endpoint, idle, with the longest prefix held anywhere and the
/// tokens that came out, so that large and small requests compare.
///
/// Under each of nine circumstances (load by prompt size) one set is in use; at
/// first the profile's. 5 % of the requests try another: the one that may be
/// best, as long as its lower bound is not above the default's mean by more
/// than 5 %. One that is better by 2.5 standard errors takes over, is checked
/// against the default with 2.5 % of the requests from then on, and gives way
/// as soon as its mean is not lower. About the last two thousand requests of
/// each kind count. Whatever happens, once the alternatives together have
/// cost 4 % more than the default would have, only the default is used until
/// that has faded. A request that was lost, by a fault or out of time, cost the
/// time that it took and its miss, and at least ten times the ideal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LearnedPrices {
    inner: Profiled,
    books: Box<[Book; CONTEXTS]>,
    /// What the books are about.
    profile: Profile,
    note: Note,
}

#[cfg(test)]
impl LearnedPrices {
    /// Requests that are remembered of each alternative, under all circumstances.
    pub(super) fn tried(&self) -> [f64; ARMS.len()] {
        let mut tried = [0.0; ARMS.len()];
        for book in self.books.iter() {
            for (sum, arm) in tried.iter_mut().zip(&book.arms) {
                *sum += arm.requests();
            }
        }
        tried
    }
}

/// Load by prompt size.
fn context_of(view: &View<'_>, most_held: u32) -> u8 {
    // Of the pool, as arrivals are: this request may be for a few endpoints only.
    let endpoints = view.share * view.eligible.len().max(1) as f32;
    let rate = view.learned.arrivals_per_ms(view.now) / endpoints;
    let load = rate * view.learned.capacity_ms();
    let uncached = view.facts.prompt_tokens.saturating_sub(most_held);
    let load = LOADS.iter().filter(|bound| load >= **bound).count();
    let size = PROMPTS.iter().filter(|bound| uncached >= **bound).count();
    (load * (PROMPTS.len() + 1) + size) as u8
}

/// What is kept with the request. Nothing in `first_ms` and `token_ms` may
/// depend on the choice.
fn note_of(view: &View<'_>, most_held: u32, slot: u32, weights: &Weights, backlog_ms: f32) -> Note {
    let uncached = view.facts.prompt_tokens.saturating_sub(most_held) as f32;
    let (mut per_token, mut step) = (f32::INFINITY, f32::INFINITY);
    for &slot in view.candidates {
        let row = view.endpoints.row(slot);
        (per_token, step) = (per_token.min(row.per_token), step.min(row.step));
    }
    let token_ms = weights.decode.max(weights.harm) * step;
    let common = common(view, weights, backlog_ms);
    let block = block_of(view, &[slot], view.endpoints.decay(view.now));
    let priced = cost::price(&block, &common, view.learned.classes(), weights);
    let terms = priced.terms(0, &block, &common);
    let residents = (terms.miss_ms - common.value * terms.miss).max(0.0);
    Note {
        arm: None,
        context: 0,
        first_ms: weights.ttft * (uncached * per_token + step),
        token_ms,
        output_ms: view.facts.output_tokens.saturating_sub(1) as f32 * token_ms,
        others_ms: weights.harm * terms.harm_ms + terms.price_ms + residents,
    }
}

impl Policy for LearnedPrices {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Learned
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        if view.config.profile != self.profile {
            // Another profile counts other costs.
            self.profile = view.config.profile;
            *self.books = Default::default();
        }
        let base = self.profile.weights();
        let most_held = view.most_held();
        let context = context_of(view, most_held);
        let arm = self.books.get(usize::from(context)).map_or(DEFAULT, |book| book.choose(&base, rng));
        let pick = self.inner.pick(view, &weights_of(&base, arm), rng)?;
        let note = note_of(view, most_held, pick.slot, &base, self.inner.backlog_ms());
        self.note = Note { arm: Some(arm), context, ..note };
        Some(pick)
    }

    fn ranked(&self) -> &[(f32, u32)] {
        self.inner.ranked()
    }

    fn backlog_ms(&self) -> f32 {
        self.inner.backlog_ms()
    }

    fn note(&self) -> Note {
        self.note
    }

    fn observed(&mut self, _: u32, _: Time, observed: &Observed) {
        let note = &observed.note;
        let (Some(arm), Some(took)) = (note.arm, observed.cost_ms) else { return };
        let rest = match (observed.lost, observed.tokens) {
            // What it would have taken if it had been as long as expected.
            (true, _) => note.output_ms,
            // Without the tokens that came out nothing says what would be ideal.
            (false, 0) => return,
            (false, tokens) => (tokens - 1) as f32 * note.token_ms,
        };
        let ideal = f64::from(note.first_ms + rest).max(1.0);
        let mut cost = f64::from(took + note.others_ms);
        if observed.lost && cost < ideal * LOST {
            cost = ideal * LOST;
        }
        if let Some(book) = self.books.get_mut(usize::from(note.context))
            && cost.is_finite()
            && ideal.is_finite()
        {
            book.learn(arm, cost.min(ideal * WORST), ideal);
        }
    }
}

#[cfg(test)]
#[path = "learned_prices_tests.rs"]
mod tests;
