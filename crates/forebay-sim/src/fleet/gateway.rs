//! One gateway: who decides, and what it believes of the caches.
//!
//! It does what the live driver does around the Gate: look the prompt up,
//! submit, hold the chain while the request is out, correct and commit when it
//! ends.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{
    EndKind, EndpointFacts, EndpointId, EndpointState, Failure, LoadReport, ModelId, Outcome, PoolId, Prefix,
    PrefixMatch, RequestFacts, TenantId, TicketId, Time, Usage,
};
use forebay_gate::{Effects, Event, Gate, PoolConfig, Progress, RepickReason, Verdict};
use forebay_predict::OutputLengths;
use forebay_prefix::{IndexConfig, Matches, PrefixIndex, Tier};

use super::engine_fast::Change;
use super::spec::EndpointSpec;
use crate::workload::SimRequest;

/// A block that must first be copied from host memory saves this share of its prefill.
const HOST_SHARE: f32 = 0.75;
const POOL: PoolId = PoolId(0);
/// The one model of a simulation.
const MODEL: ModelId = ModelId(0);

/// What became of a request that was handed to a gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Routed {
    Go { ticket: TicketId, endpoint: u32 },
    Wait(TicketId),
    Refused,
}

/// Waiting requests that go or are refused.
#[derive(Default)]
pub(crate) struct Woken {
    pub(crate) go: Vec<(TicketId, u32)>,
    pub(crate) refused: Vec<TicketId>,
}

/// See the module's text.
pub(crate) struct Gateway {
    gate: Gate,
    index: PrefixIndex,
    matches: Matches,
    lengths: OutputLengths,
    /// Ids by endpoint; none for those that are no members.
    ids: Vec<Option<EndpointId>>,
    /// Endpoints by slot.
    numbers: Vec<u32>,
    ready: Vec<bool>,
    told_capacity: Vec<bool>,
    block_tokens: u32,
    /// Engines say what they hold.
    exact: bool,
    ticked: u64,
}

impl Gateway {
    pub(crate) fn new(
        config: PoolConfig,
        endpoints: &[EndpointSpec],
        exact: bool,
        block_tokens: u32,
        seed: u64,
    ) -> Gateway {
        let mut gate = Gate::new(seed);
        gate.keep_decisions(0);
        gate.apply(Time::ZERO, Event::Configure(POOL, config));
        // Room for every block that the caches can hold.
        let blocks: u64 = endpoints
            .iter()
            .map(|e| (u64::from(e.profile.kv_tokens) + e.host_tokens) / u64::from(block_tokens.max(1)))
            .sum();
        let max_bytes = usize::try_from(blocks * 160).unwrap_or(usize::MAX).max(64 << 20);
        let index = IndexConfig {
            max_bytes: max_bytes.min(IndexConfig::MAX_BYTES),
            default_capacity_blocks: 427_000 / block_tokens.max(1),
            ..IndexConfig::default()
        };
        let mut gateway = Gateway {
            gate,
            index: PrefixIndex::new(index),
            matches: Matches::new(),
            lengths: OutputLengths::new(),
            ids: vec![None; endpoints.len()],
            numbers: Vec::new(),
            ready: vec![false; endpoints.len()],
            told_capacity: vec![false; endpoints.len()],
            block_tokens,
            exact,
            ticked: 0,
        };
        for (number, spec) in endpoints.iter().enumerate().filter(|(_, spec)| spec.is_member) {
            gateway.join(Time::ZERO, number, spec);
        }
        gateway
    }

    /// A new endpoint is there, empty.
    pub(crate) fn join(&mut self, now: Time, number: usize, spec: &EndpointSpec) -> Woken {
        let facts = EndpointFacts {
            weight: spec.weight,
            accelerator: spec.accelerator.clone(),
            ..EndpointFacts::named(spec.name.clone())
        };
        let mut effects = self.gate.apply(now, Event::Join(POOL, facts, EndpointState::Ready));
        if let Some(id) = effects.joined.take() {
            self.ids[number] = Some(id);
            if self.numbers.len() <= id.index() {
                self.numbers.resize(id.index() + 1, u32::MAX);
            }
            self.numbers[id.index()] = number as u32;
            self.ready[number] = true;
            if !spec.round_trip.is_zero() {
                self.gate.apply(now, Event::Network(id, spec.round_trip));
            }
        }
        self.woken(&effects)
    }

