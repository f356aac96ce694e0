//! What other gateways before the same endpoints have in flight, by their last
//! word, and which part of the fleet is this gateway's own.
//!
//! Gateways that all send to the endpoint that looks best, each by a view that
//! is old by the time it acts, all send to the same one. While words are newer
//! than the next few requests ([`UNSEEN`]), everybody may use every endpoint.
//! With older ones a request whose prompt is mostly new goes only to this
//! gateway's *window* of the fleet: so many endpoints that lie together in an order that all gateways agree on,
//! twice as many as its share of the traffic is worth. What is held somewhere
//! may still be sent there from everywhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{EndpointId, Time};
use serde::{Deserialize, Serialize};

use crate::endpoints::Endpoints;
use crate::gate::Gate;
use crate::pick::cost::{PREFILL_WINDOW_MS, SLO_CLASSES, SloClass};

/// Words are news while no more requests than this come to all other gateways
/// from one to the next. Measured (docs/evaluation.md) with 18 requests per
/// second over 16 endpoints only: the whole fleet and the window are worth the
/// same at 100 ms, and the window more at 500 ms.
const UNSEEN: f64 = 2.0;
/// A window has at least so many endpoints.
const MIN_WINDOW: f64 = 4.0;
/// … and this many times what the gateway's share of the traffic is worth.
const WINDOW_TIMES: f64 = 2.0;
/// Weight of the latest gap between two words of a peer.
const GAP_SMOOTHING: f64 = 0.2;
/// A peer that said nothing for so long is taken to be gone.
const GONE: Duration = Duration::from_secs(10);

/// What a gateway has in flight at one endpoint. Absolute values, so that a
/// word that is lost or comes twice does no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerLoad {
    /// Requests sent and not ended.
    pub requests: u32,
    /// Those past their first token.
    pub streams: u32,
    /// Prefill sent whose first token was not seen, in microseconds of the
    /// endpoint's class.
    pub owed_us: u64,
    /// Outstanding work, in prompt-token equivalents.
    pub work: u64,
    /// Prompt tokens of the requests in flight.
    pub context: u64,
    /// Distinct blocks of the prefix index that they hold, and their prompt
    /// tokens that no block covers.
    pub blocks: u64,
    /// See `blocks`.
    pub tail: u64,
    /// Prefill sent lately, decaying with a time constant of 20 s, in milliseconds.
    pub dispatched_ms: f32,
    /// Requests by class, in the order of [`PeerWord::classes`].
    pub classes: [u32; SLO_CLASSES],
}

/// What one gateway tells the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerWord {
    /// Requests that come to it, per millisecond.
    pub arrivals_per_ms: f64,
    /// Classes of requests that it tells apart.
    pub classes: Vec<SloClass>,
    /// Endpoints, as the one that hears of it knows them; those left out have nothing.
    pub loads: Vec<(EndpointId, PeerLoad)>,
}

impl PeerWord {
    /// Nothing is new: what merely fades with time is known to fade.
    pub fn repeats(&self, other: &PeerWord) -> bool {
        let same = |(a, b): (&(EndpointId, PeerLoad), &(EndpointId, PeerLoad))| {
            a.0 == b.0 && PeerLoad { dispatched_ms: b.1.dispatched_ms, ..a.1 } == b.1
        };
        self.loads.len() == other.loads.len() && self.loads.iter().zip(&other.loads).all(same)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Peer {
    /// When it last said anything, and when it said this word.
    heard: Time,
    said: Time,
    /// Milliseconds between its words, smoothed; none before the second.
    gap_ms: Option<f64>,
    word: Arc<PeerWord>,
}

/// All peers of a Gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peers {
    /// This gateway's own number among them all.
    me: u32,
    /// How many there are, itself included, as the operator says; 0: not told.
    gateways: u32,
    peers: BTreeMap<u32, Peer>,
}

/// Which part of the fleet is a gateway's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    /// Its share of all arrivals, above 0.
    pub(crate) share: f64,
    /// The shares of those before it, together.
    before: f64,
    /// What peers say is too old to use every endpoint.
    windowed: bool,
}

impl Standing {
    pub(crate) const ALONE: Standing = Standing { share: 1.0, before: 0.0, windowed: false };

    /// The places of its window in a ring of so many, as its first place and
    /// how many; none when that is all of them.
    pub(crate) fn window(&self, ring: usize) -> Option<(usize, usize)> {
        let n = ring as f64;
        let width = (WINDOW_TIMES * n * self.share).ceil().max(MIN_WINDOW);
        if !self.windowed || width >= n {
            return None;
        }
        let centre = (self.before + self.share / 2.0) * n;
        let first = (centre - width / 2.0).round().rem_euclid(n);
        Some(((first as usize).min(ring - 1), width as usize))
    }
}

