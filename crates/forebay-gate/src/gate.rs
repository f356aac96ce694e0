//! The Gate: one state machine that ties admission, policies and load together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{EndpointId, EndpointState, PoolId, RequestFacts, TicketId, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::admit::Admit;
use crate::endpoints::{EndpointLoad, EndpointStanding, Endpoints};
use crate::event::{Effects, Event};
use crate::explain::{DecisionRecord, Ring};
use crate::peers::Peers;
use crate::place::Scratch;
use crate::pool::{Pool, PoolLoad};
use crate::ticket::{Stage, Tickets};
use crate::verdict::{Refusal, RefuseReason, RepickReason, Verdict};

/// How long a client is told to stay away when nothing can serve it. Readiness
/// is probed every few seconds; sooner would only bring it back to the same.
pub(crate) const RETRY_NONE_READY: Duration = Duration::from_secs(2);
/// How long a client is told to stay away when the queue is full.
pub(crate) const RETRY_QUEUE: Duration = Duration::from_secs(1);
/// How many decisions are remembered for people to read.
const DECISIONS_KEPT: usize = 1024;

/// Decides for a group of pools that share endpoints.
///
/// State changes only in [`Gate::submit`], [`Gate::repick`] and
/// [`Gate::apply`]. None of them panics or blocks, whatever ids they are given:
/// a ticket or endpoint that is gone is ignored. The whole state can be
/// written down and read back (serde); a Gate that was read back decides as
/// the one that was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    pub(crate) endpoints: Endpoints,
    pub(crate) pools: Vec<Option<Pool>>,
    pub(crate) tickets: Tickets,
    pub(crate) rng: Pcg64Mcg,
    /// Draws for shadow policies, which must not disturb the others.
    pub(crate) shadow_rng: Pcg64Mcg,
    /// When requests whose first token nobody sees are taken to have it.
    pub(crate) unseen: BTreeSet<(Time, TicketId)>,
    pub(crate) peers: Peers,
    pub(crate) decisions: Ring,
    /// Kept for its memory.
    #[serde(skip)]
    pub(crate) scratch: Scratch,
}

impl Gate {
    /// A Gate without pools. The seed decides every tie.
    pub fn new(seed: u64) -> Gate {
        Gate {
            endpoints: Endpoints::default(),
            pools: Vec::new(),
            tickets: Tickets::default(),
            rng: Pcg64Mcg::seed_from_u64(seed),
            shadow_rng: Pcg64Mcg::seed_from_u64(!seed),
            unseen: BTreeSet::new(),
            peers: Peers::default(),
            decisions: Ring::new(DECISIONS_KEPT),
            scratch: Scratch::default(),
        }
    }

    /// How many decisions are remembered; 0 for none, as a simulation wants it.
    pub fn keep_decisions(&mut self, capacity: usize) {
        self.decisions = Ring::new(capacity);
    }

    /// A request arrives. O(endpoints of the pool).
    pub fn submit(&mut self, now: Time, facts: Arc<RequestFacts>) -> Verdict {
        self.catch_up(now);
        let Some(pool) = self.pools.get_mut(facts.pool.index()).and_then(Option::as_mut) else {
            return refuse(RefuseReason::UnknownPool, RETRY_NONE_READY);
        };
        pool.learned.arrive(now);
        if pool.eligible().is_empty() {
            return refuse(RefuseReason::NoneReady, RETRY_NONE_READY);
        }
        match pool.admission.arrive() {
            Admit::Full => refuse(RefuseReason::QueueFull, RETRY_QUEUE),
            Admit::Wait => {
                let ticket = self.tickets.insert(facts, Stage::Waiting);
                pool.admission.enqueue(now, ticket);
                Verdict::Wait(ticket)
            }
            Admit::Go => {
                let ticket = self.tickets.insert(facts, Stage::Homeless);
                match self.place(now, ticket) {
                    Some(decision) => Verdict::Go(decision),
                    None => {
                        self.drop_ticket(ticket, now);
                        refuse(RefuseReason::NoneReady, RETRY_NONE_READY)
                    }
                }
            }
        }
    }

    /// The endpoint that was picked could not take the request: pick another.
    ///
    /// A refusal leaves the ticket admitted; its owner settles it with an
    /// outcome as ever.
    pub fn repick(&mut self, now: Time, ticket: TicketId, why: RepickReason) -> Verdict {
        self.catch_up(now);
        let Some(row) = self.tickets.get_mut(ticket) else {
            return refuse(RefuseReason::Exhausted, RETRY_NONE_READY);
        };
        match row.stage {
            Stage::Sent(sending) => {
                row.tried.push(sending.slot);
                row.stage = Stage::Homeless;
                let pool = row.facts.pool;
                self.endpoints.done(sending.slot, &sending.charge, now);
                self.forget_unseen(ticket, &sending);
                if why == RepickReason::Connect {
                    self.unreachable(now, pool, &sending);
                }
            }
            Stage::Waiting => return Verdict::Wait(ticket),
            Stage::Homeless => {}
        }
        match self.place(now, ticket) {
            Some(decision) => Verdict::Go(decision),
            None => refuse(RefuseReason::Exhausted, RETRY_NONE_READY),
        }
    }

