//! How a fleet fares over time.

use std::time::Duration;

use serde::Serialize;

/// A stretch of a run, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimelinePoint {
    /// Its end, in seconds of simulated time.
    pub at: f64,
    /// Requests that arrived in it.
    pub arrived: u64,
    /// Requests that were served whole in it.
    pub served: u64,
    /// Of these, those that met their limits.
    pub met: u64,
    /// Their mean time to the first token, in milliseconds.
    pub ttft_ms: f64,
    /// By endpoint: share of the time that it was computing, 0 to 1.
    pub busy: Vec<f32>,
    /// By endpoint: requests that were sent there in it, whether or not they arrived in it.
    pub sent: Vec<u32>,
    /// By endpoint: sequences that run at its end.
    pub running: Vec<u32>,
    /// By endpoint: sequences that wait at its end.
    pub waiting: Vec<u32>,
}

/// What is counted since the last point.
pub(crate) struct Timeline {
    every: Option<u64>,
    pub(crate) points: Vec<TimelinePoint>,
    pub(crate) arrived: u64,
    served: u64,
    met: u64,
    ttft_ms: f64,
    sent: Vec<u32>,
    /// Busy time of each endpoint at the last point.
    busy: Vec<u64>,
    at: u64,
}

impl Timeline {
    pub(crate) fn new(every: Option<Duration>, endpoints: usize) -> Timeline {
        let nanos = |every: Duration| u64::try_from(every.as_nanos()).unwrap_or(u64::MAX / 4);
        Timeline {
            // A point for each millisecond is more than anybody draws.
            every: every.map(|every| nanos(every).max(1_000_000)),
            points: Vec::new(),
            arrived: 0,
            served: 0,
            met: 0,
            ttft_ms: 0.0,
            sent: vec![0; endpoints],
            busy: vec![0; endpoints],
            at: 0,
        }
    }

    /// Nanoseconds between two points; none when there are none.
    pub(crate) fn every(&self) -> Option<u64> {
        self.every
    }

    /// A request goes to this endpoint.
    pub(crate) fn send(&mut self, endpoint: u32) {
        if self.every.is_some() {
            self.sent[endpoint as usize] += 1;
        }
    }

    /// A request was served.
    pub(crate) fn serve(&mut self, ttft_ms: f64, met: bool) {
        self.served += 1;
        self.met += u64::from(met);
        self.ttft_ms += ttft_ms;
    }

    /// Ends a stretch; each endpoint's busy time, running and waiting sequences.
    pub(crate) fn point(&mut self, now: u64, endpoints: impl Iterator<Item = (u64, u32, u32)>) {
        let span = (now - self.at).max(1) as f32;
        let mut point = TimelinePoint {
            at: now as f64 * 1e-9,
            arrived: std::mem::take(&mut self.arrived),
            served: std::mem::take(&mut self.served),
            met: std::mem::take(&mut self.met),
            sent: self.sent.clone(),
            ..TimelinePoint::default()
        };
        point.ttft_ms = std::mem::take(&mut self.ttft_ms) / point.served.max(1) as f64;
        for (before, (busy, running, waiting)) in self.busy.iter_mut().zip(endpoints) {
            let took = busy - std::mem::replace(before, busy);
            // A phase counts when it ends, so that a stretch can get a little of the one before.
            point.busy.push((took as f32 / span).min(1.0));
            point.running.push(running);
            point.waiting.push(waiting);
        }
        self.sent.fill(0);
        self.at = now;
        self.points.push(point);
    }
}
