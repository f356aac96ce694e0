//! What a rival's router keeps: what is in flight where, and what was reported.

use std::sync::Arc;

use forebay_core::{EndpointId, LoadReport, OrcaLoad, RequestFacts, TicketId};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use slab::Slab;

use super::{BaselineKind, Ended, Knobs, Known, Load, Rival, View};
use crate::fleet::EndpointSpec;

struct Out {
    facts: Arc<RequestFacts>,
    endpoint: u32,
    load: Load,
    sent: u64,
    first: Option<u64>,
    /// Requests really there when it was sent.
    really: u32,
    tried: Vec<u32>,
}

/// The router of one gateway that follows a rival's rule.
pub(crate) struct Desk {
    rival: Box<dyn Rival>,
    rng: Pcg64Mcg,
    known: Vec<Known>,
    generations: Vec<u32>,
    member: Vec<bool>,
    ready: Vec<bool>,
    /// Endpoints that may be picked, in order.
    candidates: Vec<u32>,
    /// What this gateway has in flight.
    own: Vec<Load>,
    /// That and what the others said they have.
    loads: Vec<Load>,
    out: Slab<Out>,
    held: Vec<u32>,
    block_tokens: u32,
    exact: bool,
}

impl Desk {
    pub(crate) fn new(
        kind: BaselineKind,
        knobs: &Knobs,
        endpoints: &[EndpointSpec],
        exact: bool,
        block_tokens: u32,
        seed: u64,
    ) -> Desk {
        let known = endpoints.iter().map(|spec| Known {
            profile: spec.profile,
            weight: spec.weight,
            report: None,
            orca: None,
        });
        let count = endpoints.len();
        Desk {
            rival: kind.make(knobs),
            rng: Pcg64Mcg::seed_from_u64(seed),
            known: known.collect(),
            generations: vec![0; count],
            member: vec![false; count],
            ready: vec![false; count],
            candidates: Vec::new(),
            own: vec![Load::default(); count],
            loads: vec![Load::default(); count],
            out: Slab::new(),
            held: vec![0; count],
            block_tokens,
            exact,
        }
    }

    pub(crate) fn join(&mut self, number: usize) -> EndpointId {
        self.member[number] = true;
        self.known[number].report = None;
        self.known[number].orca = None;
        self.set_ready(number, true);
        EndpointId { slot: number as u32, generation: self.generations[number] }
    }

    pub(crate) fn leave(&mut self, number: usize) {
        self.member[number] = false;
        self.generations[number] += 1;
        self.set_ready(number, false);
    }

    pub(crate) fn set_ready(&mut self, number: usize, ready: bool) {
        self.ready[number] = ready;
        self.candidates.clear();
        let may = |i: &u32| self.member[*i as usize] && self.ready[*i as usize];
        self.candidates.extend((0..self.known.len() as u32).filter(may));
    }

    pub(crate) fn submit(
        &mut self,
        now: u64,
        facts: Arc<RequestFacts>,
        really: &[u32],
    ) -> Option<(TicketId, u32)> {
        let slot = self.out.insert(Out {
            facts,
            endpoint: u32::MAX,
            load: Load::default(),
            sent: now,
            first: None,
            really: 0,
            tried: Vec::new(),
        }) as u32;
        let ticket = TicketId { slot, generation: 0 };
        match self.place(now, ticket, really) {
            Some(endpoint) => Some((ticket, endpoint)),
            None => {
                self.out.remove(slot as usize);
                None
            }
        }
    }

    /// It could not be delivered where it was sent: another endpoint.
    pub(crate) fn repick(&mut self, now: u64, ticket: TicketId, really: &[u32]) -> Option<u32> {
        self.take_back(ticket);
        let covered = self.block_tokens;
        let out = &mut self.out[ticket.index()];
        out.tried.push(out.endpoint);
        let ended = ended(out, covered, 0);
        self.rival.ended(out.endpoint, &ended);
        self.place(now, ticket, really)
    }

