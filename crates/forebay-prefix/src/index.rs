//! The index: the calls of its users, around one writer and any number of readers.

use std::sync::atomic::Ordering::Relaxed;

use forebay_core::{EndpointId, Time};
use parking_lot::Mutex;

use crate::lookup;
use crate::snapshot::{Encoder, decode};
use crate::store::{Arena, CHUNK_BYTES, Lanes, MAX_LANES, Store};
use crate::write::Writer;
use crate::{IndexConfig, Matches, Restored, SnapshotError, Stats};

/// Where an engine keeps a confirmed block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// The accelerator's memory: ready to use.
    Gpu,
    /// The host's memory: must be copied back first.
    Host,
}

/// Holds of forgotten endpoints taken out beside every change.
const SWEEP_BESIDE: usize = 2;
/// The same by every [`PrefixIndex::tick`].
const SWEEP_BY_TICK: usize = 512;

/// Which endpoint holds which prompt prefix.
///
/// Look-ups take no lock and never wait for a change. Changes wait for each
/// other, for as long as one chain takes.
pub struct PrefixIndex {
    store: Store,
    writer: Mutex<Writer>,
    /// Bytes in use whatever is held.
    fixed_bytes: usize,
}

impl PrefixIndex {
    /// An empty index.
    pub fn new(config: IndexConfig) -> PrefixIndex {
        let most = config.max_bytes.clamp(IndexConfig::MIN_BYTES, IndexConfig::MAX_BYTES);
        let directory = 3 * Arena::directory_bytes(1);
        let chunks = (most - Lanes::BYTES) / (CHUNK_BYTES + directory);
        let index = PrefixIndex {
            store: Store::new(chunks),
            writer: Mutex::new(Writer::new(config, chunks)),
            fixed_bytes: Lanes::BYTES + chunks * directory,
        };
        index.change(|_, _| ());
        index
    }

    fn change<R>(&self, change: impl FnOnce(&mut Writer, &Store) -> R) -> R {
        let mut writer = self.writer.lock();
        let result = change(&mut writer, &self.store);
        writer.sweep(&self.store, SWEEP_BESIDE);
        self.store.bytes.store(self.fixed_bytes + writer.bytes(), Relaxed);
        result
    }

    /// How many blocks of `chain` each endpoint holds from its start on, into
    /// `out`, which is emptied first. Endpoints that hold none are left out.
    ///
    /// Takes no lock. What changes meanwhile is seen as it was before or after,
    /// or, if it keeps changing, as less than is held.
    pub fn lookup(&self, chain: &[u64], out: &mut Matches) {
        lookup::lookup(&self.store, chain, out);
    }

    /// A request with this chain was sent to `endpoint`: it counts as holding
    /// the whole chain until [`end`](Self::end) is called with the same chain.
    pub fn begin(&self, endpoint: EndpointId, chain: &[u64]) {
        self.change(|writer, store| writer.begin(store, endpoint, chain));
    }

    /// The request is over. With `keep` (it was served) its blocks are
    /// committed. Without a matching [`begin`](Self::begin) since the endpoint
    /// was last forgotten, nothing happens.
    pub fn end(&self, endpoint: EndpointId, chain: &[u64], keep: bool, now: Time) {
        self.change(|writer, store| writer.end(store, endpoint, chain, keep, now));
    }

    /// `endpoint` is known to have computed this chain, without a
    /// [`begin`](Self::begin) here.
    pub fn commit(&self, endpoint: EndpointId, chain: &[u64], now: Time) {
        self.change(|writer, store| writer.commit(store, endpoint, chain, now));
    }

    /// The engine said that it holds these blocks in the accelerator's memory.
    /// `hashes` are consecutive blocks of one chain, in order; the first may be
    /// anywhere in it.
    pub fn insert_confirmed(&self, endpoint: EndpointId, hashes: &[u64]) {
        self.insert_confirmed_after(endpoint, Tier::Gpu, None, hashes);
    }

    /// As [`insert_confirmed`](Self::insert_confirmed), for either tier.
    /// `parent` is the chain element before the first of `hashes` where it is
    /// known: with it, blocks that arrive one by one are kept together.
    pub fn insert_confirmed_after(
        &self,
        endpoint: EndpointId,
        tier: Tier,
        parent: Option<u64>,
        hashes: &[u64],
    ) {
        self.change(|writer, store| writer.insert_confirmed(store, endpoint, tier, parent, hashes));
    }

    /// The engine said that these blocks left the accelerator's memory, in any
    /// order. Takes back what was only committed, too, with all that follows it.
    pub fn remove_confirmed(&self, endpoint: EndpointId, hashes: &[u64]) {
        self.remove_confirmed_in(endpoint, Tier::Gpu, hashes);
    }

    /// As [`remove_confirmed`](Self::remove_confirmed), for either tier.
    pub fn remove_confirmed_in(&self, endpoint: EndpointId, tier: Tier, hashes: &[u64]) {
        self.change(|writer, store| writer.remove_confirmed(store, endpoint, tier, hashes));
    }

    /// The engine said that of this chain, for which `predicted_blocks` were
    /// expected, `cached_blocks` were really in its cache when the request
    /// arrived. What it had is committed and counts as used now. Where it had
    /// less than predicted, the first missing block and everything behind it,
    /// in all chains, is no longer committed. Call it before [`end`](Self::end).
    pub fn correct(
        &self,
        endpoint: EndpointId,
        chain: &[u64],
        cached_blocks: u32,
        predicted_blocks: u32,
        now: Time,
    ) {
        self.change(|writer, store| {
            writer.correct(store, endpoint, chain, cached_blocks, predicted_blocks, now);
        });
    }

