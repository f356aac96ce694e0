//! Requests that have been admitted or wait, by ticket.

use forebay_core::{RequestFacts, TicketId};
use smallvec::SmallVec;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stage {
    /// In the queue of its pool.
    Waiting,
    /// Sent to the endpoint in this slot, with this much work outstanding there.
    Sent { slot: u32, work_left: u64 },
    /// Admitted, and between two endpoints: the last one could not take it.
    Homeless,
}

#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) facts: RequestFacts,
    pub(crate) stage: Stage,
    /// Slots that could not take it.
    pub(crate) tried: SmallVec<[u32; 2]>,
}

/// A table of tickets with reused slots.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    rows: Vec<(u32, Option<Ticket>)>,
    free: Vec<u32>,
}

impl Tickets {
    pub(crate) fn insert(&mut self, facts: RequestFacts, stage: Stage) -> TicketId {
        let ticket = Ticket { facts, stage, tried: SmallVec::new() };
        if let Some(slot) = self.free.pop() {
            let row = &mut self.rows[slot as usize];
            row.1 = Some(ticket);
            return TicketId { slot, generation: row.0 };
        }
        let slot = self.rows.len() as u32;
        self.rows.push((0, Some(ticket)));
        TicketId { slot, generation: 0 }
    }

    pub(crate) fn get_mut(&mut self, id: TicketId) -> Option<&mut Ticket> {
        let row = self.rows.get_mut(id.index())?;
        if row.0 == id.generation { row.1.as_mut() } else { None }
    }

    /// Takes a ticket out; a second call finds nothing, so that a request is
    /// settled exactly once.
    pub(crate) fn remove(&mut self, id: TicketId) -> Option<Ticket> {
        let row = self.rows.get_mut(id.index())?;
        if row.0 != id.generation {
            return None;
        }
        let ticket = row.1.take()?;
        row.0 = row.0.wrapping_add(1);
        self.free.push(id.slot);
        Some(ticket)
    }

    /// How many are not settled.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }
}
