//! One gateway: who decides, and what it believes of the caches.
//!
//! It does what the live driver does around the Gate: look the prompt up,
//! submit, hold the chain while the request is out, correct and commit when it
//! ends.

mod decide;

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{
    EndpointId, Failure, LoadReport, ModelId, OrcaLoad, PoolId, Prefix, PrefixMatch, RequestFacts, TenantId,
    TicketId, Time,
};
use forebay_gate::{PeerWord, Progress};
use forebay_predict::OutputLengths;
use forebay_prefix::{IndexConfig, Matches, PrefixIndex, Tier};

pub(crate) use decide::Answer;
use decide::Decider;

use super::engine_fast::Change;
use super::policy::PolicySpec;
use super::spec::EndpointSpec;
use crate::baselines::Load;
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
    decider: Decider,
    index: PrefixIndex,
    matches: Matches,
    lengths: OutputLengths,
    /// Ids by endpoint; none for those that are no members.
    ids: Vec<Option<EndpointId>>,
    ready: Vec<bool>,
    told_capacity: Vec<bool>,
    block_tokens: u32,
    /// Engines say what they hold.
    exact: bool,
    ticked: u64,
    progress: Vec<Progress>,
}

impl Gateway {
    pub(crate) fn new(
        policy: &PolicySpec,
        endpoints: &[EndpointSpec],
        exact: bool,
        block_tokens: u32,
        seed: u64,
    ) -> Gateway {
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
            decider: Decider::new(policy, endpoints, exact, block_tokens, seed),
            index: PrefixIndex::new(index),
            matches: Matches::new(),
            lengths: OutputLengths::new(),
            ids: vec![None; endpoints.len()],
            ready: vec![false; endpoints.len()],
            told_capacity: vec![false; endpoints.len()],
            block_tokens,
            exact,
            ticked: 0,
            progress: Vec::new(),
        };
        for (number, spec) in endpoints.iter().enumerate().filter(|(_, spec)| spec.is_member) {
            gateway.join(Time::ZERO, number, spec);
        }
        gateway
    }

    /// A new endpoint is there, empty.
    pub(crate) fn join(&mut self, now: Time, number: usize, spec: &EndpointSpec) -> Woken {
        let (joined, woken) = self.decider.join(now, number, spec);
        self.ids[number] = joined;
        self.ready[number] = joined.is_some();
        woken
    }

    pub(crate) fn leave(&mut self, now: Time, number: usize) -> Woken {
        let Some(id) = self.ids[number].take() else { return Woken::default() };
        self.ready[number] = false;
        self.told_capacity[number] = false;
        self.index.retire(id);
        self.decider.leave(now, number, id)
    }

    /// An endpoint refuses connections, or takes them again.
    pub(crate) fn set_ready(&mut self, now: Time, number: usize, ready: bool) -> Woken {
        let Some(id) = self.ids[number].filter(|_| self.ready[number] != ready) else {
            return Woken::default();
        };
        self.ready[number] = ready;
        self.decider.set_ready(now, number, id, ready)
    }

    /// The engine at an endpoint began anew.
    pub(crate) fn restarted(&mut self, now: Time, number: usize) {
        if let Some(id) = self.ids[number] {
            self.index.forget(id);
            self.decider.restarted(now, id);
        }
    }

    pub(crate) fn is_ready(&self, number: usize) -> bool {
        self.ready[number]
    }

    /// What the gateway knows of a request; the prefix index is looked up. The
    /// answer's length is learned unless `expected` tells it.
    pub(crate) fn facts(&mut self, request: &SimRequest, expected: Option<f64>) -> Arc<RequestFacts> {
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
        let usual = expected.unwrap_or_else(|| self.lengths.expect(MODEL, request.tenant)).round() as u32;
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

    /// `really` is what is in flight everywhere, for those who probe.
    pub(crate) fn submit(&mut self, now: Time, facts: Arc<RequestFacts>, really: &[u32]) -> Routed {
        self.decider.submit(now, facts, really)
    }

    /// It could not be delivered where it was sent.
    pub(crate) fn repick(&mut self, now: Time, ticket: TicketId, really: &[u32]) -> Routed {
        self.decider.repick(now, ticket, really)
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

    /// Notes that so many tokens of a request have come out, to be told by
    /// [`Gateway::tell_progress`] at the same time.
    pub(crate) fn note_progress(&mut self, ticket: TicketId, tokens: u32) {
        self.progress.push(Progress { ticket, tokens });
    }

    /// Tells what was noted, in one batch.
    pub(crate) fn tell_progress(&mut self, now: Time) {
        if !self.progress.is_empty() {
            self.decider.progress(now, &mut self.progress);
        }
    }

    /// A request was served.
    pub(crate) fn finished(
        &mut self,
        now: Time,
        ticket: TicketId,
        facts: &RequestFacts,
        answer: &Answer,
    ) -> Woken {
        self.lengths.observe(MODEL, facts.tenant.0, answer.output);
        self.decider.finished(now, ticket, facts, answer)
    }

    /// A request broke off.
    pub(crate) fn failed(&mut self, now: Time, ticket: TicketId, failure: Failure, took: Duration) -> Woken {
        self.decider.failed(now, ticket, failure, took)
    }

    /// Its client went away.
    pub(crate) fn cancelled(&mut self, now: Time, ticket: TicketId) -> Woken {
        self.decider.cancelled(now, ticket)
    }

    /// An endpoint said how loaded it is.
    pub(crate) fn report(&mut self, now: Time, number: usize, report: LoadReport) {
        let Some(id) = self.ids[number] else { return };
        if let Some(tokens) = report.kv_tokens.filter(|_| !self.told_capacity[number]) {
            self.told_capacity[number] = true;
            self.index.set_capacity(id, Some(tokens / self.block_tokens.max(1)));
        }
        self.decider.report(now, number, id, report);
    }

    /// An answer carried what its endpoint said of itself.
    pub(crate) fn orca(&mut self, now: Time, number: usize, load: OrcaLoad) {
        if let Some(id) = self.ids[number] {
            self.decider.orca(now, number, id, load);
        }
    }

    /// It is number `me` of so many before the same endpoints.
    pub(crate) fn stand_among(&mut self, me: u32, gateways: u32) {
        self.decider.stand_among(Time::ZERO, me, gateways);
    }

    /// What our Gate tells its peers; see [`Decider::word`].
    pub(crate) fn word(&mut self, now: Time) -> Option<Option<Arc<PeerWord>>> {
        self.decider.word(now)
    }

    pub(crate) fn hear_peer(&mut self, now: Time, number: u32, word: Option<Arc<PeerWord>>) -> Woken {
        self.decider.hear_peer(now, number, word)
    }

    /// What it has in flight, for its peers.
    pub(crate) fn own(&self) -> Option<&[Load]> {
        self.decider.own()
    }

    /// What all gateways together have in flight, itself included.
    pub(crate) fn hear_of_all(&mut self, all: &[Load]) {
        self.decider.hear_of_all(all);
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
        self.decider.next_timer()
    }

    /// Requests that it has not settled.
    pub(crate) fn unsettled(&self) -> usize {
        self.decider.unsettled()
    }

    pub(crate) fn timer(&mut self, now: Time) -> Woken {
        self.decider.timer(now)
    }
}
