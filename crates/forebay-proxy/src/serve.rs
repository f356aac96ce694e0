//! Accepting connections on one worker.

use std::sync::Arc;
use std::time::Duration;

use forebay_net::is_out_of_files;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::connection;
use crate::proxy::{DrainPhase, Proxy};

/// How often unused connections to engines are looked through.
const SWEEP: Duration = Duration::from_secs(1);
/// How long accepting pauses when the process is out of file descriptors.
const OUT_OF_FILES: Duration = Duration::from_millis(50);

/// Serves one worker's listeners, each with whether its clients may half-close,
/// until the drain closes them and the last connection has ended. To be run on
/// a runtime of one thread.
pub async fn serve(proxy: Arc<Proxy>, worker: usize, listeners: Vec<(TcpListener, bool)>) {
    let sweep = tokio::spawn(sweep(Arc::clone(&proxy), worker));
    let mut accepting = JoinSet::new();
    for (listener, half_close) in listeners {
        accepting.spawn(accept(Arc::clone(&proxy), worker, listener, half_close));
    }
    let mut connections = Vec::new();
    while let Some(done) = accepting.join_next().await {
        if let Ok(open) = done {
            connections.push(open);
        }
    }
    for mut open in connections {
        while open.join_next().await.is_some() {}
    }
    sweep.abort();
}

/// Accepts until the drain closes the listener; returns the connections still open.
async fn accept(proxy: Arc<Proxy>, worker: usize, listener: TcpListener, half_close: bool) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    let mut phase = proxy.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection::serve(Arc::clone(&proxy), worker, stream, half_close));
                }
                Err(error) if is_out_of_files(&error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(OUT_OF_FILES).await;
                }
                // A client that left between connecting and being accepted.
                Err(_) => {}
            },
            // Ended tasks are taken out as they end, or the set would grow.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            changed = phase.changed() => {
                if changed.is_err() || *phase.borrow() == DrainPhase::Closing {
                    // Clients that the kernel has let in are not turned away.
                    let waiting = async {
                        while let Ok((stream, _)) = listener.accept().await {
                            connections.spawn(connection::serve(Arc::clone(&proxy), worker, stream, half_close));
                        }
                    };
                    let _ = tokio::time::timeout(Duration::ZERO, waiting).await;
                    return connections;
                }
            }
        }
    }
}

/// Closes connections to engines that are unused for too long.
async fn sweep(proxy: Arc<Proxy>, worker: usize) {
    let mut ticks = interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for endpoint in proxy.live().members() {
            endpoint.upstream().sweep(worker);
        }
    }
}
