//! One timer for all limits of a request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use forebay_config::Timeouts;
use tokio::time::{Instant, Sleep, sleep_until};

/// Which limit was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    FirstByte,
    Idle,
    Total,
}

/// The limits of one request. A byte only notes the time: the timer is set
/// once, and moved on when it fires too early, so that a token costs no timer.
#[derive(Debug)]
pub(crate) struct Timer {
    /// When the wait for the first event, or for an unstreamed answer, ends.
    first: Option<Instant>,
    idle: Option<Duration>,
    total: Option<Instant>,
    last_byte: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Starts the wait for an answer. `first` is what bounds it.
    pub(crate) fn start(started: Instant, timeouts: &Timeouts, first: Option<Duration>) -> Timer {
        Timer {
            first: first.map(|limit| Instant::now() + limit),
            idle: timeouts.idle,
            total: timeouts.total.map(|limit| started + limit),
            last_byte: None,
            sleep: None,
        }
    }

    /// A byte came.
    pub(crate) fn byte(&mut self, now: Instant) {
        self.last_byte = Some(now);
    }

    /// True when the limit on the whole request is over; asked where bytes come so
    /// fast that the timer is never waited for.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.total.is_some_and(|at| now >= at)
    }

    /// When the whole request must be over.
    pub(crate) fn total(&self) -> Option<Instant> {
        self.total
    }

    /// What the first limit waits for has come.
    pub(crate) fn answered(&mut self) {
        self.first = None;
    }

    fn next(&self) -> Option<(Instant, Expired)> {
        let idle = match (self.last_byte, self.idle) {
            (Some(last), Some(limit)) => Some((last + limit, Expired::Idle)),
            _ => None,
        };
        let first = self.first.map(|at| (at, Expired::FirstByte));
        let total = self.total.map(|at| (at, Expired::Total));
        [first, idle, total].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Ready when a limit was reached; to be asked when nothing else is ready.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Expired> {
        loop {
            let Some((at, expired)) = self.next() else { return Poll::Pending };
            match &mut self.sleep {
                // Never later than the earliest limit; earlier is harmless.
                Some(sleep) if sleep.deadline() <= at => {
                    if sleep.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    if Instant::now() >= at {
                        return Poll::Ready(expired);
                    }
                    sleep.as_mut().reset(at);
                }
                Some(sleep) => sleep.as_mut().reset(at),
                None => self.sleep = Some(Box::pin(sleep_until(at))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts(idle: u64, total: Option<u64>) -> Timeouts {
        Timeouts {
            idle: Some(Duration::from_millis(idle)),
            total: total.map(Duration::from_millis),
            ..Timeouts::default()
        }
    }

    async fn expire(timer: &mut Timer) -> Expired {
        std::future::poll_fn(|cx| timer.poll(cx)).await
    }

    #[tokio::test]
    async fn each_limit_ends_the_wait_it_is_for() {
        let now = Instant::now();
        let mut timer = Timer::start(now, &timeouts(20, None), Some(Duration::from_millis(20)));
        assert_eq!(expire(&mut timer).await, Expired::FirstByte);

        let mut timer = Timer::start(now, &timeouts(20, None), Some(Duration::from_secs(100)));
        timer.byte(Instant::now());
        assert_eq!(expire(&mut timer).await, Expired::Idle);

        let mut timer = Timer::start(now, &timeouts(20_000, Some(30)), None);
        timer.byte(Instant::now());
        assert_eq!(expire(&mut timer).await, Expired::Total);
    }

    #[tokio::test]
    async fn bytes_move_the_idle_limit_and_comments_do_not_move_the_first() {
        let mut timer = Timer::start(Instant::now(), &timeouts(60, None), Some(Duration::from_millis(150)));
        // Bytes keep coming more often than the idle limit, none of them an event.
        let pings = async {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::pin!(pings);
        let expired = loop {
            timer.byte(Instant::now());
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
                expired = std::future::poll_fn(|cx| timer.poll(cx)) => break expired,
                () = &mut pings => {}
            }
        };
        assert_eq!(expired, Expired::FirstByte);
    }
}
