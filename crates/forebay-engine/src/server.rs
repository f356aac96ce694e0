//! The server: its port, its connections, and how it ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::conn::serve;
use crate::fault::{Away, Fault, FaultKind};
use crate::kv::{KvMessage, KvSettings, Publisher};
use crate::options::EngineOptions;
use crate::shared::{Death, EngineStats, Shared};

/// How long answers in flight have to end when the engine stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long the old port is tried for after a restart.
const TAKE_AGAIN: Duration = Duration::from_secs(10);

/// Real timers are right to about a millisecond, which is this many milliseconds
/// of engine time: as long as a fast engine's step.
const HONEST_TIME_SCALE: f64 = 10.0;

/// Why [`Engine::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was told to.
    Shutdown,
    /// A crash was commanded.
    Crashed,
}

/// A simulated model server that has its port.
pub struct Engine {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    publisher: Option<Publisher>,
    /// To the publisher.
    kv: Option<UnboundedSender<KvMessage>>,
}

/// A look into an engine, and a hand on it, from within its process.
#[derive(Clone)]
pub struct EngineHandle {
    shared: Arc<Shared>,
}

impl EngineHandle {
    /// Gauges and totals now.
    pub fn stats(&self) -> EngineStats {
        self.shared.stats()
    }

    /// Makes it misbehave, whether or not `POST /fault` is on.
    pub fn set_fault(&self, fault: Fault) {
        self.shared.set_fault(fault);
    }

    /// Runs it this many times as fast as its profile says from now on, apart
    /// from any fault: 0.8 is a throttled accelerator, 1 normal. Values that
    /// are not positive and finite count as 1.
    pub fn set_speed(&self, speed: f64) {
        self.shared.set_speed(speed);
    }

    /// Kills it: every connection and the port close, and `run` ends.
    pub fn crash(&self) {
        self.set_fault(Fault { kind: FaultKind::Crash, count: None });
    }

    /// Kills it, and starts a new process at the same address after this much
    /// real time, with nothing in its cache. At most a day.
    pub fn restart(&self, after: Duration) {
        let kind = FaultKind::Restart { seconds: after.as_secs_f64() };
        self.set_fault(Fault { kind, count: None });
    }

    /// Cuts its network for this much real time, at most a day: connections
    /// are reset and refused, and it comes back with the cache it had.
    pub fn cut_off(&self, time: Duration) {
        self.set_fault(Fault { kind: FaultKind::CutOff { seconds: time.as_secs_f64() }, count: None });
    }

    /// Forgets the prefix cache. False, and nothing happens, while requests
    /// hold blocks of it. As in vLLM, KV events tell it with the next step.
    pub fn reset_prefix_cache(&self) -> bool {
        self.shared.reset_prefix_cache()
    }

    /// Names of the adapters in memory.
    pub fn resident_adapters(&self) -> Vec<String> {
        self.shared.resident_adapters()
    }
}

impl Engine {
    /// Takes the port; connections wait until [`run`](Self::run).
    ///
    /// # Errors
    /// When an address cannot be bound, or one for asking for KV events again
    /// is given without one for the events.
    pub async fn bind(options: EngineOptions) -> io::Result<Engine> {
        if options.time_scale > HONEST_TIME_SCALE {
            tracing::warn!(
                time_scale = options.time_scale,
                "above a time scale of {HONEST_TIME_SCALE} the machine's own delays are no longer small beside the \
                 engine's times"
            );
        }
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let (kv, publisher) = match kv_listeners(&options)? {
            Some((settings, listeners)) => {
                let (out, messages) = unbounded_channel();
                let publisher = Publisher::new(settings.clone(), listeners, messages).await?;
                (Some((settings, out)), Some(publisher))
            }
            None => (None, None),
        };
        let out = kv.as_ref().map(|(_, out)| out.clone());
        Ok(Engine { listener, address, shared: Arc::new(Shared::new(options, kv)), publisher, kv: out })
    }

    /// Where KV events are published, with the port that was free.
    pub fn kv_events_addr(&self) -> Option<SocketAddr> {
        self.shared.kv.as_ref().map(|kv| kv.address)
    }

    /// Where KV events can be asked for again, with the port that was free.
    pub fn kv_replay_addr(&self) -> Option<SocketAddr> {
        self.shared.kv.as_ref().and_then(|kv| kv.replay)
    }

    /// The address it listens on, with the port that was free.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// A handle that outlives [`run`](Self::run).
    pub fn handle(&self) -> EngineHandle {
        EngineHandle { shared: Arc::clone(&self.shared) }
    }

