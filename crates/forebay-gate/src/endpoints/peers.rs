//! What other gateways have in flight, beside what this one has.

use forebay_core::{EndpointId, Time};

use super::Endpoints;
use crate::peers::PeerLoad;

impl Endpoints {
    /// What other gateways have there, by their last word.
    pub(crate) fn peer(&self, slot: u32) -> PeerLoad {
        self.peers.get(slot as usize).copied().unwrap_or_default()
    }

    /// Takes in what other gateways have there, all together. What they sent
    /// lately decays from now on as this Gate's own.
    pub(crate) fn set_peers(&mut self, slot: u32, sum: PeerLoad, now: Time) {
        let scale = self.decay(now).recip() as f32;
        if self.peers.len() < self.rows.len() {
            self.peers.resize(self.rows.len(), PeerLoad::default());
        }
        self.peers[slot as usize] = PeerLoad { dispatched_ms: sum.dispatched_ms * scale, ..sum };
    }

    /// Whether any other gateway ever told what it has.
    pub(crate) fn has_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Requests there, those of other gateways and of others' clients included.
    pub(crate) fn all_requests(&self, slot: u32) -> f32 {
        self.row(slot).all_requests() + self.peer(slot).requests as f32
    }

    /// Requests that gateways sent there and that have not ended.
    pub(crate) fn all_in_flight(&self, slot: u32) -> u32 {
        self.in_flight(slot).saturating_add(self.peer(slot).requests)
    }

    /// Outstanding work that gateways sent there.
    pub(crate) fn all_work(&self, slot: u32) -> u64 {
        self.work(slot).saturating_add(self.peer(slot).work)
    }

    /// Streams past their first token, likewise.
    pub(crate) fn all_streams(&self, slot: u32) -> f32 {
        self.row(slot).all_streams() + self.peer(slot).streams as f32
    }

    /// Context of everything in flight, likewise.
    pub(crate) fn all_context(&self, slot: u32) -> f32 {
        self.row(slot).all_context() + self.peer(slot).context as f32
    }

    /// What this Gate itself has in flight, for its peers; `decay` is that of
    /// [`Endpoints::decay`] now.
    pub(crate) fn own_loads(&self, decay: f64) -> Vec<(EndpointId, PeerLoad)> {
        let mut loads = Vec::new();
        for (i, row) in self.rows.iter().enumerate() {
            let dispatched_ms = (row.dispatched * decay) as f32;
            if !self.member[i] || row.requests == 0 && dispatched_ms < 1.0 {
                continue;
            }
            let load = PeerLoad {
                requests: row.requests,
                streams: row.streams,
                owed_us: row.owed_us,
                work: row.work,
                context: row.context,
                blocks: row.blocks,
                tail: row.tail,
                dispatched_ms,
                classes: row.classes,
            };
            loads.push((self.id(i as u32), load));
        }
        loads
    }
}