    fn place(&mut self, now: u64, ticket: TicketId, really: &[u32]) -> Option<u32> {
        let out = &self.out[ticket.index()];
        let facts = Arc::clone(&out.facts);
        let narrowed: Vec<u32>;
        let candidates = if out.tried.is_empty() {
            &self.candidates
        } else {
            narrowed = self.candidates.iter().copied().filter(|e| !out.tried.contains(e)).collect();
            &narrowed
        };
        if candidates.is_empty() {
            return None;
        }
        for held in &facts.prefix.matches {
            self.held[held.endpoint.index()] = held.tokens;
        }
        let view = View {
            now,
            candidates,
            loads: &self.loads,
            known: &self.known,
            held: &self.held,
            really,
            prompt: facts.prompt_tokens,
            chain: &facts.prefix.chain,
            block_tokens: self.block_tokens,
            affinity: facts.affinity,
            exact: self.exact,
        };
        let picked = self.rival.pick(&view, &mut self.rng);
        let charge = picked.map(|endpoint| {
            self.rival.sent(&view, endpoint);
            let (held, uncached) = (view.held(endpoint), view.uncached(endpoint));
            let load = Load {
                in_flight: 1,
                prefill_tokens: u64::from(uncached),
                prefill_ms: self.known[endpoint as usize].prefill_ms(uncached, held),
                context: u64::from(facts.prompt_tokens),
                streams: 0,
            };
            (endpoint, load)
        });
        for held in &facts.prefix.matches {
            self.held[held.endpoint.index()] = 0;
        }
        let (endpoint, load) = charge?;
        let out = &mut self.out[ticket.index()];
        out.endpoint = endpoint;
        out.load = load;
        out.sent = now;
        out.really = really[endpoint as usize];
        self.own[endpoint as usize].add(&load);
        self.loads[endpoint as usize].add(&load);
        Some(endpoint)
    }

    /// Tokens have come out; the first of them ends the prefill.
    pub(crate) fn progress(&mut self, now: u64, ticket: TicketId) {
        let out = &mut self.out[ticket.index()];
        if out.first.is_some() {
            return;
        }
        out.first = Some(now);
        let before = out.load;
        out.load = Load { prefill_tokens: 0, prefill_ms: 0.0, streams: 1, ..before };
        let (endpoint, after) = (out.endpoint, out.load);
        self.replace(endpoint, &before, &after);
        let out = &self.out[ticket.index()];
        self.rival.first_token(endpoint, (now - out.sent) as f64 * 1e-6, out.really);
    }

    /// A request is over.
    pub(crate) fn end(&mut self, ticket: TicketId, output: u32) {
        self.take_back(ticket);
        let out = self.out.remove(ticket.index());
        // One that found no other endpoint has ended where it was already.
        if !out.tried.contains(&out.endpoint) {
            self.rival.ended(out.endpoint, &ended(&out, self.block_tokens, output));
        }
    }

    fn take_back(&mut self, ticket: TicketId) {
        let out = &mut self.out[ticket.index()];
        let before = std::mem::take(&mut out.load);
        let endpoint = out.endpoint;
        self.replace(endpoint, &before, &Load::default());
    }

    fn replace(&mut self, endpoint: u32, before: &Load, after: &Load) {
        for table in [&mut self.own, &mut self.loads] {
            let load = &mut table[endpoint as usize];
            // What peers told can have been counted anew meanwhile.
            load.in_flight = (load.in_flight + after.in_flight).saturating_sub(before.in_flight);
            load.prefill_tokens =
                (load.prefill_tokens + after.prefill_tokens).saturating_sub(before.prefill_tokens);
            load.prefill_ms = (load.prefill_ms + after.prefill_ms - before.prefill_ms).max(0.0);
            load.context = (load.context + after.context).saturating_sub(before.context);
            load.streams = (load.streams + after.streams).saturating_sub(before.streams);
            if load.in_flight == 0 {
                load.prefill_ms = 0.0;
            }
        }
    }

    pub(crate) fn report(&mut self, number: usize, report: LoadReport) {
        self.known[number].report = Some(report);
    }

    pub(crate) fn orca(&mut self, now: u64, number: usize, load: OrcaLoad) {
        self.known[number].orca = Some((now, load));
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.out.len()
    }

    /// What this gateway has in flight, for its peers.
    pub(crate) fn own(&self) -> &[Load] {
        &self.own
    }

    /// What all gateways together have in flight, itself included.
    pub(crate) fn hear_of_all(&mut self, all: &[Load]) {
        self.loads.clear();
        self.loads.extend_from_slice(all);
    }
}

fn ended(out: &Out, block_tokens: u32, output: u32) -> Ended<'_> {
    let covered = out.facts.prefix.chain.len() as u64 * u64::from(block_tokens);
    Ended {
        chain: &out.facts.prefix.chain,
        tail: u64::from(out.facts.prompt_tokens).saturating_sub(covered),
        output,
    }
}