    pub(crate) fn leave(&mut self, now: Time, number: usize) -> Woken {
        let Some(id) = self.ids[number].take() else { return Woken::default() };
        self.ready[number] = false;
        self.told_capacity[number] = false;
        self.index.retire(id);
        let effects = self.gate.apply(now, Event::Leave(id));
        self.woken(&effects)
    }

    /// An endpoint refuses connections, or takes them again.
    pub(crate) fn set_ready(&mut self, now: Time, number: usize, ready: bool) -> Woken {
        let Some(id) = self.ids[number].filter(|_| self.ready[number] != ready) else {
            return Woken::default();
        };
        self.ready[number] = ready;
        let state = if ready { EndpointState::Ready } else { EndpointState::Unready };
        let effects = self.gate.apply(now, Event::State(id, state));
        self.woken(&effects)
    }

    /// The engine at an endpoint began anew.
    pub(crate) fn restarted(&mut self, now: Time, number: usize) {
        if let Some(id) = self.ids[number] {
            self.index.forget(id);
            self.gate.apply(now, Event::Restarted(id));
        }
    }

    pub(crate) fn is_ready(&self, number: usize) -> bool {
        self.ready[number]
    }

    /// What the gateway knows of a request; the prefix index is looked up.
    pub(crate) fn facts(&mut self, request: &SimRequest) -> Arc<RequestFacts> {
        let block_tokens = self.block_tokens as f32;
        let mut prefix = Prefix {
            chain: Arc::clone(&request.chain),
            block_tokens,
            exact: self.exact,
            matches: Vec::new(),
        };
        if !prefix.chain.is_empty() {
            self.index.lookup(&prefix.chain, &mut self.matches);
            // The last token is always computed: it is what the answer begins from.
            let most = request.prompt_tokens.saturating_sub(1);
            prefix.matches.reserve(self.matches.len());
            prefix.matches.extend(self.matches.as_slice().iter().map(|found| {
                let blocks = found.blocks as f32 + found.host_blocks as f32 * HOST_SHARE;
                PrefixMatch { endpoint: found.endpoint, tokens: ((blocks * block_tokens) as u32).min(most) }
            }));
        }
        let usual = self.lengths.expect(MODEL, request.tenant).round() as u32;
        Arc::new(RequestFacts {
            pool: POOL,
            model: MODEL,
            adapter: request.adapter.map(|adapter| ModelId(adapter + 1)),
            version: None,
            tenant: TenantId(request.tenant),
            priority: request.priority,
            slo: request.slo,
            prompt_tokens: request.prompt_tokens.max(1),
            output_tokens: request.max_output_tokens.map_or(usual, |most| most.min(usual)).max(1),
            stream: true,
            affinity: request.affinity,
            session: request.session,
            prefix,
            costs: Vec::new(),
        })
    }

    pub(crate) fn submit(&mut self, now: Time, facts: Arc<RequestFacts>) -> Routed {
        let verdict = self.gate.submit(now, facts);
        self.routed(verdict)
    }

    /// It could not be delivered where it was sent.
    pub(crate) fn repick(&mut self, now: Time, ticket: TicketId) -> Routed {
        let verdict = self.gate.repick(now, ticket, RepickReason::Connect);
        self.routed(verdict)
    }

    fn routed(&self, verdict: Verdict) -> Routed {
        match verdict {
            Verdict::Go(decision) => {
                Routed::Go { ticket: decision.ticket, endpoint: self.numbers[decision.endpoint.index()] }
            }
            Verdict::Wait(ticket) => Routed::Wait(ticket),
            Verdict::Refuse(_) => Routed::Refused,
        }
    }

    /// A request was sent: its chain counts as held there.
    pub(crate) fn begin(&mut self, number: u32, facts: &RequestFacts) {
        if let Some(id) = self.ids[number as usize].filter(|_| !facts.prefix.chain.is_empty()) {
            self.index.begin(id, &facts.prefix.chain);
        }
    }

    /// … until it is over there; `cached` tokens were in the engine's cache,
    /// when an answer says so.
    pub(crate) fn over(
        &mut self,
        now: Time,
        number: u32,
        facts: &RequestFacts,
        served: bool,
        cached: Option<u32>,
    ) {
        let prefix = &facts.prefix;
        let Some(id) = self.ids[number as usize].filter(|_| !prefix.chain.is_empty()) else { return };
        if let Some(cached) = cached {
            let blocks = |tokens: u32| (tokens as f32 / prefix.block_tokens).round() as u32;
            let predicted = prefix.matches.iter().find(|held| held.endpoint == id);
            let predicted = predicted.map_or(0, |held| held.tokens);
            self.index.correct(id, &prefix.chain, blocks(cached), blocks(predicted), now);
        }
        self.index.end(id, &prefix.chain, served && !self.exact, now);
    }