    /// Something happened; what follows from it is returned.
    pub fn apply(&mut self, now: Time, event: Event) -> Effects {
        self.catch_up(now);
        let mut effects = Effects::default();
        if !self.peers.is_empty() {
            self.forget_peers(now);
        }
        match event {
            Event::Progress(batch) => {
                for progress in batch {
                    self.progress(now, progress);
                }
            }
            Event::Outcome(ticket, outcome) => self.end(now, ticket, Some(&outcome), &mut effects),
            Event::Cancelled(ticket) => self.end(now, ticket, None, &mut effects),
            Event::Configure(id, config) => {
                if self.pools.len() <= id.index() {
                    self.pools.resize_with(id.index() + 1, || None);
                }
                match &mut self.pools[id.index()] {
                    Some(pool) => {
                        pool.configure(&config);
                        pool.refresh(&self.endpoints, now);
                    }
                    empty => *empty = Some(Pool::new(&config)),
                }
                self.endpoints.no_learning = config.without.speeds;
                self.wake(now, id, &mut effects);
            }
            Event::Among { me, gateways } => self.stand_among(me, gateways),
            Event::Peer(number, word) => self.hear_peer(now, number, word),
            Event::Timer => self.wake_all(now, &mut effects),
            Event::Join(pool, facts, state) => {
                let slot = match self.endpoints.by_name(&facts.name) {
                    Some(slot) => slot,
                    None => self.endpoints.insert(facts, state, now).slot,
                };
                if let Some(pool) = self.pools.get_mut(pool.index()).and_then(Option::as_mut) {
                    pool.add(slot, &self.endpoints, now);
                }
                self.weigh(now, |pool| pool.has(slot));
                effects.joined = Some(self.endpoints.id(slot));
                self.wake_all(now, &mut effects);
            }
            Event::Leave(id) => {
                if let Some(slot) = self.endpoints.slot(id) {
                    self.endpoints.remove(slot);
                    let pools = self.pools.iter_mut().flatten();
                    pools.for_each(|pool| pool.remove(slot, &self.endpoints, now));
                    self.weigh(now, |_| true);
                }
            }
            Event::State(id, _)
            | Event::Restarted(id)
            | Event::Report(id, _)
            | Event::Orca(id, _)
            | Event::Network(id, _)
            | Event::Weight(id, _)
            | Event::Adapters(id, _)
            | Event::Loaded(id, _, _) => {
                if let Some(slot) = self.endpoints.slot(id) {
                    self.tell(now, slot, event, &mut effects);
                }
            }
        }
        effects
    }

    /// Something was found out of one endpoint.
    fn tell(&mut self, now: Time, slot: u32, event: Event, effects: &mut Effects) {
        match event {
            Event::State(_, state) => {
                self.endpoints.set_state(slot, state, now);
                self.refresh(slot, now);
                self.wake_all(now, effects);
            }
            Event::Restarted(_) => {
                self.endpoints.restarted(slot, now);
                self.refresh(slot, now);
            }
            Event::Report(_, report) => self.endpoints.set_report(slot, report),
            Event::Orca(_, load) => self.endpoints.set_orca(slot, now, load),
            Event::Network(_, took) => self.endpoints.set_network(slot, took, now),
            Event::Weight(_, weight) => {
                self.endpoints.set_weight(slot, weight);
                self.weigh(now, |pool| pool.has(slot));
            }
            Event::Adapters(_, adapters) => self.endpoints.residents_mut(slot).list(adapters),
            Event::Loaded(_, adapters, slots) => {
                let residents = self.endpoints.residents_mut(slot);
                residents.set_slots(slots);
                for adapter in adapters {
                    residents.runs(adapter);
                }
            }
            _ => {}
        }
    }

    /// When to send [`Event::Timer`]; none while nobody waits.
    pub fn next_timer(&self) -> Option<Time> {
        self.pools.iter().flatten().filter_map(Pool::next_timer).min()
    }

    /// What is known of an endpoint; none when it left.
    pub fn load(&self, id: EndpointId) -> Option<EndpointLoad> {
        let slot = self.endpoints.slot(id)?;
        let mut load = self.endpoints.load(slot);
        load.ramp = self.ramp(slot);
        let mut pools = self.pools.iter().flatten();
        let first = pools.find(|pool| pool.has(slot));
        load.weight_in_use = first.and_then(|pool| pool.weight_in_use(slot, &self.endpoints));
        Some(load)
    }

    /// Share of its load that an endpoint may get while it ramps up; 1 when it is done.
    fn ramp(&self, slot: u32) -> f64 {
        let ramping = self.pools.iter().flatten().filter(|pool| pool.is_ramping(slot));
        let since = self.endpoints.ready_since(slot);
        let ramp = ramping.map(|pool| pool.config.slow_start.factor(since, self.endpoints.refreshed()));
        ramp.fold(1.0, f64::min)
    }

