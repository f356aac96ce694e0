//! The Gates of the running program, each behind its lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{EndpointFacts, EndpointId, EndpointState, PoolId, RequestFacts, TicketId, Time};
use forebay_gate::{
    Decision, Effects, EndpointLoad, Event, Gate, PoolConfig, Progress, Refusal, RepickReason, Verdict,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::clock::{Clock, random_seed};
use crate::decisions::{DecisionRecord, DecisionRing};
use crate::ticket::{Ticket, Waiting};

/// How many decisions each Gate remembers for people to read.
const DECISIONS_KEPT: usize = 1024;

/// An endpoint among all Gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey {
    /// Which Gate.
    pub gate: u32,
    /// Which endpoint of it.
    pub id: EndpointId,
}

/// What is known of one endpoint now.
#[derive(Clone, Debug)]
pub struct EndpointView<M> {
    /// Its key.
    pub key: EndpointKey,
    /// The pools it is in.
    pub pools: Arc<[PoolId]>,
    /// Its load and state.
    pub load: EndpointLoad,
    /// What the shell keeps of it.
    pub member: Arc<M>,
}

/// What is known of one pool now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Requests admitted and not ended.
    pub in_flight: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Endpoints that may be picked.
    pub ready: usize,
}

/// What a waiting request is told.
pub(crate) type Woken<M> = Result<(Decision, Arc<M>), Refusal>;

pub(crate) struct Cell<M> {
    /// Its place among the Gates.
    number: u32,
    pub(crate) gate: Gate,
    waiters: BTreeMap<TicketId, oneshot::Sender<Woken<M>>>,
    decisions: DecisionRing,
    /// By slot.
    members: Vec<Option<Known<M>>>,
}

/// An endpoint as its shell knows it: which holder of its slot it is, what the
/// shell keeps of it, and its pools.
type Known<M> = (EndpointId, Arc<M>, Arc<[PoolId]>);

impl<M> Cell<M> {
    fn member(&self, id: EndpointId) -> Option<&Arc<M>> {
        match self.members.get(id.index())?.as_ref()? {
            (known, member, _) if *known == id => Some(member),
            _ => None,
        }
    }

    fn record(&mut self, now: Time, decision: Decision) {
        self.decisions.push(now, self.number, decision);
    }

    /// Applies an event and wakes whom it concerns.
    pub(crate) fn apply(&mut self, now: Time, event: Event) -> Option<EndpointId> {
        let effects = self.gate.apply(now, event);
        self.carry_out(now, effects)
    }

    /// A woken request whose owner has just gone frees its place again, which
    /// may wake the next; a loop, so that no chain of them can overflow the stack.
    fn carry_out(&mut self, now: Time, effects: Effects) -> Option<EndpointId> {
        let joined = effects.joined;
        let mut pending = effects;
        loop {
            let mut gone = Vec::new();
            for (ticket, refusal) in pending.refuse.drain(..) {
                if let Some(waiter) = self.waiters.remove(&ticket) {
                    // The owner may be gone; a refused ticket holds nothing.
                    let _ = waiter.send(Err(refusal));
                }
            }
            for decision in pending.go.drain(..) {
                let told = match (self.waiters.remove(&decision.ticket), self.member(decision.endpoint)) {
                    (Some(waiter), Some(member)) => waiter.send(Ok((decision, Arc::clone(member)))).is_ok(),
                    _ => false,
                };
                if told {
                    self.decisions.push(now, self.number, decision);
                } else {
                    gone.push(decision.ticket);
                }
            }
            if gone.is_empty() {
                return joined;
            }
            for ticket in gone {
                let more = self.gate.apply(now, Event::Cancelled(ticket));
                pending.go.extend(more.go);
                pending.refuse.extend(more.refuse);
            }
        }
    }
}

/// What a request is told when it is submitted.
pub(crate) enum Submitted<M> {
    Go(Decision, Arc<M>),
    Wait(TicketId, oneshot::Receiver<Woken<M>>),
    Refuse(Refusal),
}

/// The Gates of this program. `M` is what the shell keeps of an endpoint:
/// where to connect, its connection pool, its metrics.
pub struct Live<M> {
    clock: Clock,
    gates: Vec<Mutex<Cell<M>>>,
    /// Which Gate decides for each pool.
    gate_of: Vec<u32>,
}