    /// The endpoint lost its cache (it restarted, or cleared it): no look-up
    /// finds it any more. O(1); what it held is taken out little by little.
    pub fn forget(&self, endpoint: EndpointId) {
        self.change(|writer, store| writer.forget(store, endpoint));
    }

    /// The endpoint lost what it had served, but for what its engine says that it
    /// holds ([`insert_confirmed`](Self::insert_confirmed)).
    pub fn forget_committed(&self, endpoint: EndpointId) {
        while self.change(|writer, store| writer.uncommit_oldest(store, endpoint)) {}
    }

    /// The engine can no longer be asked about these blocks, which it said that it
    /// has ready: they count as restored ones from now on (see
    /// [`restore`](Self::restore)), worth `confidence` unless the endpoint has
    /// others already. `hashes` are consecutive blocks of one chain that go on
    /// after `parent`.
    pub fn doubt(&self, endpoint: EndpointId, parent: Option<u64>, hashes: &[u64], confidence: f64) {
        self.change(|writer, store| writer.doubt(store, endpoint, parent, hashes, confidence));
    }

    /// What was restored or doubted of the endpoint and not confirmed since is
    /// taken back: the engine itself tells what it holds.
    pub fn drop_restored(&self, endpoint: EndpointId) {
        while self.change(|writer, store| writer.drop_restored(store, endpoint)) {}
    }

    /// The endpoint left for good: its entries and settings go, and late calls
    /// for the same id are ignored. O(1). A newer generation of its slot does
    /// the same by itself.
    pub fn retire(&self, endpoint: EndpointId) {
        self.change(|writer, store| writer.retire(store, endpoint));
    }

    /// How many blocks (of the index's size, not the engine's) the endpoint's
    /// cache has room for, as the engine says; `None` when it does not. What
    /// is over it is taken back at once or, if that is much, by the next calls.
    pub fn set_capacity(&self, endpoint: EndpointId, blocks: Option<u32>) {
        self.change(|writer, store| writer.set_capacity(store, endpoint, blocks));
    }

    /// Housekeeping, in bounded steps: lets confidence in restored entries fade,
    /// and takes out what forgotten endpoints left behind. Call it about once a
    /// second.
    pub fn tick(&self, now: Time) {
        self.change(|writer, store| {
            writer.fade(store, now);
            writer.sweep(store, SWEEP_BY_TICK);
        });
    }

    /// What the entries of `endpoint` are worth, 0 to 1: less than 1 only while
    /// some of them were restored from a snapshot and not yet confirmed.
    pub fn confidence(&self, endpoint: EndpointId) -> f64 {
        let writer = self.writer.lock();
        let known = writer.endpoints.get(&endpoint.slot).filter(|e| e.generation == endpoint.generation);
        known.and_then(|known| known.lane).map_or(1.0, |lane| writer.worth(lane))
    }

    /// Bytes that the index holds now, at most [`IndexConfig::max_bytes`] but
    /// for about 100 bytes per request in flight.
    pub fn bytes(&self) -> usize {
        self.store.bytes.load(Relaxed)
    }

    /// Numbers for metrics.
    pub fn stats(&self) -> Stats {
        self.writer.lock().stats(&self.store)
    }

    /// The ready entries of every endpoint that `names` knows a name for, to be
    /// written to disk. Versioned and checksummed. Changes wait for one
    /// endpoint's entries at a time, never for the whole.
    pub fn snapshot(&self, names: impl Fn(EndpointId) -> Option<String>) -> Vec<u8> {
        let mut encoder = Encoder::default();
        for lane in 0..MAX_LANES as u16 {
            if u32::from(lane) >= self.store.lanes.high() {
                break;
            }
            let Some(owner) = self.store.lanes.owner(lane) else { continue };
            let Some(name) = names(owner.endpoint) else { continue };
            let dump = self.writer.lock().dump(&self.store, lane);
            if let Some((endpoint, segments)) = dump
                && endpoint == owner.endpoint
                && !segments.is_empty()
            {
                encoder.endpoint(&name, &segments);
            }
        }
        encoder.finish()
    }

    /// Takes over the entries of a [`snapshot`](Self::snapshot) for the
    /// endpoints that `resolve` knows. They count as committed and older than
    /// all others, with less confidence (see [`IndexConfig`]).
    ///
    /// # Errors
    /// A snapshot that is cut off, damaged or of another version is refused
    /// whole, and nothing changes.
    pub fn restore(
        &self,
        bytes: &[u8],
        resolve: impl Fn(&str) -> Option<EndpointId>,
    ) -> Result<Restored, SnapshotError> {
        let mut restored = Restored::default();
        for (name, segments) in decode(bytes)? {
            match resolve(&name) {
                Some(endpoint) => {
                    restored.endpoints += 1;
                    restored.blocks +=
                        self.change(|writer, store| writer.take_over(store, endpoint, &segments));
                }
                None => restored.unknown += 1,
            }
        }
        Ok(restored)
    }
}

impl Writer {
    fn bytes(&self) -> usize {
        const FLIGHT: usize = 96;
        self.memory.chunks_made() * CHUNK_BYTES + self.flights * FLIGHT
    }
}