    /// What rules may ask of each endpoint of a pool, those included that may not
    /// be picked, in the order of their slots. Whatever the buffer held is dropped.
    /// O(endpoints of the pool): for a caller who would else ask for one after another.
    pub fn standings(&self, pool: PoolId, out: &mut Vec<(EndpointId, EndpointStanding)>) {
        out.clear();
        let members = self.get(pool).map_or(&[][..], Pool::members);
        out.extend(members.iter().map(|&slot| {
            let row = self.endpoints.row(slot);
            let standing = EndpointStanding {
                in_flight: row.requests,
                owed_ms: f64::from(row.owed_ms()),
                prefill_factor: f64::from(row.prefill_factor),
                decode_factor: f64::from(row.decode_factor),
                weight: self.endpoints.weight(slot),
                ramp: self.ramp(slot),
            };
            (self.endpoints.id(slot), standing)
        }));
    }

    /// The name of an endpoint; none when it left.
    pub fn name(&self, id: EndpointId) -> Option<&str> {
        self.endpoints.slot(id).map(|slot| self.endpoints.name(slot))
    }

    /// The state of an endpoint; none when it left.
    pub fn state(&self, id: EndpointId) -> Option<EndpointState> {
        self.load(id).map(|load| load.state)
    }

    /// What is known of a pool; none when it is not configured.
    pub fn pool(&self, pool: PoolId, now: Time) -> Option<PoolLoad> {
        self.get(pool).map(|pool| pool.load(now))
    }

    fn get(&self, pool: PoolId) -> Option<&Pool> {
        self.pools.get(pool.index())?.as_ref()
    }

    /// Requests of a pool that are admitted and not ended, and that wait.
    pub fn pool_load(&self, pool: PoolId) -> (u32, u32) {
        self.get(pool).map_or((0, 0), |pool| (pool.admission.running(), pool.admission.waiting()))
    }

    /// How many endpoints of a pool may be picked.
    pub fn ready(&self, pool: PoolId) -> usize {
        self.get(pool).map_or(0, |pool| pool.eligible().len())
    }

    /// Requests that are not settled, waiting ones included.
    pub fn unsettled(&self) -> usize {
        self.tickets.len()
    }

    /// The newest decisions, newest first.
    pub fn decisions(&self, last: usize) -> impl Iterator<Item = &DecisionRecord> {
        self.decisions.newest(last)
    }

    /// The weights in these pools are not what they were: one that is new or gone
    /// says something of those beside it as well.
    fn weigh(&mut self, now: Time, changed: impl Fn(&Pool) -> bool) {
        for (at, pool) in self.pools.iter().enumerate() {
            let Some(pool) = pool.as_ref().filter(|pool| changed(pool)) else { continue };
            // Of pools that share an endpoint the first one's members tell what its weight means.
            let first =
                |slot| self.pools.iter().position(|pool| pool.as_ref().is_some_and(|pool| pool.has(slot)));
            self.endpoints.weigh(pool.members(), |slot| first(slot) == Some(at), now);
        }
    }

    fn refresh(&mut self, slot: u32, now: Time) {
        for pool in self.pools.iter_mut().flatten() {
            if pool.has(slot) {
                pool.refresh(&self.endpoints, now);
            }
        }
    }

    pub(crate) fn wake_all(&mut self, now: Time, effects: &mut Effects) {
        for i in 0..self.pools.len() {
            self.wake(now, PoolId(i as u32), effects);
        }
    }

    /// Lets waiting requests go while there is room, after those whose time is over.
    pub(crate) fn wake(&mut self, now: Time, id: PoolId, effects: &mut Effects) {
        while let Some(ticket) = self.pool_mut(id).and_then(|p| p.admission.next_expired(now)) {
            self.tickets.remove(ticket);
            effects
                .refuse
                .push((ticket, Refusal { reason: RefuseReason::QueueTimeout, retry_after: RETRY_QUEUE }));
        }
        while let Some(ticket) = self.pool_mut(id).and_then(|p| p.admission.next_to_go()) {
            if let Some(row) = self.tickets.get_mut(ticket) {
                row.stage = Stage::Homeless;
            }
            match self.place(now, ticket) {
                Some(decision) => effects.go.push(decision),
                None => {
                    self.drop_ticket(ticket, now);
                    let refusal = Refusal { reason: RefuseReason::NoneReady, retry_after: RETRY_NONE_READY };
                    effects.refuse.push((ticket, refusal));
                }
            }
        }
    }

    pub(crate) fn pool_mut(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.pools.get_mut(id.index())?.as_mut()
    }

    /// Requests in flight and work over all endpoints, for tests.
    #[cfg(test)]
    pub(crate) fn totals(&self) -> (u64, u64) {
        self.endpoints.totals()
    }
}

pub(crate) fn refuse(reason: RefuseReason, retry_after: Duration) -> Verdict {
    Verdict::Refuse(Refusal { reason, retry_after })
}
