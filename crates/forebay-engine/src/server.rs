//! The server: its port, its connections, and how it ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::conn::serve;
use crate::fault::Fault;
use crate::kv::{KvSettings, Publisher};
use crate::options::EngineOptions;
use crate::shared::{Death, EngineStats, Shared};

/// How long answers in flight have to end when the engine stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

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
                let (out, batches) = unbounded_channel();
                let publisher = Publisher::new(settings.clone(), listeners, batches).await?;
                (Some((settings, out)), Some(publisher))
            }
            None => (None, None),
        };
        Ok(Engine { listener, address, shared: Arc::new(Shared::new(options, kv)), publisher })
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
        let Engine { listener, shared, mut publisher, .. } = self;
        let mut shutdown = std::pin::pin!(shutdown);
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut driver = std::pin::pin!(shared.drive());
        let mut publish = std::pin::pin!(async {
            match &mut publisher {
                Some(publisher) => publisher.run().await,
                None => std::future::pending().await,
            }
        });
        let death = loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break None,
                () = shared.died.notified() => {
                    if let Some(death) = shared.death() {
                        break Some(death);
                    }
                }
                () = &mut driver => {}
                () = &mut publish => {}
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve(stream, Arc::clone(&shared), stopped.clone()));
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
        if death != Some(Death::Crash) {
            if death.is_none() {
                shared.drain();
            }
            let _ = stop.send(true);
            let all = async { while connections.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_WORDS, all).await;
        }
        connections.shutdown().await;
        if death.is_some() { Exit::Crashed } else { Exit::Shutdown }
    }
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