impl<M> Live<M> {
    /// Gates for pools that are given as groups: `gate_of[pool]` is the number
    /// of its group. Pools that share an endpoint must be in one group.
    /// Without a seed one is drawn.
    pub fn new(gate_of: Vec<u32>, seed: Option<u64>) -> Live<M> {
        let gates = gate_of.iter().max().map_or(0, |most| *most as usize + 1);
        let seed = seed.unwrap_or_else(random_seed);
        let cell = |i| {
            Mutex::new(Cell {
                number: i as u32,
                gate: Gate::new(seed.wrapping_add(i as u64)),
                waiters: BTreeMap::new(),
                decisions: DecisionRing::new(DECISIONS_KEPT),
                members: Vec::new(),
            })
        };
        Live { clock: Clock::start(), gates: (0..gates).map(cell).collect(), gate_of }
    }

    /// The program's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    fn cell(&self, pool: PoolId) -> Option<(u32, &Mutex<Cell<M>>)> {
        let gate = *self.gate_of.get(pool.index())?;
        Some((gate, self.gates.get(gate as usize)?))
    }

    pub(crate) fn gate(&self, gate: u32) -> Option<&Mutex<Cell<M>>> {
        self.gates.get(gate as usize)
    }

    /// Makes a pool known, or changes how it decides.
    pub fn configure(&self, pool: PoolId, config: PoolConfig) {
        if let Some((_, cell)) = self.cell(pool) {
            let now = self.clock.now();
            cell.lock().apply(now, Event::Configure(pool, config));
        }
    }

    /// An endpoint joins a pool; none when the pool is not known. One that is
    /// in another pool of the group already, by name, keeps its first `member`.
    pub fn join(
        &self,
        pool: PoolId,
        facts: EndpointFacts,
        state: EndpointState,
        member: Arc<M>,
    ) -> Option<EndpointKey> {
        let (gate, cell) = self.cell(pool)?;
        let now = self.clock.now();
        let mut cell = cell.lock();
        // The member must be known before a waiting request can be sent there,
        // so the endpoint joins unready and is let in afterwards.
        let id = cell.apply(now, Event::Join(pool, facts, EndpointState::Starting))?;
        if cell.members.len() <= id.index() {
            cell.members.resize_with(id.index() + 1, || None);
        }
        match &mut cell.members[id.index()] {
            Some((known, _, pools)) if *known == id => {
                if !pools.contains(&pool) {
                    *pools = pools.iter().copied().chain([pool]).collect();
                }
            }
            other => {
                *other = Some((id, member, Arc::from([pool])));
                cell.apply(now, Event::State(id, state));
            }
        }
        Some(EndpointKey { gate, id })
    }

    /// An endpoint may or may not be picked from now on.
    pub fn set_state(&self, key: EndpointKey, state: EndpointState) {
        if let Some(cell) = self.gate(key.gate) {
            let now = self.clock.now();
            cell.lock().apply(now, Event::State(key.id, state));
        }
    }

    /// Asks the Gate for a request. Drop the future to give it up.
    ///
    /// # Errors
    /// The refusal, when the request is turned away.
    pub async fn admit(self: &Arc<Self>, facts: RequestFacts) -> Result<Ticket<M>, Refusal> {
        let (gate, submitted) = self.submit(&facts);
        match submitted {
            Submitted::Go(decision, member) => Ok(Ticket::new(Arc::clone(self), gate, decision, member)),
            // Boxed: waiting is rare, and its timer need not be in every request.
            Submitted::Wait(id, woken) => {
                Box::pin(Waiting::new(Arc::clone(self), gate, id, woken).wait()).await
            }
            Submitted::Refuse(refusal) => Err(refusal),
        }
    }

    pub(crate) fn submit(&self, facts: &RequestFacts) -> (u32, Submitted<M>) {
        let unknown = Refusal {
            reason: forebay_gate::RefuseReason::UnknownPool,
            retry_after: std::time::Duration::from_secs(1),
        };
        let Some((gate, cell)) = self.cell(facts.pool) else {
            return (0, Submitted::Refuse(unknown));
        };
        let mut cell = cell.lock();
        // Read under the lock: the order of decisions is the order of their times.
        let now = self.clock.now();
        let submitted = match cell.gate.submit(now, facts) {
            Verdict::Go(decision) => match cell.member(decision.endpoint).map(Arc::clone) {
                Some(member) => {
                    cell.record(now, decision);
                    Submitted::Go(decision, member)
                }
                None => {
                    cell.apply(now, Event::Cancelled(decision.ticket));
                    Submitted::Refuse(unknown)
                }
            },
            Verdict::Wait(ticket) => {
                let (sender, receiver) = oneshot::channel();
                cell.waiters.insert(ticket, sender);
                Submitted::Wait(ticket, receiver)
            }
            Verdict::Refuse(refusal) => Submitted::Refuse(refusal),
        };
        (gate, submitted)
    }

    pub(crate) fn repick(&self, gate: u32, ticket: TicketId, why: RepickReason) -> Woken<M> {
        let exhausted = Refusal {
            reason: forebay_gate::RefuseReason::Exhausted,
            retry_after: std::time::Duration::from_secs(1),
        };
        let cell = self.gate(gate).ok_or(exhausted)?;
        let mut cell = cell.lock();
        let now = self.clock.now();
        match cell.gate.repick(now, ticket, why) {
            Verdict::Go(decision) => {
                let member = cell.member(decision.endpoint).map(Arc::clone).ok_or(exhausted)?;
                cell.record(now, decision);
                Ok((decision, member))
            }
            Verdict::Refuse(refusal) => Err(refusal),
            Verdict::Wait(_) => Err(exhausted),
        }
    }

    pub(crate) fn apply(&self, gate: u32, event: Event) {
        if let Some(cell) = self.gate(gate) {
            let mut cell = cell.lock();
            let now = self.clock.now();
            cell.apply(now, event);
        }
    }

    /// A waiting request is given up: nobody is to be woken for it.
    pub(crate) fn withdraw(&self, gate: u32, ticket: TicketId) {
        if let Some(cell) = self.gate(gate) {
            let mut cell = cell.lock();
            let now = self.clock.now();
            cell.waiters.remove(&ticket);
            cell.apply(now, Event::Cancelled(ticket));
        }
    }

    pub(crate) fn next_timer(&self, gate: u32) -> Option<Time> {
        self.gate(gate)?.lock().gate.next_timer()
    }

    pub(crate) fn progress(&self, gate: u32, ticket: TicketId, tokens: u32) {
        self.apply(gate, Event::Progress(vec![Progress { ticket, tokens }]));
    }

    /// What is known of a pool.
    pub fn pool(&self, pool: PoolId) -> PoolView {
        match self.cell(pool) {
            Some((_, cell)) => {
                let cell = cell.lock();
                let (in_flight, waiting) = cell.gate.pool_load(pool);
                PoolView { in_flight, waiting, ready: cell.gate.ready(pool) }
            }
            None => PoolView { in_flight: 0, waiting: 0, ready: 0 },
        }
    }

    /// Every endpoint of every Gate.
    pub fn endpoints(&self) -> Vec<EndpointView<M>> {
        let mut views = Vec::new();
        for (gate, cell) in self.gates.iter().enumerate() {
            let cell = cell.lock();
            for (id, member, pools) in cell.members.iter().flatten() {
                if let Some(load) = cell.gate.load(*id) {
                    views.push(EndpointView {
                        key: EndpointKey { gate: gate as u32, id: *id },
                        pools: Arc::clone(pools),
                        load,
                        member: Arc::clone(member),
                    });
                }
            }
        }
        views
    }

    /// What the shell keeps of every endpoint.
    pub fn members(&self) -> Vec<Arc<M>> {
        let members = |cell: &Mutex<Cell<M>>| {
            cell.lock().members.iter().flatten().map(|(_, member, _)| Arc::clone(member)).collect::<Vec<_>>()
        };
        self.gates.iter().flat_map(members).collect()
    }

    /// The newest decisions over all Gates, newest first.
    pub fn decisions(&self, last: usize) -> Vec<DecisionRecord> {
        let mut all: Vec<_> = self.gates.iter().flat_map(|cell| cell.lock().decisions.newest(last)).collect();
        all.sort_by_key(|record| std::cmp::Reverse(record.at));
        all.truncate(last);
        all
    }

    /// Requests that are not settled, over all Gates.
    pub fn unsettled(&self) -> usize {
        self.gates.iter().map(|cell| cell.lock().gate.unsettled()).sum()
    }
}

impl<M> std::fmt::Debug for Live<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("gates", &self.gates.len()).finish_non_exhaustive()
    }
}
