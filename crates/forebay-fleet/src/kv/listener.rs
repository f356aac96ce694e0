//! Listening for engines that connect to us.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use forebay_wire::kv_events::{Message, parse_message};
use parking_lot::Mutex;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::address::KvAddress;
use super::feeds::pause;
use super::follower::{Follower, Incoming, Uplink};
use super::link;
use super::source::{KvSettings, KvSource};
use super::zmtp::{Io, ZmtpError};

/// Connections at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// One source behind a shared address.
pub(super) struct Route {
    source: KvSource,
    link: Uplink,
    /// The follower, and the connection that its last batch came on.
    state: AsyncMutex<(Follower, u64)>,
}

impl Route {
    pub(super) fn new(follower: Follower) -> Route {
        let (source, link) = (follower.source.clone(), follower.link.clone());
        Route { source, link, state: AsyncMutex::new((follower, 0)) }
    }
}

#[derive(Default)]
struct Shared {
    routes: Mutex<BTreeMap<(String, u32), Arc<Route>>>,
    bound: Mutex<Option<KvAddress>>,
    /// Connections that there were.
    connections: AtomicU64,
    /// Connections of publishers that there are.
    open: AtomicUsize,
}

/// One listening address, with its task, which ends with it.
pub(super) struct Listener {
    shared: Arc<Shared>,
    task: AbortHandle,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    pub(super) fn start(handle: &Handle, address: KvAddress, settings: Arc<KvSettings>) -> Listener {
        let shared = Arc::new(Shared::default());
        let task = handle.spawn(listen(address, settings, shared.clone())).abort_handle();
        Listener { shared, task }
    }

    pub(super) fn add(&self, route: Route) {
        let key = (route.source.endpoint.clone(), route.source.rank);
        self.shared.routes.lock().insert(key, Arc::new(route));
    }

    /// Takes out a source; whether it was the last one.
    pub(super) fn remove(&self, key: &(String, u32)) -> bool {
        let mut routes = self.shared.routes.lock();
        routes.remove(key);
        routes.is_empty()
    }

    /// Whether there may be a connection of each source: whose one is shows only
    /// with its first batch, and an engine may have none to tell of.
    pub(super) fn may_have_all(&self) -> bool {
        self.shared.open.load(Relaxed) >= self.shared.routes.lock().len()
    }

    pub(super) fn bound(&self) -> Option<KvAddress> {
        self.shared.bound.lock().clone()
    }
}

enum Bound {
    Tcp(TcpListener),
    Ipc(UnixListener),
}

async fn bind(address: &KvAddress) -> io::Result<(Bound, KvAddress)> {
    match address {
        KvAddress::Tcp { host, port } => {
            let host = if host == "*" { "0.0.0.0" } else { host };
            let listener = TcpListener::bind((host, *port)).await?;
            let port = listener.local_addr()?.port();
            Ok((Bound::Tcp(listener), KvAddress::Tcp { host: host.to_owned(), port }))
        }
        KvAddress::Ipc(path) => {
            // Who listened here before left its socket in the file system.
            let there = tokio::fs::symlink_metadata(path).await;
            if there.is_ok_and(|there| there.file_type().is_socket()) {
                tokio::fs::remove_file(path).await?;
            }
            Ok((Bound::Ipc(UnixListener::bind(path)?), address.clone()))
        }
        KvAddress::Http(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "a URL is no socket")),
    }
}

impl Bound {
    async fn accept(&self) -> io::Result<Box<dyn Io>> {
        Ok(match self {
            Bound::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                link::prepare(&stream);
                Box::new(stream)
            }
            Bound::Ipc(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

async fn listen(address: KvAddress, settings: Arc<KvSettings>, shared: Arc<Shared>) {
    let mut failures = 0;
    let listener = loop {
        match bind(&address).await {
            Ok((listener, bound)) => {
                *shared.bound.lock() = Some(bound);
                break listener;
            }
            Err(error) => {
                tracing::warn!(%address, %error, "cannot listen for KV events");
                sleep(pause(&settings, &address.to_string(), failures)).await;
                failures += 1;
            }
        }
    };
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok(io) => {
                let (settings, shared) = (settings.clone(), shared.clone());
                connections.spawn(async move {
                    if let Err(error) = serve(io, &settings, &shared).await {
                        tracing::debug!(%error, "a publisher of KV events is gone");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%address, %error, "cannot accept a publisher of KV events");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One open connection, as long as it lasts.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// One connection of an engine, until it breaks.
async fn serve(io: Box<dyn Io>, settings: &KvSettings, shared: &Shared) -> Result<(), ZmtpError> {
    let number = shared.connections.fetch_add(1, Relaxed) + 1;
    let result = receive(io, number, settings, shared).await;
    let routes: Vec<_> = shared.routes.lock().values().cloned().collect();
    for route in routes {
        if route.state.lock().await.1 == number {
            route.link.gone();
        }
    }
    result
}

async fn receive(
    io: Box<dyn Io>,
    number: u64,
    settings: &KvSettings,
    shared: &Shared,
) -> Result<(), ZmtpError> {
    let mut connection = link::accept(io, settings).await?;
    // Which sources it carries is known from its batches, so all are taken.
    connection.subscribe(b"").await?;
    shared.open.fetch_add(1, Relaxed);
    let _open = Open(&shared.open);
    loop {
        let frames = connection.receive().await?;
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let Ok(Message::Batch { topic, seq, payload }) = parse_message(&frames) else {
            return Err(ZmtpError::Protocol("a message is no batch"));
        };
        let incoming = Incoming::read(seq, payload);
        let Some(route) = route_of(shared, topic, &incoming) else {
            tracing::debug!(topic = %topic.escape_ascii(), "KV events of nobody who is followed");
            continue;
        };
        let (follower, last_connection) = &mut *route.state.lock().await;
        if *last_connection != number {
            *last_connection = number;
            follower.connected().await;
        }
        follower.published(incoming).await;
    }
}

/// Whose batch it is: the source with the longest topic that fits, and the
/// batch's rank. Of a batch without one only if there is no choice.
fn route_of(shared: &Shared, topic: &[u8], incoming: &Incoming) -> Option<Arc<Route>> {
    let rank = incoming.batch.as_ref().ok().and_then(|batch| batch.dp_rank);
    let routes = shared.routes.lock();
    let fits = || routes.values().filter(|route| topic.starts_with(route.source.topic.as_bytes()));
    let longest = fits().map(|route| route.source.topic.len()).max()?;
    let mut best = fits()
        .filter(|route| route.source.topic.len() == longest)
        .filter(|route| rank.is_none_or(|rank| rank == route.source.rank));
    best.next().filter(|_| best.next().is_none()).cloned()
}
