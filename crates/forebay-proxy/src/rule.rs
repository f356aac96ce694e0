//! Asking a pool's rule about every candidate, before the Gate's lock is taken.

use std::cell::Cell;

use forebay_core::{CandidateCost, EndpointId, PoolId, RequestFacts};
use forebay_gate::{EndpointStanding, Refusal, RefuseReason};
use forebay_live::EndpointKey;
use forebay_rule::{EndpointVars, RequestVars, Rule, Variable, Verdict};

use crate::model_route::Route;
use crate::pool_route::PoolRoute;
use crate::problem::Problem;
use crate::proxy::Proxy;

/// What endpoints told of themselves, for rules.
pub trait CandidateSignals: Send + Sync {
    /// Calls `each` for every endpoint of a pool that has a rule. What the Gate
    /// knows of an endpoint need not be filled in, nor what depends on the
    /// request. Called for each request, so it must not wait for anybody.
    fn each(&self, pool: PoolId, each: &mut dyn FnMut(EndpointKey, &EndpointVars<'_>));
}

/// What only the Gate knows, fresh.
const OF_THE_GATE: [Variable; 6] = [
    Variable::InFlight,
    Variable::OwedMs,
    Variable::PrefillFactor,
    Variable::DecodeFactor,
    Variable::Weight,
    Variable::Ramp,
];

thread_local! {
    /// Kept for its memory, from one request of this worker to the next.
    static STANDINGS: Cell<Vec<(EndpointId, EndpointStanding)>> = const { Cell::new(Vec::new()) };
}

/// What a pool's rule said of all its endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    filtered: usize,
    of: usize,
}

/// Asks the pool's rule about each of its endpoints and notes the answers in
/// the facts; those that change nothing are left out.
pub(crate) fn ask(proxy: &Proxy, route: &Route, facts: &mut RequestFacts) -> Asked {
    let (Some(rule), Some(signals)) = (&route.pool.rule, proxy.candidates()) else { return Asked::default() };
    let session = match facts.session {
        Some(session) if rule.reads(Variable::Session) => format!("{session:016x}"),
        _ => String::new(),
    };
    let request = RequestVars {
        prompt_tokens: f64::from(facts.prompt_tokens),
        output_tokens: f64::from(facts.output_tokens),
        priority: f64::from(facts.priority.0),
        stream: facts.stream,
        model: &route.model,
        adapter: route.names().1.unwrap_or_default(),
        session: &session,
    };
    let held = held(proxy, rule, facts);
    let mut standings = STANDINGS.take();
    standings.clear();
    if OF_THE_GATE.iter().any(|variable| rule.reads(*variable)) {
        proxy.live().standings(route.pool.id, &mut standings);
    }
    let mut asked = Asked::default();
    let costs = &mut facts.costs;
    signals.each(route.pool.id, &mut |key, told| {
        let mut vars = *told;
        if let Ok(at) = held.binary_search_by_key(&key.id, |(endpoint, _)| *endpoint) {
            vars.held_tokens = f64::from(held[at].1);
        }
        if let Ok(at) = standings.binary_search_by_key(&key.id, |(endpoint, _)| *endpoint) {
            let standing = &standings[at].1;
            vars.in_flight = f64::from(standing.in_flight);
            vars.owed_ms = standing.owed_ms;
            vars.prefill_factor = standing.prefill_factor;
            vars.decode_factor = standing.decode_factor;
            vars.weight = standing.weight;
            vars.ramp = standing.ramp;
        }
        asked.of += 1;
        let cost_ms = match rule.eval(&request, &vars) {
            Verdict::Filtered => {
                asked.filtered += 1;
                None
            }
            Verdict::Cost(0.0) => return,
            Verdict::Cost(ms) => Some(ms),
        };
        costs.push(CandidateCost { endpoint: key.id, cost_ms });
    });
    STANDINGS.set(standings);
    asked
}

/// What each endpoint holds of the prompt, by endpoint, where the rule asks for it.
fn held(proxy: &Proxy, rule: &Rule, facts: &mut RequestFacts) -> Vec<(EndpointId, u32)> {
    if !rule.reads(Variable::HeldTokens) {
        return Vec::new();
    }
    proxy.live().look_up(facts);
    let matches = facts.prefix.matches.iter();
    let mut held: Vec<_> = matches.map(|held| (held.endpoint, held.tokens)).collect();
    held.sort_unstable_by_key(|(endpoint, _)| *endpoint);
    held
}

impl Asked {
    /// The Gate's refusal; says so where the rule left nobody to pick.
    pub(crate) fn refusal(self, refusal: Refusal, pool: &PoolRoute, model: &str) -> Problem {
        let mut problem = Problem::refusal(refusal, model);
        if refusal.reason == RefuseReason::NoneReady && self.filtered > 0 {
            let (Asked { filtered, of }, pool) = (self, &pool.name);
            problem.code = Some("no_endpoint_allowed");
            problem.message = if filtered == of {
                format!("The rule of the pool \"{pool}\" filters all its endpoints for this request.")
            } else {
                format!(
                    "The rule of the pool \"{pool}\" filters {filtered} of its {of} endpoints for this request, and \
                     no other is ready."
                )
            };
        }
        problem
    }
}
