//! Requests that have been admitted or wait, by ticket.

use std::sync::Arc;

use forebay_core::{RequestFacts, TicketId, Time};
use forebay_predict::Predicted;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::endpoints::FirstTokens;
use crate::pick::Note;
use crate::row::Charge;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// In the queue of its pool.
    Waiting,
    /// Sent to an endpoint.
    Sent(Sending),
    /// Admitted, and between two endpoints: the last one could not take it.
    Homeless,
}

/// A request waits for its adapter to be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loading {
    /// How long, as it was predicted, in milliseconds.
    pub(crate) ms: f32,
    /// It is the one for which it is loaded.
    pub(crate) first: bool,
}

/// A request at its endpoint, and what was predicted of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sending {
    pub(crate) slot: u32,
    /// What it put there.
    pub(crate) charge: Charge,
    pub(crate) at: Time,
    /// Its parts of the time to the first token at its class's own speed.
    pub(crate) base: Predicted,
    /// The time to the first token as it was predicted, in milliseconds.
    pub(crate) ttft_ms: f32,
    /// The time per token as it was predicted, without the pool's correction
    /// and at the class's own speed.
    pub(crate) tpot_base_ms: f32,
    /// The time per token as it was priced, in milliseconds.
    pub(crate) tpot_ms: f32,
    /// Requests in flight there when it was sent, itself left out.
    pub(crate) in_flight: u32,
    /// What the policy that picked wants to hear again.
    pub(crate) note: Note,
    /// What it met where it was sent.
    pub(crate) met: FirstTokens,
    /// Its adapter was not there yet.
    pub(crate) loading: Option<Loading>,
    /// From being sent to the first token.
    pub(crate) first_token: Option<std::time::Duration>,
    /// When its tokens were last counted, and how many there were.
    pub(crate) counted: (Time, u32),
}

impl Sending {
    /// When its first token is taken to have come, where nobody sees it.
    pub(crate) fn unseen_at(&self) -> Time {
        self.at + std::time::Duration::from_secs_f32(self.ttft_ms.clamp(0.0, 1e7) * 1e-3)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) facts: Arc<RequestFacts>,
    pub(crate) stage: Stage,
    /// Slots that could not take it.
    pub(crate) tried: SmallVec<[u32; 2]>,
}

/// A table of tickets with reused slots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tickets {
    rows: Vec<(u32, Option<Ticket>)>,
    free: Vec<u32>,
}

impl Tickets {
    pub(crate) fn insert(&mut self, facts: Arc<RequestFacts>, stage: Stage) -> TicketId {
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
