//! Why an endpoint was picked: the terms of the cheapest candidates, kept as
//! numbers and rendered when read.

use std::collections::VecDeque;

use forebay_core::{EndpointId, ModelId, PoolId, TicketId, Time};
use serde::{Deserialize, Serialize};

use crate::pick::cost::{LANES, Terms, Weights};
use crate::policy_kind::PolicyKind;
use crate::profile::Profile;

/// One candidate's price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which endpoint.
    pub endpoint: EndpointId,
    /// Its terms, whatever policy chose.
    pub terms: Terms,
}

/// One decision with everything that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// When.
    pub at: Time,
    /// Whose request.
    pub ticket: TicketId,
    /// Where it went.
    pub endpoint: EndpointId,
    /// The pool that was asked.
    pub pool: PoolId,
    /// The model that was asked for.
    pub model: ModelId,
    /// The policy that chose.
    pub policy: PolicyKind,
    /// It chose in place of the configured one, whose predictions fail.
    pub fallback: bool,
    /// How many endpoints could be picked.
    pub candidates: u32,
    /// What the policy minimised, in its own unit.
    pub score: f64,
    /// Requests in flight at the chosen endpoint before this one.
    pub in_flight: u32,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Expected output tokens.
    pub output_tokens: u32,
    /// Where the shadow policy would have sent it.
    pub shadow: Option<EndpointId>,
    /// What the terms count for in their totals: the pool's profile.
    pub weights: Weights,
    top: [Option<Candidate>; LANES],
}

impl DecisionRecord {
    /// The chosen endpoint first, then the cheapest others (with `predictive`
    /// and `learned`) or those of the lowest slots (with the policies that do
    /// not compare prices: to price every endpoint only to explain it would
    /// hold the Gate's lock many times as long as their picks); at most eight.
    pub fn top(&self) -> impl Iterator<Item = &Candidate> {
        self.top.iter().flatten()
    }

    pub(crate) fn set_top(&mut self, candidates: impl Iterator<Item = Candidate>) {
        for (place, candidate) in self.top.iter_mut().zip(candidates) {
            *place = Some(candidate);
        }
    }

    pub(crate) fn new(
        at: Time,
        ticket: TicketId,
        endpoint: EndpointId,
        policy: PolicyKind,
    ) -> DecisionRecord {
        DecisionRecord {
            at,
            ticket,
            endpoint,
            pool: PoolId::default(),
            model: ModelId::default(),
            policy,
            fallback: false,
            candidates: 0,
            score: 0.0,
            in_flight: 0,
            prompt_tokens: 0,
            output_tokens: 0,
            shadow: None,
            weights: Profile::default().weights(),
            top: [None; LANES],
        }
    }

    /// One line for people: what was chosen and what the next best lacked.
    pub fn reason(&self, name: impl Fn(EndpointId) -> String) -> String {
        let mut top = self.top();
        let Some(chosen) = top.next() else { return format!("{}: no candidates", self.policy) };
        let t = &chosen.terms;
        let share =
            if self.prompt_tokens > 0 { 100.0 * t.held_tokens / self.prompt_tokens as f32 } else { 0.0 };
        let mut line = format!(
            "{}{}: holds {:.0} % of the prompt, first token in {:.0} ms (wait {:.0}, prefill {:.0}, fixed {:.0})",
            self.policy,
            if self.fallback { " (fallback)" } else { "" },
            share.min(100.0),
            t.ttft_ms,
            t.wait_ms,
            t.prefill_ms,
            t.fixed_ms,
        );
        // Whom no policy ranked lie in no order.
        let Some(next) = top.min_by(|a, b| a.terms.total_ms.total_cmp(&b.terms.total_ms)) else {
            return line;
        };
        let more = next.terms.total_ms - t.total_ms;
        let name = name(next.endpoint);
        let most = self.most(t, &next.terms);
        line.push_str(&match more >= 0.0 {
            true => format!("; {name} would cost {more:.0} ms more, most of it {most}"),
            false => format!("; {name} would have cost {:.0} ms less, most of it {most}", -more),
        });
        line
    }

    /// The term that parts the totals of two candidates most, in words.
    fn most(&self, chosen: &Terms, other: &Terms) -> &'static str {
        let weights = &self.weights;
        let apart = |weight: f32, of: fn(&Terms) -> f32| weight * (of(other) - of(chosen));
        let parts = [
            ("first token", apart(weights.ttft, |t| t.ttft_ms)),
            ("own decoding", apart(weights.decode, |t| t.decode_ms)),
            ("delay of others", apart(weights.harm, |t| t.harm_ms)),
            ("price of capacity", apart(1.0, |t| t.price_ms)),
            ("crowding", apart(1.0, |t| t.crowding_ms)),
            ("missed limits", apart(1.0, |t| t.miss_ms)),
            ("costs that were added", apart(weights.ttft, |t| t.extra_ms)),
        ];
        let way = (other.total_ms - chosen.total_ms).signum();
        let most = parts.iter().max_by(|a, b| (a.1 * way).total_cmp(&(b.1 * way)));
        most.map_or("", |(word, _)| word)
    }
}

/// The last decisions; memory is bounded by the capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ring {
    records: VecDeque<DecisionRecord>,
    capacity: usize,
}

impl Ring {
    pub(crate) fn new(capacity: usize) -> Ring {
        Ring { records: VecDeque::new(), capacity }
    }

    pub(crate) fn push(&mut self, record: DecisionRecord) {
        if self.records.len() >= self.capacity {
            self.records.pop_front();
        }
        if self.capacity > 0 {
            self.records.push_back(record);
        }
    }

    /// The newest `last` records, newest first.
    pub(crate) fn newest(&self, last: usize) -> impl Iterator<Item = &DecisionRecord> {
        self.records.iter().rev().take(last)
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
