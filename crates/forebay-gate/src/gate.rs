//! The Gate: one state machine that ties admission, policies and load together.

use std::time::Duration;

use forebay_core::{EndpointId, EndpointState, PoolId, RequestFacts, TicketId, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::admit::Admit;
use crate::endpoints::{EndpointLoad, Endpoints};
use crate::event::{Effects, Event, Progress};
use crate::pick::{WORK_PER_OUTPUT_TOKEN, prefill_work, total_work};
use crate::pool::Pool;
use crate::ticket::{Stage, Tickets};
use crate::verdict::{Decision, Explanation, Refusal, RefuseReason, RepickReason, Verdict};

/// How long a client is told to stay away when nothing can serve it. Readiness
/// is probed every few seconds; sooner would only bring it back to the same.
const RETRY_NONE_READY: Duration = Duration::from_secs(2);
/// How long a client is told to stay away when the queue is full.
const RETRY_QUEUE: Duration = Duration::from_secs(1);

/// Decides for a group of pools that share endpoints.
///
/// State changes only in [`Gate::submit`], [`Gate::repick`] and
/// [`Gate::apply`]. None of them panics or blocks, whatever ids they are given:
/// a ticket or endpoint that is gone is ignored.
#[derive(Debug)]
pub struct Gate {
    endpoints: Endpoints,
    pools: Vec<Option<Pool>>,
    tickets: Tickets,
    rng: Pcg64Mcg,
    /// Candidates of a repick; kept for its memory.
    scratch: Vec<u32>,
}

impl Gate {
    /// A Gate without pools. The seed decides every tie.
    pub fn new(seed: u64) -> Gate {
        Gate {
            endpoints: Endpoints::default(),
            pools: Vec::new(),
            tickets: Tickets::default(),
            rng: Pcg64Mcg::seed_from_u64(seed),
            scratch: Vec::new(),
        }
    }

    /// A request arrives. O(endpoints of the pool).
    pub fn submit(&mut self, now: Time, facts: &RequestFacts) -> Verdict {
        let Some(pool) = self.pools.get_mut(facts.pool.index()).and_then(Option::as_mut) else {
            return refuse(RefuseReason::UnknownPool, RETRY_NONE_READY);
        };
        if pool.eligible().is_empty() {
            return refuse(RefuseReason::NoneReady, RETRY_NONE_READY);
        }
        match pool.admission.arrive() {
            Admit::Full => refuse(RefuseReason::QueueFull, RETRY_QUEUE),
            Admit::Wait => {
                let ticket = self.tickets.insert(*facts, Stage::Waiting);
                pool.admission.enqueue(now, ticket);
                Verdict::Wait(ticket)
            }
            Admit::Go => {
                let ticket = self.tickets.insert(*facts, Stage::Homeless);
                match self.place(ticket) {
                    Some(decision) => Verdict::Go(decision),
                    None => {
                        self.drop_ticket(ticket);
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
    pub fn repick(&mut self, _now: Time, ticket: TicketId, _why: RepickReason) -> Verdict {
        let Some(row) = self.tickets.get_mut(ticket) else {
            return refuse(RefuseReason::Exhausted, RETRY_NONE_READY);
        };
        match row.stage {
            Stage::Sent { slot, work_left } => {
                row.tried.push(slot);
                row.stage = Stage::Homeless;
                self.endpoints.remove_load(slot, work_left);
            }
            Stage::Waiting => return Verdict::Wait(ticket),
            Stage::Homeless => {}
        }
        match self.place(ticket) {
            Some(decision) => Verdict::Go(decision),
            None => refuse(RefuseReason::Exhausted, RETRY_NONE_READY),
        }
    }

    /// Something happened; what follows from it is returned.
    pub fn apply(&mut self, now: Time, event: Event) -> Effects {
        let mut effects = Effects::default();
        match event {
            Event::Progress(batch) => {
                for progress in batch {
                    self.progress(progress);
                }
            }
            Event::Outcome(ticket, _outcome) => self.end(now, ticket, &mut effects),
            Event::Cancelled(ticket) => self.end(now, ticket, &mut effects),
            Event::Report(id, report) => {
                if let Some(slot) = self.endpoints.slot(id) {
                    self.endpoints.set_report(slot, report);
                }
            }
            Event::Join(pool, facts, state) => {
                let slot = match self.endpoints.by_name(&facts.name) {
                    Some(slot) => slot,
                    None => self.endpoints.insert(facts, state).slot,
                };
                if let Some(pool) = self.pools.get_mut(pool.index()).and_then(Option::as_mut) {
                    pool.add(slot, &self.endpoints);
                }
                effects.joined = Some(self.endpoints.id(slot));
                self.wake_all(now, &mut effects);
            }
            Event::State(id, state) => {
                if let Some(slot) = self.endpoints.slot(id) {
                    self.endpoints.set_state(slot, state);
                    self.refresh(slot);
                    self.wake_all(now, &mut effects);
                }
            }
            Event::Weight(id, weight) => {
                if let Some(slot) = self.endpoints.slot(id) {
                    self.endpoints.set_weight(slot, weight);
                }
            }
            Event::Leave(id) => {
                if let Some(slot) = self.endpoints.slot(id) {
                    self.endpoints.remove(slot);
                    for pool in self.pools.iter_mut().flatten() {
                        pool.remove(slot, &self.endpoints);
                    }
                }
            }
            Event::Configure(id, config) => {
                if self.pools.len() <= id.index() {
                    self.pools.resize_with(id.index() + 1, || None);
                }
                match &mut self.pools[id.index()] {
                    Some(pool) => pool.configure(&config),
                    empty => *empty = Some(Pool::new(&config)),
                }
                self.wake(now, id, &mut effects);
            }
            Event::Timer => self.wake_all(now, &mut effects),
        }
        effects
    }

    /// When to send [`Event::Timer`]; none while nobody waits.
    pub fn next_timer(&self) -> Option<Time> {
        self.pools.iter().flatten().filter_map(Pool::next_timer).min()
    }

    /// What is known of an endpoint; none when it left.
    pub fn load(&self, id: EndpointId) -> Option<EndpointLoad> {
        self.endpoints.slot(id).map(|slot| self.endpoints.load(slot))
    }

    /// The state of an endpoint; none when it left.
    pub fn state(&self, id: EndpointId) -> Option<EndpointState> {
        self.load(id).map(|load| load.state)
    }

    /// Requests of a pool that are admitted and not ended, and that wait.
    pub fn pool_load(&self, pool: PoolId) -> (u32, u32) {
        match self.pools.get(pool.index()).and_then(Option::as_ref) {
            Some(pool) => (pool.admission.running(), pool.admission.waiting()),
            None => (0, 0),
        }
    }

    /// How many endpoints of a pool may be picked.
    pub fn ready(&self, pool: PoolId) -> usize {
        self.pools.get(pool.index()).and_then(Option::as_ref).map_or(0, |pool| pool.eligible().len())
    }

    /// Requests that are not settled, waiting ones included.
    pub fn unsettled(&self) -> usize {
        self.tickets.len()
    }

    /// Picks an endpoint for a homeless ticket and puts its load there.
    fn place(&mut self, id: TicketId) -> Option<Decision> {
        let ticket = self.tickets.get_mut(id)?;
        let pool = self.pools.get_mut(ticket.facts.pool.index())?.as_mut()?;
        let (policy, eligible) = pool.parts();
        let candidates = if ticket.tried.is_empty() {
            eligible
        } else {
            self.scratch.clear();
            self.scratch.extend(eligible.iter().filter(|s| !ticket.tried.contains(s)));
            &self.scratch
        };
        let pick = policy.pick(candidates, &self.endpoints, &ticket.facts, &mut self.rng)?;
        let explanation = Explanation {
            pool: ticket.facts.pool,
            policy: policy.kind(),
            candidates: candidates.len() as u32,
            score: pick.score,
            in_flight: self.endpoints.in_flight(pick.slot),
        };
        let work = total_work(&ticket.facts);
        ticket.stage = Stage::Sent { slot: pick.slot, work_left: work };
        self.endpoints.add_load(pick.slot, work);
        Some(Decision { ticket: id, endpoint: self.endpoints.id(pick.slot), explanation })
    }

    fn progress(&mut self, progress: Progress) {
        let Some(ticket) = self.tickets.get_mut(progress.ticket) else { return };
        let Stage::Sent { slot, work_left } = &mut ticket.stage else { return };
        // What should be left after this many tokens; an answer longer than
        // estimated keeps the work of one token, so that it never looks done.
        let output = u64::from(ticket.facts.output_tokens.saturating_sub(progress.tokens).max(1));
        let left =
            (output * WORK_PER_OUTPUT_TOKEN).min(total_work(&ticket.facts) - prefill_work(&ticket.facts));
        let done = work_left.saturating_sub(left);
        *work_left -= done;
        self.endpoints.reduce_work(*slot, done);
    }

    fn end(&mut self, now: Time, id: TicketId, effects: &mut Effects) {
        if let Some(pool) = self.drop_ticket(id) {
            self.wake(now, pool, effects);
        }
    }

    /// Settles a ticket: whatever it holds is given back. Returns its pool.
    fn drop_ticket(&mut self, id: TicketId) -> Option<PoolId> {
        let ticket = self.tickets.remove(id)?;
        let pool = self.pools.get_mut(ticket.facts.pool.index()).and_then(Option::as_mut);
        match (ticket.stage, pool) {
            (Stage::Waiting, Some(pool)) => pool.admission.withdraw(id),
            (_, Some(pool)) => pool.admission.leave(),
            (_, None) => {}
        }
        if let Stage::Sent { slot, work_left } = ticket.stage {
            self.endpoints.remove_load(slot, work_left);
        }
        Some(ticket.facts.pool)
    }

    fn refresh(&mut self, slot: u32) {
        for pool in self.pools.iter_mut().flatten() {
            if pool.has(slot) {
                pool.refresh(&self.endpoints);
            }
        }
    }

    fn wake_all(&mut self, now: Time, effects: &mut Effects) {
        for i in 0..self.pools.len() {
            self.wake(now, PoolId(i as u32), effects);
        }
    }

    /// Lets waiting requests go while there is room, after those whose time is over.
    fn wake(&mut self, now: Time, id: PoolId, effects: &mut Effects) {
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
            match self.place(ticket) {
                Some(decision) => effects.go.push(decision),
                None => {
                    self.drop_ticket(ticket);
                    let refusal = Refusal { reason: RefuseReason::NoneReady, retry_after: RETRY_NONE_READY };
                    effects.refuse.push((ticket, refusal));
                }
            }
        }
    }

    fn pool_mut(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.pools.get_mut(id.index())?.as_mut()
    }

    /// Requests in flight and work over all endpoints, for tests.
    #[cfg(test)]
    pub(crate) fn totals(&self) -> (u64, u64) {
        self.endpoints.totals()
    }
}

fn refuse(reason: RefuseReason, retry_after: Duration) -> Verdict {
    Verdict::Refuse(Refusal { reason, retry_after })
}
