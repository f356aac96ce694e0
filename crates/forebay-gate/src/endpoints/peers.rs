//! What other gateways have in flight, beside what this one has.

use forebay_core::{EndpointId, Time};

use super::{EPOCH, Endpoints};
use serde::{Deserialize, Serialize};

use crate::peers::PeerLoad;

/// What other gateways have at an endpoint, and what of it is counted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerSum {
    pub(super) load: PeerLoad,
    /// Tokens of KV memory in use by its last report; 0: it did not say.
    used: f32,
    /// What gateways knew to be there then: blocks, tokens in none, requests.
    blocks: u64,
    tail: u64,
    requests: f32,
}

impl Endpoints {
    /// What other gateways have there, by their last word.
    pub(crate) fn peer(&self, slot: u32) -> PeerLoad {
        self.peers.get(slot as usize).map(|sum| sum.load).unwrap_or_default()
    }

    /// Takes in what other gateways have there, all together. What they sent
    /// lately decays from now on as this Gate's own.
    pub(crate) fn set_peers(&mut self, slot: u32, sum: PeerLoad, now: Time) {
        // Nothing may have been sent for long: see `send`. Later than there, so
        // that one that sends is what moves it where both happen.
        if now.since(self.epoch) > 2 * EPOCH {
            self.move_epoch(now);
        }
        let scale = self.decay(now).recip() as f32;
        if self.peers.len() < self.rows.len() {
            self.peers.resize(self.rows.len(), PeerSum::default());
        }
        self.peers[slot as usize].load = PeerLoad { dispatched_ms: sum.dispatched_ms * scale, ..sum };
    }

    /// An endpoint says how much KV memory is in use, in tokens.
    pub(super) fn learn_overlap(&mut self, slot: u32, used: f32) {
        let row = &self.rows[slot as usize];
        let (blocks, tail, requests) = (row.blocks, row.tail, row.all_requests());
        let Some(sum) = self.peers.get_mut(slot as usize) else { return };
        sum.used = used;
        sum.blocks = blocks.saturating_add(sum.load.blocks);
        sum.tail = tail.saturating_add(sum.load.tail);
        sum.requests = requests + sum.load.requests as f32;
    }

    /// What part of the prompt tokens that gateways hold at an endpoint, each
    /// by its own account, really is there, above 0: a prefix that several
    /// gateways have in flight is in its memory once. By its last report, less
    /// half of the usual answers.
    pub(crate) fn distinct_share(&self, slot: u32, block_tokens: f32, usual_output: f32) -> f32 {
        let Some(sum) = self.peers.get(slot as usize).filter(|sum| sum.used > 0.0) else { return 1.0 };
        let told = sum.blocks as f32 * block_tokens + sum.tail as f32;
        let there = sum.used - sum.requests * usual_output * 0.5;
        if told > 0.0 { (there / told).clamp(0.05, 1.0) } else { 1.0 }
    }

    /// Whether any other gateway ever told what it has.
    pub(crate) fn has_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Requests there, those of other gateways and of others' clients included.
    pub(crate) fn all_requests(&self, slot: u32) -> f32 {
        self.row(slot).all_requests() + self.peer(slot).requests as f32
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
