//! What is known of endpoints' caches besides the index: whose engine tells what
//! it holds, how long the blocks are that it was taken to have served, and when
//! it began anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use forebay_core::{EndpointId, Time};
use forebay_gate::Event;
use parking_lot::{Mutex, RwLock};

use crate::live::{EndpointKey, Live};

/// A restart that the engine's own events showed is not another one when its
/// metrics or its models show it within this time, nor the other way round.
const SAME_RESTART: Duration = Duration::from_secs(30);

/// Blocks after which what was served before counts for a third.
const MEAN_BLOCKS: f32 = 2_000.0;

/// Keeps, beside the index, what engines say of their own caches.
pub trait EngineCaches: Send + Sync {
    /// The engine at an endpoint began anew, as something else than its events
    /// shows: what was known of its caches is taken out of the index. False when
    /// nobody follows its events; the index then forgets the endpoint.
    fn restarted(&self, key: EndpointKey) -> bool;
}

/// Who showed that an engine began anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Witness {
    /// Its own events.
    Events,
    /// Its metrics or its models.
    Pages,
}

/// Of the endpoints of one Gate.
#[derive(Default)]
pub(crate) struct Held {
    /// What was served there is theirs to confirm (KV events).
    telling: RwLock<BTreeSet<EndpointId>>,
    /// Tokens in a block that was committed, in the mean.
    block_tokens: RwLock<BTreeMap<EndpointId, AtomicU32>>,
    /// The last restart that was told to the Gate, and who showed it.
    restarts: Mutex<BTreeMap<EndpointId, (Time, Witness)>>,
}

impl Held {
    pub(crate) fn is_telling(&self, id: EndpointId) -> bool {
        self.telling.read().contains(&id)
    }

    /// Blocks of so many tokens were committed.
    pub(crate) fn committed(&self, id: EndpointId, blocks: usize, tokens: f32) {
        if let Some(mean) = self.block_tokens.read().get(&id) {
            let old = f32::from_bits(mean.load(Relaxed));
            let share = blocks as f32 / (blocks as f32 + MEAN_BLOCKS);
            // Two at once may lose one; it is a mean.
            mean.store((old + (tokens - old) * share).to_bits(), Relaxed);
            return;
        }
        self.block_tokens.write().entry(id).or_insert_with(|| AtomicU32::new(tokens.to_bits()));
    }

    /// Tokens in a committed block, in the mean; none while none was.
    pub(crate) fn block_tokens(&self, id: EndpointId) -> Option<f32> {
        self.block_tokens.read().get(&id).map(|mean| f32::from_bits(mean.load(Relaxed)))
    }

    /// Whether this is another restart than the other witness showed just before.
    fn is_another(&self, id: EndpointId, now: Time, witness: Witness) -> bool {
        let mut restarts = self.restarts.lock();
        restarts.retain(|_, (at, _)| now.since(*at) <= SAME_RESTART);
        let known = restarts.get(&id).is_some_and(|(_, other)| *other != witness);
        if !known {
            restarts.insert(id, (now, witness));
        }
        !known
    }
}

impl<M> Live<M> {
    /// Says who keeps what engines tell of their caches.
    pub fn set_engine_caches(&self, caches: Weak<dyn EngineCaches>) {
        *self.caches.lock() = Some(caches);
    }

    /// The engine at an endpoint began anew, as its metrics or its models show:
    /// what it held is gone. What its own events have told since they showed the
    /// same restart stays, and the Gate is told once.
    pub fn restarted(&self, key: EndpointKey) {
        let caches: Option<Arc<dyn EngineCaches>> = self.caches.lock().as_ref().and_then(Weak::upgrade);
        if !caches.is_some_and(|caches| caches.restarted(key))
            && let Some(index) = self.index(key.gate)
        {
            index.forget(key.id);
        }
        self.tell_restart(key, Witness::Pages);
    }

    /// As [`Live::restarted`], as the engine's own events show it: the Gate is
    /// told, and what it served before is gone. Whoever follows the events has
    /// taken back what they said; with several ranks in one engine, once for all.
    pub fn told_restart(&self, key: EndpointKey) {
        if self.tell_restart(key, Witness::Events)
            && let Some(index) = self.index(key.gate)
        {
            index.forget_committed(key.id);
        }
    }

    fn tell_restart(&self, key: EndpointKey, witness: Witness) -> bool {
        let now = self.clock().now();
        let another = self.held(key.gate).is_some_and(|held| held.is_another(key.id, now, witness));
        if another {
            self.apply(key.gate, Event::Restarted(key.id));
        }
        another
    }

    /// Whether the engine at an endpoint tells what it holds from now on.
    pub fn tells(&self, key: EndpointKey, tells: bool) {
        let Some(held) = self.held(key.gate) else { return };
        if held.is_telling(key.id) == tells {
            return;
        }
        let mut telling = held.telling.write();
        if tells {
            telling.insert(key.id);
        } else {
            telling.remove(&key.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Witness::{Events, Pages};
    use super::*;

    #[test]
    fn one_restart_is_told_once_whoever_shows_it_first() {
        let (a, b) = (EndpointId { slot: 1, generation: 0 }, EndpointId { slot: 2, generation: 0 });
        let told = |shown: &[(EndpointId, u64, Witness)]| {
            let held = Held::default();
            let mut told = Vec::new();
            for &(id, second, witness) in shown {
                if held.is_another(id, Time::ZERO + Duration::from_secs(second), witness) {
                    told.push(second);
                }
            }
            told
        };
        assert_eq!(told(&[(a, 1, Events), (a, 5, Pages)]), [1]);
        assert_eq!(told(&[(a, 1, Pages), (a, 5, Events)]), [1]);
        assert_eq!(told(&[(a, 1, Pages), (b, 5, Events)]), [1, 5], "another endpoint");
        assert_eq!(told(&[(a, 1, Events), (a, 5, Pages), (a, 20, Events), (a, 25, Pages)]), [1, 20]);
        assert_eq!(told(&[(a, 1, Pages), (a, 3, Events), (a, 20, Pages), (a, 22, Events)]), [1, 20]);
        assert_eq!(told(&[(a, 1, Events), (a, 100, Pages)]), [1, 100], "too late to be the same");
    }
}