    /// Serves until `shutdown` is ready or a crash is commanded. Dropping the
    /// future ends everything at once.
    ///
    /// On shutdown the port closes and what is in flight ends early: streams
    /// with `finish_reason` "abort" and `[DONE]`, other answers with the text
    /// so far. (One of the three ways in which a real vLLM was seen to end; the
    /// others hang, or give an error.)
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Exit {
        let Engine { mut listener, shared, mut publisher, kv, address } = self;
        let mut shutdown = std::pin::pin!(shutdown);
        // Neither ends.
        let mut background = std::pin::pin!(async {
            let publish = async {
                match &mut publisher {
                    Some(publisher) => publisher.run().await,
                    None => std::future::pending().await,
                }
            };
            tokio::join!(shared.drive(), publish);
        });
        loop {
            let end = tokio::select! {
                end = serve_until(listener, &shared, shutdown.as_mut()) => end,
                () = &mut background => return Exit::Shutdown,
            };
            let away = match end {
                End::Exit(exit) => return exit,
                End::Away(away) => away,
            };
            let back = async {
                tokio::select! {
                    () = be_away(away, &shared, kv.as_ref()) => {}
                    () = shutdown.as_mut() => return None,
                }
                take_again(address).await
            };
            listener = tokio::select! {
                listener = back => match listener {
                    Some(listener) => listener,
                    None => return Exit::Shutdown,
                },
                () = &mut background => return Exit::Shutdown,
            };
        }
    }
}

/// Why a listener closed.
enum End {
    Exit(Exit),
    Away(Away),
}

/// Takes connections until something ends that; then none is left.
async fn serve_until(
    listener: TcpListener,
    shared: &Arc<Shared>,
    mut shutdown: Pin<&mut impl Future<Output = ()>>,
) -> End {
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let fate = loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break None,
            () = shared.died.notified() => {
                if let Some(away) = shared.take_away() {
                    drop(listener);
                    shared.severed.store(away.alive, Ordering::Relaxed);
                    connections.shutdown().await;
                    shared.severed.store(false, Ordering::Relaxed);
                    return End::Away(away);
                }
                if let Some(death) = shared.death() {
                    break Some(death);
                }
            }
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(shared), stopped.clone()));
                }
                Err(error) => {
                    // Out of descriptors, most likely: let some close.
                    tracing::warn!(%error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
        }
    };
    drop(listener);
    if fate != Some(Death::Crash) {
        if fate.is_none() {
            shared.drain();
        }
        let _ = stop.send(true);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS, all).await;
    }
    connections.shutdown().await;
    End::Exit(if fate.is_some() { Exit::Crashed } else { Exit::Shutdown })
}

/// Lets the time pass in which nobody reaches the engine.
async fn be_away(away: Away, shared: &Shared, kv: Option<&UnboundedSender<KvMessage>>) {
    let tell = |message| {
        // The publisher lives as long as the server.
        let _ = kv.map(|kv| kv.send(message));
    };
    tell(KvMessage::Offline);
    tokio::time::sleep(away.time).await;
    match away.alive {
        true => shared.back(),
        false => {
            tell(KvMessage::Reset);
            shared.start_again();
        }
    }
    let (done, opened) = oneshot::channel();
    tell(KvMessage::Online(done));
    // Without KV events the message, and `done` in it, is gone already.
    let _ = opened.await;
}

/// Listens where it listened before. None, after a while, when another program
/// has taken the port.
async fn take_again(address: SocketAddr) -> Option<TcpListener> {
    let again = async {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(error) => tracing::debug!(%error, "cannot listen again yet"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let listener = tokio::time::timeout(TAKE_AGAIN, again).await.ok();
    if listener.is_none() {
        tracing::error!(%address, "cannot listen again: the port is taken");
    }
    listener
}

/// The listeners for KV events and for asking for them again.
type KvListeners = (std::net::TcpListener, Option<std::net::TcpListener>);

fn kv_listeners(options: &EngineOptions) -> io::Result<Option<(KvSettings, KvListeners)>> {
    let bind = |address: SocketAddr| {
        let listener = std::net::TcpListener::bind(address)
            .map_err(|e| io::Error::new(e.kind(), format!("KV events on {address}: {e}")))?;
        Ok::<_, io::Error>((listener.local_addr()?, listener))
    };
    let Some(address) = options.kv_events else {
        return match options.kv_replay {
            Some(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an address for asking for KV events again, and none for the events",
            )),
            None => Ok(None),
        };
    };
    let (address, events) = bind(address)?;
    let (replay, again) = options.kv_replay.map(bind).transpose()?.unzip();
    let settings = KvSettings {
        topic: options.kv_topic.clone().into(),
        block_size: options.profile.block_size,
        buffer: options.kv_buffer,
        address,
        replay,
    };
    Ok(Some((settings, (events, again))))
}