    pub(crate) fn progress(&mut self, now: Time, ticket: TicketId, tokens: u32) {
        self.gate.apply(now, Event::Progress(vec![Progress { ticket, tokens }]));
    }

    /// A request was served.
    pub(crate) fn finished(
        &mut self,
        now: Time,
        ticket: TicketId,
        facts: &RequestFacts,
        tokens: (u32, u32),
        times: (Duration, Duration),
    ) -> Woken {
        let (output, cached) = tokens;
        self.lengths.observe(MODEL, facts.tenant.0, output);
        let outcome = Outcome {
            end: EndKind::Finished,
            ttft: Some(times.0),
            duration: times.1,
            usage: Some(Usage {
                prompt_tokens: u64::from(facts.prompt_tokens),
                cached_tokens: u64::from(cached),
                cached_known: true,
                completion_tokens: u64::from(output),
                estimated: false,
            }),
        };
        let effects = self.gate.apply(now, Event::Outcome(ticket, outcome));
        self.woken(&effects)
    }

    /// A request broke off.
    pub(crate) fn failed(&mut self, now: Time, ticket: TicketId, failure: Failure, took: Duration) -> Woken {
        let outcome = Outcome::without_answer(EndKind::Failed(failure), took);
        let effects = self.gate.apply(now, Event::Outcome(ticket, outcome));
        self.woken(&effects)
    }

    /// An endpoint said how loaded it is.
    pub(crate) fn report(&mut self, now: Time, number: usize, report: LoadReport) {
        let Some(id) = self.ids[number] else { return };
        if let Some(tokens) = report.kv_tokens.filter(|_| !self.told_capacity[number]) {
            self.told_capacity[number] = true;
            self.index.set_capacity(id, Some(tokens / self.block_tokens.max(1)));
        }
        self.gate.apply(now, Event::Report(id, report));
    }

    /// About once a second.
    pub(crate) fn tick(&mut self, now: Time) {
        if now.as_nanos() >= self.ticked + 1_000_000_000 {
            self.ticked = now.as_nanos();
            self.index.tick(now);
        }
    }

    /// An engine said what entered and left its cache.
    pub(crate) fn cache_changed(&mut self, number: usize, changes: &[Change]) {
        let Some(id) = self.ids[number] else { return };
        let mut run: Vec<u64> = Vec::new();
        let mut before = None;
        for change in changes {
            if let Change::Stored { hash, parent } = *change {
                if !run.is_empty() && run.last().copied() != parent {
                    self.index.insert_confirmed_after(id, Tier::Gpu, before, &run);
                    run.clear();
                }
                if run.is_empty() {
                    before = parent;
                }
                run.push(hash);
                continue;
            }
            if !run.is_empty() {
                self.index.insert_confirmed_after(id, Tier::Gpu, before, &run);
                run.clear();
            }
            match *change {
                Change::Stored { .. } => {}
                Change::Removed { hash } => self.index.remove_confirmed(id, &[hash]),
                Change::Dropped { hash } => self.index.remove_confirmed_in(id, Tier::Host, &[hash]),
                Change::Moved { hash } => {
                    self.index.insert_confirmed_after(id, Tier::Host, None, &[hash]);
                    self.index.remove_confirmed(id, &[hash]);
                }
                Change::Fetched { hash } => {
                    self.index.insert_confirmed(id, &[hash]);
                    self.index.remove_confirmed_in(id, Tier::Host, &[hash]);
                }
            }
        }
        if !run.is_empty() {
            self.index.insert_confirmed_after(id, Tier::Gpu, before, &run);
        }
    }

    /// When it wants to be told that time has passed, in nanoseconds.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.gate.next_timer().map(Time::as_nanos)
    }

    pub(crate) fn timer(&mut self, now: Time) -> Woken {
        let effects = self.gate.apply(now, Event::Timer);
        self.woken(&effects)
    }

    fn woken(&self, effects: &Effects) -> Woken {
        if effects.is_empty() {
            return Woken::default();
        }
        Woken {
            go: effects.go.iter().map(|d| (d.ticket, self.numbers[d.endpoint.index()])).collect(),
            refused: effects.refuse.iter().map(|(ticket, _)| *ticket).collect(),
        }
    }
}
