//! The load generator: keep-alive connections that count what comes back.

mod bodies;
mod connection;
mod counters;
mod gaps;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, timeout};

use crate::scratch::Scratch;
use crate::stub::{ANSWER_BYTES, Wish};
pub(crate) use bodies::{Requests, stream_request};
pub(crate) use connection::{Answer, Connection};
pub(crate) use counters::Counters;

/// How long one exchange or one hand-over may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A closed loop that runs: every connection sends its next request when the
/// answer to the last has come, or, paced, at its next turn after that.
pub(crate) struct ClosedLoop {
    counters: Rc<Counters>,
    tasks: Vec<JoinHandle<()>>,
}

impl ClosedLoop {
    pub(crate) fn start(
        address: SocketAddr,
        connections: usize,
        pace: Option<Duration>,
        requests: &Rc<Requests>,
        scratch: &Scratch,
    ) -> ClosedLoop {
        let counters = Rc::new(Counters::default());
        let tasks = (0..connections).map(|nth| {
            let (counters, requests, scratch) = (counters.clone(), requests.clone(), scratch.clone());
            let mut turns = pace.map(|pace| {
                // Not all in step.
                let first = Instant::now() + pace.mul_f64(nth as f64 / connections as f64);
                let mut turns = interval_at(first, pace);
                turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
                turns
            });
            spawn_local(async move {
                exchange_until_stopped(address, nth, &mut turns, &requests, &counters, &scratch).await
            })
        });
        ClosedLoop { tasks: tasks.collect(), counters }
    }

    pub(crate) fn counters(&self) -> &Rc<Counters> {
        &self.counters
    }

    /// Lets every connection finish its request, then closes it.
    pub(crate) async fn stop(self) {
        self.counters.stop();
        join(self.tasks).await;
    }
}

async fn exchange_until_stopped(
    address: SocketAddr,
    first: usize,
    turns: &mut Option<Interval>,
    requests: &Requests,
    counters: &Counters,
    scratch: &Scratch,
) {
    let mut connection = None;
    for nth in first.. {
        if let Some(turns) = turns {
            turns.tick().await;
        }
        if counters.is_stopped() {
            return;
        }
        let exchange = exchange(&mut connection, address, requests.get(nth), counters, scratch);
        match timeout(PATIENCE, exchange).await {
            Ok(Ok(answer)) if answer.is_whole(ANSWER_BYTES) => counters.one_done(),
            Ok(Ok(answer)) => counters.one_failed(&format!("{answer:?}")),
            Ok(Err(e)) => fail(counters, &mut connection, &e).await,
            Err(_) => fail(counters, &mut connection, "no answer in time").await,
        }
    }
}

async fn exchange(
    connection: &mut Option<Connection>,
    address: SocketAddr,
    request: &[u8],
    counters: &Counters,
    scratch: &Scratch,
) -> Result<Answer, String> {
    let open = match connection {
        Some(open) => open,
        None => connection.insert(Connection::open(address, scratch).await?),
    };
    let answer = open.exchange(request, &|| counters.one_event()).await?;
    if answer.close {
        *connection = None;
    }
    Ok(answer)
}

async fn fail(counters: &Counters, connection: &mut Option<Connection>, why: &str) {
    counters.one_failed(why);
    *connection = None;
    // A proxy that refuses everything must not make this loop spin.
    sleep(Duration::from_millis(20)).await;
}

/// Streams that run at once, started one after the other within one pace so
/// that their events do not come in step.
pub(crate) struct Streams {
    counters: Rc<Counters>,
    tasks: Vec<JoinHandle<()>>,
    count: usize,
}

impl Streams {
    pub(crate) fn start(address: SocketAddr, count: usize, wish: Wish, scratch: &Scratch) -> Streams {
        let counters = Rc::new(Counters::default());
        let request: Rc<[u8]> = stream_request(wish).into();
        let tasks = (0..count).map(|nth| {
            let (counters, request, scratch) = (counters.clone(), request.clone(), scratch.clone());
            spawn_local(async move {
                sleep(wish.pace.mul_f64(nth as f64 / count as f64)).await;
                one_stream(address, &request, wish, &counters, &scratch).await;
            })
        });
        Streams { tasks: tasks.collect(), counters, count }
    }

    pub(crate) fn counters(&self) -> &Rc<Counters> {
        &self.counters
    }

    /// Waits until every stream has `events` events on average, none of them
    /// having failed. Streams here run in step, so that means each.
    pub(crate) async fn all_have(&self, events: u32) -> Result<(), String> {
        let wanted = self.count as u64 * u64::from(events);
        let reached = async {
            while self.counters.events() < wanted && self.counters.failed() == 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = timeout(PATIENCE, reached).await.is_ok();
        match self.counters.first_failure() {
            Some(why) => Err(format!("a stream failed: {why}")),
            None if in_time => Ok(()),
            None => Err(format!("{} of {wanted} events came in time", self.counters.events())),
        }
    }

    /// Waits until every stream has ended by itself.
    pub(crate) async fn finish(self) {
        join(self.tasks).await;
    }

    /// Closes every stream at once.
    pub(crate) fn abandon(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn one_stream(address: SocketAddr, request: &[u8], wish: Wish, counters: &Counters, scratch: &Scratch) {
    let exchange = async {
        let mut connection = Connection::open(address, scratch).await?;
        let last = Cell::new(None);
        connection.exchange(request, &|| counters.one_event_after(&last)).await
    };
    match exchange.await {
        // The events, one with the finish reason, and `[DONE]`.
        Ok(answer) if answer.status == 200 && answer.events == u64::from(wish.events) + 2 => {
            counters.one_done()
        }
        Ok(answer) => counters.one_failed(&format!("{answer:?}")),
        Err(e) => counters.one_failed(&e),
    }
}

async fn join(tasks: Vec<JoinHandle<()>>) {
    for mut task in tasks {
        if timeout(PATIENCE, &mut task).await.is_err() {
            task.abort();
        }
    }
}
