//! The subscriptions of this process.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use forebay_wire::kv_events::{Message, parse_message};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::address::KvAddress;
use super::counts::{Counts, KvStatus};
use super::discover::{self, KvDiscovery};
use super::follower::{Follower, Incoming, Uplink};
use super::listener::{Listener, Route};
use super::liveness::Liveness;
use super::poll::Poller;
use super::source::{KvSettings, KvSource};
use super::zmtp::{Socket, ZmtpError};
use super::{KvReset, KvSink, link};

/// Endpoint and rank.
type Key = (String, u32);

/// One subscription for each source. Dropped, all of them end.
pub struct KvFeeds {
    feeds: Arc<Feeds>,
    /// Looks whether they are heard.
    watch: AbortHandle,
}

/// What the subscriptions share with those who start more of them.
pub(super) struct Feeds {
    handle: Handle,
    sink: Arc<dyn KvSink>,
    settings: Arc<KvSettings>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    feeds: BTreeMap<Key, Feed>,
    listeners: BTreeMap<KvAddress, Listener>,
    /// By endpoint: who asks its engine where it publishes.
    discoveries: BTreeMap<String, AbortHandle>,
}

struct Feed {
    source: KvSource,
    counts: Arc<Counts>,
    liveness: Arc<Liveness>,
    /// The task of a source that we connect to.
    task: Option<AbortHandle>,
}

impl KvFeeds {
    /// No subscriptions yet. Their tasks run on `handle`'s runtime.
    pub fn new(handle: Handle, sink: Arc<dyn KvSink>, settings: KvSettings) -> KvFeeds {
        let (running, settings) = (Mutex::new(Running::default()), Arc::new(settings));
        let feeds = Arc::new(Feeds { handle: handle.clone(), sink, settings, running });
        let watch = handle.spawn(watch(Arc::downgrade(&feeds))).abort_handle();
        KvFeeds { feeds, watch }
    }

    /// Follows a source from now on, in place of the one of the same endpoint
    /// and rank if it is another. What was known of its cache stays: the caller
    /// forgets it if the engine is a new one.
    pub fn follow(&self, source: KvSource) {
        self.feeds.follow(source);
    }

    /// Asks an engine where it publishes, and follows that; its fallback where
    /// the engine does not say. It is asked again when nothing is there any more.
    pub fn discover(&self, discovery: KvDiscovery) {
        let endpoint = discovery.endpoint.clone();
        let task = self.feeds.handle.spawn(discover::run(Arc::downgrade(&self.feeds), discovery));
        let old = self.feeds.running.lock().discoveries.insert(endpoint, task.abort_handle());
        old.iter().for_each(AbortHandle::abort);
    }

    /// No longer follows any rank of an endpoint.
    pub fn unfollow(&self, endpoint: &str) {
        let running = &mut *self.feeds.running.lock();
        running.discoveries.remove(endpoint).iter().for_each(AbortHandle::abort);
        let ranks = running.feeds.keys().filter(|(name, _)| name == endpoint);
        let keys: Vec<Key> = ranks.cloned().collect();
        keys.iter().for_each(|key| drop(running.remove(key)));
    }

    /// What happened on each source, by endpoint and rank.
    pub fn status(&self) -> Vec<(KvSource, KvStatus)> {
        let running = self.feeds.running.lock();
        running.feeds.values().map(|feed| (feed.source.clone(), feed.counts.status())).collect()
    }

    /// The addresses that are listened at, with the ports that were free. One
    /// that cannot be bound yet is left out; it is tried again.
    pub fn listening(&self) -> Vec<(KvAddress, KvAddress)> {
        let running = self.feeds.running.lock();
        let bound = |(wanted, listener): (&KvAddress, &Listener)| Some((wanted.clone(), listener.bound()?));
        running.listeners.iter().filter_map(bound).collect()
    }
}

impl Feeds {
    pub(super) fn settings(&self) -> &Arc<KvSettings> {
        &self.settings
    }

