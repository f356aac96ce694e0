//! Connections of the control plane: few, short, and none that can hold up another.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinSet};
use tower_service::Service;

use crate::{ControlPlane, routes};

#[cfg(test)]
mod tests;

/// Bytes of a request's head and of what is read ahead; a longer head gets 431.
const MAX_HEAD: usize = 16 << 10;

/// What one client may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Open connections; one more closes the oldest, so that whoever comes is
    /// served, however many stand idle.
    connections: usize,
    /// How long a head may take, and how long a connection may stand idle.
    head: Duration,
    /// After this a connection gets no further request,
    life: Duration,
    /// and after this much longer it is cut: a client that does not read its answer.
    grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            head: Duration::from_secs(20),
            life: Duration::from_secs(120),
            grace: Duration::from_secs(10),
        }
    }
}

/// How long the end waits for answers on their way.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// The pause after a failed accept, which is out of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the control plane on `listener` until `shutdown` is done; then takes
/// no more connections, ends those that are open and returns.
pub async fn serve(listener: TcpListener, plane: Arc<dyn ControlPlane>, shutdown: impl Future) {
    serve_within(Limits::default(), listener, plane, shutdown).await;
}

async fn serve_within(
    limits: Limits,
    listener: TcpListener,
    plane: Arc<dyn ControlPlane>,
    shutdown: impl Future,
) {
    let router = routes::router(plane);
    let (stop, stopped) = watch::channel(false);
    let mut connections = Connections::default();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            _ = &mut shutdown => break,
            () = connections.reap() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.make_room(limits.connections);
                    connections.add(one(limits, stream, peer, router.clone(), stopped.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "the control plane cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let _ = stop.send(true);
    let _ = tokio::time::timeout(LAST_ANSWERS, connections.ended()).await;
}

/// One connection from its first byte to its last.
async fn one(
    limits: Limits,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| router.clone().call(request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = no_more(limits.life, &mut stopped) => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(limits.grace, connection).await {
                Ok(result) => result,
                Err(_) => {
                    tracing::debug!(%peer, "cut a client of the control plane that does not read");
                    return;
                }
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%peer, %error, "a connection of the control plane failed");
    }
}

/// The time after which a connection gets no further request.
async fn no_more(life: Duration, stopped: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = tokio::time::sleep(life) => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

/// The open connections by age.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    by_age: BTreeMap<u64, AbortHandle>,
    next: u64,
}

impl Connections {
    fn add(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        let number = self.next;
        self.next += 1;
        self.by_age.insert(number, self.tasks.spawn(connection));
    }

    /// Closes the oldest when there are as many as there may be.
    fn make_room(&mut self, limit: usize) {
        while self.by_age.len() >= limit {
            if let Some((_, oldest)) = self.by_age.pop_first() {
                oldest.abort();
            }
        }
    }

    /// Forgets one that has ended; waits while there is none.
    async fn reap(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => self.forget(id),
            // Aborted by `make_room`, or a panic in a handler, which closed its connection.
            Some(Err(error)) => self.forget(error.id()),
            None => std::future::pending().await,
        }
    }

    fn forget(&mut self, ended: Id) {
        self.by_age.retain(|_, task| task.id() != ended);
    }

    async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
