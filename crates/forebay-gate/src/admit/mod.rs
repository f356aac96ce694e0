//! Admission: does a request go now, wait, or go away.
//!
//! One bounded first-in-first-out queue per pool behind a limit on requests in
//! flight. Without a limit every request goes at once.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_core::{TicketId, Time};
use serde::{Deserialize, Serialize};

/// How a pool admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionConfig {
    /// Requests in flight at most; none: no limit.
    pub limit: Option<u32>,
    /// Requests that may wait for a place at most.
    pub queue: u32,
    /// How long one may wait at most.
    pub max_wait: Duration,
}

impl AdmissionConfig {
    /// Always says Go.
    pub const OPEN: AdmissionConfig = AdmissionConfig { limit: None, queue: 0, max_wait: Duration::ZERO };
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        AdmissionConfig::OPEN
    }
}

/// What admission says of an arriving request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    Go,
    Wait,
    Full,
}

/// The admission of one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Admission {
    config: AdmissionConfig,
    /// Admitted and not ended.
    running: u32,
    /// Waiting, each with the time it may wait until. All have the same
    /// longest wait, so that arrival order is also deadline order, except
    /// after a change of configuration, when a late one waits at most longer.
    queue: VecDeque<(TicketId, Time)>,
}

impl Admission {
    pub(crate) fn new(config: AdmissionConfig) -> Admission {
        Admission { config, running: 0, queue: VecDeque::new() }
    }

    pub(crate) fn configure(&mut self, config: AdmissionConfig) {
        self.config = config;
    }

    fn has_room(&self) -> bool {
        self.config.limit.is_none_or(|limit| self.running < limit)
    }

    /// What to do with a request that arrives now. `Go` takes the place.
    pub(crate) fn arrive(&mut self) -> Admit {
        // Those who wait go first, or a full pool would let newcomers overtake.
        if self.queue.is_empty() && self.has_room() {
            self.running += 1;
            Admit::Go
        } else if self.queue.len() < self.config.queue as usize {
            Admit::Wait
        } else {
            Admit::Full
        }
    }

    pub(crate) fn enqueue(&mut self, now: Time, ticket: TicketId) {
        self.queue.push_back((ticket, now + self.config.max_wait));
    }

    /// An admitted request has ended: its place is free.
    pub(crate) fn leave(&mut self) {
        debug_assert!(self.running > 0);
        self.running = self.running.saturating_sub(1);
    }

    /// A waiting request is given up.
    pub(crate) fn withdraw(&mut self, ticket: TicketId) {
        self.queue.retain(|(t, _)| *t != ticket);
    }

    /// The next waiting request that may go now; it takes the place.
    pub(crate) fn next_to_go(&mut self) -> Option<TicketId> {
        if !self.has_room() {
            return None;
        }
        let (ticket, _) = self.queue.pop_front()?;
        self.running += 1;
        Some(ticket)
    }

    /// The next waiting request whose time is over.
    pub(crate) fn next_expired(&mut self, now: Time) -> Option<TicketId> {
        let (_, until) = self.queue.front()?;
        if *until > now {
            return None;
        }
        self.queue.pop_front().map(|(ticket, _)| ticket)
    }

    /// When the first waiting request runs out of time.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.queue.front().map(|(_, until)| *until)
    }

    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.queue.len() as u32
    }
}