    /// Whether it is another source of a rank that was followed before.
    fn follow(&self, source: KvSource) -> bool {
        let key = (source.endpoint.clone(), source.rank);
        let running = &mut *self.running.lock();
        if running.feeds.get(&key).is_some_and(|feed| feed.source == source) {
            return false;
        }
        let old = running.remove(&key);
        let silent = old.as_ref().is_some_and(|old| old.liveness.is_silent());
        let counts = Arc::new(Counts::default());
        let (settings, sink) = (self.settings.clone(), self.sink.clone());
        let liveness = Arc::new(Liveness::new(&source, sink.clone(), silent));
        let link = Uplink { counts: counts.clone(), liveness: liveness.clone() };
        let task = if matches!(source.events, KvAddress::Http(_)) {
            let poller = Poller::new(source.clone(), settings, link, sink);
            Some(self.handle.spawn(poller.run()).abort_handle())
        } else if source.bind {
            let listener = match running.listeners.entry(source.events.clone()) {
                Entry::Occupied(listener) => listener.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(Listener::start(&self.handle, source.events.clone(), self.settings.clone()))
                }
            };
            let follower = Follower::new(source.clone(), settings, link, sink);
            listener.add(Route::new(follower));
            None
        } else {
            let follower = Follower::new(source.clone(), settings, link, sink);
            Some(self.handle.spawn(follow(follower)).abort_handle())
        };
        running.feeds.insert(key, Feed { source, counts, liveness, task });
        old.is_some()
    }

    /// Follows these sources of an endpoint and no others of it.
    pub(super) fn follow_only(&self, endpoint: &str, sources: Vec<KvSource>) {
        let ranks: Vec<u32> = sources.iter().map(|source| source.rank).collect();
        let gone = {
            let running = &mut *self.running.lock();
            let others = |(name, rank): &&Key| name == endpoint && !ranks.contains(rank);
            let keys: Vec<Key> = running.feeds.keys().filter(others).cloned().collect();
            keys.iter().filter_map(|key| running.remove(key)).collect::<Vec<_>>()
        };
        for feed in gone {
            self.sink.reset(endpoint, feed.source.rank, KvReset::Lost);
            // There is nobody any more whose silence would mean anything.
            feed.liveness.heard();
        }
        for source in sources {
            let rank = source.rank;
            if self.follow(source) {
                // What was published between the two is missing.
                self.sink.reset(endpoint, rank, KvReset::Lost);
            }
        }
    }

    /// Whether every source of an endpoint is connected.
    pub(super) fn all_connected(&self, endpoint: &str) -> bool {
        let running = self.running.lock();
        let mut of_it = running.feeds.iter().filter(|((name, _), _)| name == endpoint);
        of_it.all(|(_, feed)| feed.counts.connected.load(Relaxed))
    }
}

impl Running {
    /// Every source, and whether it may be connected where that does not show yet.
    fn unheard(&self) -> Vec<(Arc<Liveness>, bool)> {
        let quiet = |feed: &Feed| {
            let listener = self.listeners.get(&feed.source.events).filter(|_| feed.source.bind);
            listener.is_some_and(Listener::may_have_all)
        };
        self.feeds.values().map(|feed| (feed.liveness.clone(), quiet(feed))).collect()
    }

    fn remove(&mut self, key: &Key) -> Option<Feed> {
        let feed = self.feeds.remove(key)?;
        feed.task.iter().for_each(AbortHandle::abort);
        if let Some(listener) = self.listeners.get(&feed.source.events).filter(|_| feed.source.bind)
            && listener.remove(key)
        {
            self.listeners.remove(&feed.source.events);
        }
        Some(feed)
    }
}

impl Drop for KvFeeds {
    fn drop(&mut self) {
        self.watch.abort();
        let running = &mut *self.feeds.running.lock();
        running.discoveries.values().for_each(AbortHandle::abort);
        running.feeds.values().filter_map(|feed| feed.task.as_ref()).for_each(AbortHandle::abort);
        running.listeners.clear();
    }
}

/// Tells the sink of sources that are not heard.
async fn watch(feeds: Weak<Feeds>) {
    let Some(longest) = feeds.upgrade().map(|feeds| feeds.settings.silent_after) else { return };
    let look = (longest / 4).clamp(Duration::from_millis(1), Duration::from_secs(1));
    loop {
        sleep(look).await;
        let Some(feeds) = feeds.upgrade() else { return };
        let all = feeds.running.lock().unheard();
        for (liveness, may_be_quiet) in all {
            if may_be_quiet {
                liveness.may_be_connected();
            } else {
                liveness.check(longest);
            }
        }
    }
}

/// Connects and listens, again and again.
async fn follow(mut follower: Follower) {
    let mut failures = 0;
    loop {
        let result = listen(&mut follower, &mut failures).await;
        follower.link.gone();
        let KvSource { endpoint, rank, events, .. } = &follower.source;
        let Err(error) = result;
        tracing::debug!(%endpoint, rank, %events, %error, "no KV events");
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
            Ok(Message::ReplayEnd) | Err(_) => Counts::add(&follower.link.counts.unreadable, 1),
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
