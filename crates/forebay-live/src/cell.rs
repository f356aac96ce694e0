//! One Gate behind its lock, with those who wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{EndpointId, PoolId, RequestFacts, TicketId, Time};
use forebay_gate::{Decision, Effects, Event, Gate, Refusal, RepickReason, Verdict};
use tokio::sync::oneshot;

use crate::log::{Entry, Recorder};

/// What a waiting request is told.
pub(crate) type Woken<M> = Result<(Decision, Arc<M>), Refusal>;

/// An endpoint as its shell knows it: which holder of its slot it is, what the
/// shell keeps of it, and its pools.
pub(crate) struct Known<M> {
    pub(crate) id: EndpointId,
    pub(crate) member: Arc<M>,
    pub(crate) pools: Arc<[PoolId]>,
}

/// A Gate and everyone who waits for it. Every call passes here, in the order
/// in which the lock was taken, and is written to the decision log as it is.
pub(crate) struct Cell<M> {
    pub(crate) gate: Gate,
    pub(crate) waiters: BTreeMap<TicketId, oneshot::Sender<Woken<M>>>,
    /// By slot.
    pub(crate) members: Vec<Option<Known<M>>>,
    pub(crate) recorder: Option<Recorder>,
}

impl<M> Cell<M> {
    pub(crate) fn new(seed: u64) -> Cell<M> {
        Cell { gate: Gate::new(seed), waiters: BTreeMap::new(), members: Vec::new(), recorder: None }
    }

    pub(crate) fn known(&self, id: EndpointId) -> Option<&Known<M>> {
        self.members.get(id.index())?.as_ref().filter(|known| known.id == id)
    }

    pub(crate) fn member(&self, id: EndpointId) -> Option<&Arc<M>> {
        self.known(id).map(|known| &known.member)
    }

    pub(crate) fn submit(&mut self, now: Time, facts: Arc<RequestFacts>) -> Verdict {
        let Cell { gate, recorder, .. } = self;
        let Some(recorder) = recording(recorder, gate) else { return gate.submit(now, facts) };
        let verdict = gate.submit(now, Arc::clone(&facts));
        recorder.push(Entry::Submit(now, facts, verdict));
        verdict
    }

    pub(crate) fn repick(&mut self, now: Time, ticket: TicketId, why: RepickReason) -> Verdict {
        let Cell { gate, recorder, .. } = self;
        let Some(recorder) = recording(recorder, gate) else { return gate.repick(now, ticket, why) };
        let verdict = gate.repick(now, ticket, why);
        recorder.push(Entry::Repick(now, ticket, why, verdict));
        verdict
    }

    fn tell(&mut self, now: Time, event: Event) -> Effects {
        let Cell { gate, recorder, .. } = self;
        let Some(recorder) = recording(recorder, gate) else { return gate.apply(now, event) };
        let effects = gate.apply(now, event.clone());
        recorder.push(Entry::Apply(now, event, effects.clone()));
        effects
    }

    /// Applies an event and wakes whom it concerns.
    pub(crate) fn apply(&mut self, now: Time, event: Event) -> Option<EndpointId> {
        let effects = self.tell(now, event);
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
                if !told {
                    gone.push(decision.ticket);
                }
            }
            if gone.is_empty() {
                return joined;
            }
            for ticket in gone {
                let more = self.tell(now, Event::Cancelled(ticket));
                pending.go.extend(more.go);
                pending.refuse.extend(more.refuse);
            }
        }
    }
}

/// Where the next call of this Gate is written to, if it is.
fn recording<'a>(recorder: &'a mut Option<Recorder>, gate: &Gate) -> Option<&'a mut Recorder> {
    recorder.as_mut().and_then(|recorder| recorder.ready(gate).then_some(recorder))
}