impl Peers {
    /// How this gateway stands among all, by what is known now.
    pub(crate) fn standing(&self, now: Time, own_per_ms: f64) -> Standing {
        let told = self.gateways.max(1);
        if self.peers.is_empty() {
            let share = 1.0 / f64::from(told);
            return Standing { share, before: share * f64::from(self.me.min(told - 1)), windowed: told > 1 };
        }
        let own = own_per_ms.max(1e-9);
        let (mut all, mut before, mut oldest) = (own, 0.0, 0.0f64);
        for (&number, peer) in &self.peers {
            let theirs = peer.word.arrivals_per_ms.max(0.0);
            all += theirs;
            if number < self.me {
                before += theirs;
            }
            let age = now.since(peer.heard).as_secs_f64() * 1e3;
            oldest = oldest.max(age).max(peer.gap_ms.unwrap_or(f64::INFINITY));
        }
        let windowed = oldest.is_infinite() || (all - own) * oldest > UNSEEN;
        Standing { share: (own / all).clamp(1e-3, 1.0), before: (before / all).clamp(0.0, 1.0), windowed }
    }

    /// Whether anybody else is known to send to the same endpoints.
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty() && self.gateways <= 1
    }

    fn remove(&mut self, number: u32, endpoints: &mut Endpoints, now: Time) {
        if let Some(peer) = self.peers.remove(&number) {
            for (id, _) in &peer.word.loads {
                self.sum(*id, endpoints, now);
            }
        }
    }

    /// Adds up what all peers have at one endpoint.
    fn sum(&self, id: EndpointId, endpoints: &mut Endpoints, now: Time) {
        let Some(slot) = endpoints.slot(id) else { return };
        let mut sum = PeerLoad::default();
        for peer in self.peers.values() {
            // Words are sorted by whoever takes them in.
            let at = peer.word.loads.binary_search_by_key(&id, |(id, _)| *id);
            if let Some((_, load)) = at.ok().and_then(|at| peer.word.loads.get(at)) {
                sum.requests = sum.requests.saturating_add(load.requests);
                sum.streams = sum.streams.saturating_add(load.streams.min(load.requests));
                sum.owed_us = sum.owed_us.saturating_add(load.owed_us);
                sum.work = sum.work.saturating_add(load.work);
                sum.context = sum.context.saturating_add(load.context);
                sum.blocks = sum.blocks.saturating_add(load.blocks);
                sum.tail = sum.tail.saturating_add(load.tail);
                let age_ms = now.since(peer.said).as_secs_f32() * 1e3;
                let kept = load.dispatched_ms * (-age_ms / PREFILL_WINDOW_MS).exp();
                sum.dispatched_ms += if kept.is_finite() { kept.max(0.0) } else { 0.0 };
                for (mine, theirs) in sum.classes.iter_mut().zip(&load.classes) {
                    *mine = mine.saturating_add(*theirs);
                }
            }
        }
        endpoints.set_peers(slot, sum, now);
    }
}

impl Gate {
    /// What this Gate tells its peers: endpoints with nothing in flight and
    /// nothing lately are left out. O(endpoints).
    pub fn word(&self, now: Time) -> PeerWord {
        let pools = || self.pools.iter().flatten();
        let decay = self.endpoints.decay(now);
        PeerWord {
            arrivals_per_ms: pools().map(|pool| f64::from(pool.learned.arrivals_per_ms(now))).sum(),
            // Pools of one Gate rarely differ in their limits: the first one speaks for all.
            classes: pools().next().map(|pool| pool.learned.classes().to_vec()).unwrap_or_default(),
            loads: self.endpoints.own_loads(decay),
        }
    }

    /// This gateway is number `me` of so many that send to the same endpoints.
    pub(crate) fn stand_among(&mut self, me: u32, gateways: u32) {
        self.peers.me = me;
        self.peers.gateways = gateways;
        self.order_rings();
    }

    /// A peer spoke; without a word there was nothing new.
    pub(crate) fn hear_peer(&mut self, now: Time, number: u32, word: Option<Arc<PeerWord>>) {
        if self.peers.is_empty() {
            self.order_rings();
        }
        let endpoints = &mut self.endpoints;
        let known = self.peers.peers.get_mut(&number);
        let gap_ms = known.as_ref().map(|peer| {
            let gap = now.since(peer.heard).as_secs_f64() * 1e3;
            peer.gap_ms.map_or(gap, |before| before + (gap - before) * GAP_SMOOTHING)
        });
        match (known, word) {
            (Some(peer), None) => {
                peer.heard = now;
                peer.gap_ms = gap_ms;
            }
            (None, None) => {}
            (_, Some(word)) => {
                let mut word = (*word).clone();
                word.loads.sort_unstable_by_key(|(id, _)| *id);
                if let Some(pool) = self.pools.iter_mut().flatten().next() {
                    pool.learned.translate(&mut word);
                }
                let word = Arc::new(word);
                let before = self
                    .peers
                    .peers
                    .insert(number, Peer { heard: now, said: now, gap_ms, word: Arc::clone(&word) });
                let gone = before.map(|peer| peer.word);
                for (id, _) in gone.iter().flat_map(|word| &word.loads).chain(&word.loads) {
                    self.peers.sum(*id, endpoints, now);
                }
            }
        }
    }

    /// From now on there are windows.
    fn order_rings(&mut self) {
        for pool in self.pools.iter_mut().flatten() {
            pool.order_ring(&self.endpoints);
        }
    }

    /// Peers that have long said nothing have nothing in flight any more.
    pub(crate) fn forget_peers(&mut self, now: Time) {
        let gone: smallvec::SmallVec<[u32; 4]> = self
            .peers
            .peers
            .iter()
            .filter(|(_, peer)| now.since(peer.heard) > GONE)
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            self.peers.remove(number, &mut self.endpoints, now);
        }
    }
}
