//! The subscriptions of this process.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use forebay_wire::kv_events::{Message, parse_message};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::address::KvAddress;
use super::counts::{Counts, KvStatus};
use super::follower::{Follower, Incoming};
use super::listener::{Listener, Route};
use super::poll::Poller;
use super::source::{KvSettings, KvSource};
use super::zmtp::{Socket, ZmtpError};
use super::{KvSink, link};

/// Endpoint and rank.
type Key = (String, u32);

/// One subscription for each source. Dropped, all of them end.
pub struct KvFeeds {
    handle: Handle,
    sink: Arc<dyn KvSink>,
    settings: Arc<KvSettings>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    feeds: BTreeMap<Key, Feed>,
    listeners: BTreeMap<KvAddress, Listener>,
}

struct Feed {
    source: KvSource,
    counts: Arc<Counts>,
    /// The task of a source that we connect to.
    task: Option<AbortHandle>,
}

impl KvFeeds {
    /// No subscriptions yet. Their tasks run on `handle`'s runtime.
    pub fn new(handle: Handle, sink: Arc<dyn KvSink>, settings: KvSettings) -> KvFeeds {
        let running = Mutex::new(Running::default());
        KvFeeds { handle, sink, settings: Arc::new(settings), running }
    }

    /// Follows a source from now on, in place of the one of the same endpoint
    /// and rank if it is another. What was known of its cache stays: the caller
    /// forgets it if the engine is a new one.
    pub fn follow(&self, source: KvSource) {
        let key = (source.endpoint.clone(), source.rank);
        let running = &mut *self.running.lock();
        if running.feeds.get(&key).is_some_and(|feed| feed.source == source) {
            return;
        }
        running.remove(&key);
        let counts = Arc::new(Counts::default());
        let (settings, sink) = (self.settings.clone(), self.sink.clone());
        let task = if matches!(source.events, KvAddress::Http(_)) {
            let poller = Poller::new(source.clone(), settings, counts.clone(), sink);
            Some(self.handle.spawn(poller.run()).abort_handle())
        } else if source.bind {
            let listener = match running.listeners.entry(source.events.clone()) {
                Entry::Occupied(listener) => listener.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(Listener::start(&self.handle, source.events.clone(), self.settings.clone()))
                }
            };
            let follower = Follower::new(source.clone(), settings, counts.clone(), sink);
            listener.add(Route::new(follower));
            None
        } else {
            let follower = Follower::new(source.clone(), settings, counts.clone(), sink);
            Some(self.handle.spawn(follow(follower)).abort_handle())
        };
        running.feeds.insert(key, Feed { source, counts, task });
    }

    /// No longer follows any rank of an endpoint.
    pub fn unfollow(&self, endpoint: &str) {
        let running = &mut *self.running.lock();
        let ranks = running.feeds.keys().filter(|(name, _)| name == endpoint);
        let keys: Vec<Key> = ranks.cloned().collect();
        keys.iter().for_each(|key| running.remove(key));
    }

    /// What happened on each source, by endpoint and rank.
    pub fn status(&self) -> Vec<(KvSource, KvStatus)> {
        let running = self.running.lock();
        running.feeds.values().map(|feed| (feed.source.clone(), feed.counts.status())).collect()
    }

    /// The addresses that are listened at, with the ports that were free. One
    /// that cannot be bound yet is left out; it is tried again.
    pub fn listening(&self) -> Vec<(KvAddress, KvAddress)> {
        let running = self.running.lock();
        let bound = |(wanted, listener): (&KvAddress, &Listener)| Some((wanted.clone(), listener.bound()?));
        running.listeners.iter().filter_map(bound).collect()
    }
}

impl Running {
    fn remove(&mut self, key: &Key) {
        let Some(feed) = self.feeds.remove(key) else { return };
        if let Some(task) = feed.task {
            task.abort();
        }
        if let Some(listener) = self.listeners.get(&feed.source.events).filter(|_| feed.source.bind)
            && listener.remove(key)
        {
            self.listeners.remove(&feed.source.events);
        }
    }
}

impl Drop for KvFeeds {
    fn drop(&mut self) {
        let running = self.running.get_mut();
        running.feeds.values().filter_map(|feed| feed.task.as_ref()).for_each(AbortHandle::abort);
    }
}

/// Connects and listens, again and again.
async fn follow(mut follower: Follower) {
    let mut failures = 0;
    loop {
        let result = listen(&mut follower, &mut failures).await;
        follower.counts.connected.store(false, Relaxed);
        let KvSource { endpoint, rank, events, .. } = &follower.source;
        let Err(error) = result;
        tracing::debug!(%endpoint, rank, %events, %error, "no KV events");
        Counts::add(&follower.counts.failures, 1);
        sleep(pause(&follower.settings, endpoint, failures)).await;
        failures = failures.saturating_add(1);
    }
}

/// One connection, until it breaks.
async fn listen(follower: &mut Follower, failures: &mut u32) -> Result<std::convert::Infallible, ZmtpError> {
    let address = &follower.source.events;
    let mut connection = link::connect(address, Socket::Sub, &follower.settings).await?;
    connection.subscribe(follower.source.topic.as_bytes()).await?;
    *failures = 0;
    Counts::add(&follower.counts.connections, 1);
    follower.counts.connected.store(true, Relaxed);
    follower.connected().await;
    loop {
        let mut receive = std::pin::pin!(connection.receive());
        let frames = loop {
            tokio::select! {
                frames = &mut receive => break frames?,
                // The last batches may be the ones that were missed.
                () = sleep(follower.settings.idle) => {
                    follower.catch_up().await;
                }
            }
        };
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        match parse_message(&frames) {
            Ok(Message::Batch { seq, payload, .. }) => {
                follower.published(Incoming::read(seq, payload)).await;
            }
            // If it was a batch, the next one shows the gap.
            Ok(Message::ReplayEnd) | Err(_) => Counts::add(&follower.counts.unreadable, 1),
        }
    }
}

/// How long to wait after so many failures in a row: doubled each time, and
/// spread over the upper half, so that a thousand engines that went together
/// are not asked together.
pub(super) fn pause(settings: &KvSettings, name: &str, failures: u32) -> Duration {
    let longest = settings.pause.saturating_mul(1 << failures.min(16)).min(settings.pause_max);
    let draw = xxh3_64_with_seed(name.as_bytes(), settings.seed ^ u64::from(failures));
    longest.mul_f64(0.5 + (draw >> 11) as f64 / (1u64 << 54) as f64)
}
