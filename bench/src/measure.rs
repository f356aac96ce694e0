//! The measurements: work and CPU time of one window, memory of idle streams.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use crate::cores::Cores;
use crate::load::{ClosedLoop, Counters, Requests, Streams};
use crate::program::{Program, Running};
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::stub::Wish;

/// What is measured, each in its own unit; the order is that of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Measure {
    #[serde(rename = "request_1kb")]
    Request1Kb,
    #[serde(rename = "request_1kb_paced")]
    Request1KbPaced,
    #[serde(rename = "streamed_event")]
    StreamedEvent,
    #[serde(rename = "event_gap")]
    EventGap,
    #[serde(rename = "prompt_32kb")]
    Prompt32Kb,
    #[serde(rename = "prompt_256kb")]
    Prompt256Kb,
    #[serde(rename = "idle_stream")]
    IdleStream,
}

impl Measure {
    pub(crate) const ALL: [Measure; 7] = [
        Measure::Request1Kb,
        Measure::Request1KbPaced,
        Measure::StreamedEvent,
        Measure::EventGap,
        Measure::Prompt32Kb,
        Measure::Prompt256Kb,
        Measure::IdleStream,
    ];

    /// Its name on the command line and in the JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Measure::Request1Kb => "request_1kb",
            Measure::Request1KbPaced => "request_1kb_paced",
            Measure::StreamedEvent => "streamed_event",
            Measure::EventGap => "event_gap",
            Measure::Prompt32Kb => "prompt_32kb",
            Measure::Prompt256Kb => "prompt_256kb",
            Measure::IdleStream => "idle_stream",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Measure::Request1Kb => "1 KB request",
            Measure::Request1KbPaced => "1 KB request, paced",
            Measure::StreamedEvent => "streamed event",
            Measure::EventGap => "gap of events, p99",
            Measure::Prompt32Kb => "32 KB prompt",
            Measure::Prompt256Kb => "256 KB prompt",
            Measure::IdleStream => "idle stream",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Measure::IdleStream => "KB",
            Measure::EventGap => "ms",
            _ => "CPU µs",
        }
    }
}

/// One round's result for one program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// CPU µs per unit of work, or KB per stream.
    pub(crate) value: f64,
    /// Requests or events in the window, or streams held.
    pub(crate) units: u64,
    /// Share of its core that the proxy used, 0 to 1; absent for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) core_share: Option<f64>,
    /// Of streams: the gap between two events that 99 of 100 did not exceed.
    #[serde(skip)]
    pub(crate) gap: Option<Duration>,
}

/// The requests of the closed-loop measurements, made once.
pub(crate) struct Workload {
    pub(crate) settings: Settings,
    pub(crate) scratch: Scratch,
    requests: [Rc<Requests>; 3],
}

impl Workload {
    pub(crate) fn new(settings: Settings) -> Workload {
        let requests = [1, 32, 256].map(|kilobytes| Rc::new(Requests::chat(kilobytes * 1024)));
        Workload { settings, scratch: Scratch::new(), requests }
    }

    /// CPU time per unit of work of a program that runs. `None` for a measure
    /// that is not one of CPU time.
    pub(crate) async fn cpu(&self, measure: Measure, running: &Running) -> Option<Result<Sample, String>> {
        let (size, pace) = match measure {
            Measure::Request1Kb => (0, None),
            Measure::Request1KbPaced => (0, Some(self.settings.request_pace)),
            Measure::Prompt32Kb => (1, None),
            Measure::Prompt256Kb => (2, None),
            Measure::StreamedEvent => return Some(self.events(running).await),
            // Taken with the events themselves.
            Measure::EventGap | Measure::IdleStream => return None,
        };
        Some(self.requests(size, pace, running).await)
    }

    async fn requests(
        &self,
        size: usize,
        pace: Option<Duration>,
        running: &Running,
    ) -> Result<Sample, String> {
        let connections = self.settings.connections[size];
        let load =
            ClosedLoop::start(running.address(), connections, pace, &self.requests[size], &self.scratch);
        sleep(self.settings.warm_up).await;
        let counters = load.counters().clone();
        let sample = self.window(running, || counters.done()).await;
        load.stop().await;
        no_failures(&counters)?;
        sample
    }

    /// Streams begin before the window and end after it: what is counted is
    /// relaying events and nothing else.
    async fn events(&self, running: &Running) -> Result<Sample, String> {
        let Settings { streams, pace, warm_up, window, .. } = self.settings;
        let margin = Duration::from_millis(400);
        let events = ((warm_up + window + margin).as_secs_f64() / pace.as_secs_f64()).ceil();
        let wish = Wish { events: events as u32, pace, hold: false };
        let streams = Streams::start(running.address(), streams, wish, &self.scratch);
        if let Err(e) = streams.all_have(2).await {
            streams.abandon();
            return Err(e);
        }
        sleep(warm_up).await;
        let counters = streams.counters().clone();
        counters.gaps.clear();
        let mut sample = self.window(running, || counters.events()).await;
        if let Ok(sample) = &mut sample {
            sample.gap = counters.gaps.p99();
        }
        let early = counters.done();
        streams.finish().await;
        no_failures(&counters)?;
        if early > 0 {
            return Err(format!("{early} streams ended inside the window: the machine is too busy"));
        }
        sample
    }

    async fn window(&self, running: &Running, units: impl Fn() -> u64) -> Result<Sample, String> {
        let (units_before, cpu_before) = (units(), running.cpu_time()?);
        let began = tokio::time::Instant::now();
        sleep(self.settings.window).await;
        let (units, cpu) = (units() - units_before, running.cpu_time()?.since(&cpu_before));
        let wall = began.elapsed();
        if units == 0 {
            return Err("no work was done in the window".to_owned());
        }
        Ok(Sample {
            value: cpu.as_secs_f64() * 1e6 / units as f64,
            units,
            core_share: Some(cpu.as_secs_f64() / wall.as_secs_f64()),
            gap: None,
        })
    }

    /// Resident memory that each idle stream adds to a fresh process.
    pub(crate) async fn memory(
        &self,
        program: Program,
        backends: &[SocketAddr],
        cores: Cores,
    ) -> Result<Sample, String> {
        let running = program.start(backends, cores).await?;
        let grown = self.growth(&running).await;
        running.end().await;
        grown
    }

    async fn growth(&self, running: &Running) -> Result<Sample, String> {
        // Lazily made tables are not the price of a stream.
        let load = ClosedLoop::start(running.address(), 8, None, &self.requests[0], &self.scratch);
        sleep(self.settings.warm_up).await;
        let counters = load.counters().clone();
        load.stop().await;
        no_failures(&counters)?;

        let before = running.resident()?;
        let count = self.settings.idle_streams;
        // Spread over a second: a burst of connections would show the memory
        // of the burst.
        let wish = Wish { events: 2, pace: Duration::from_secs(1), hold: true };
        let streams = Streams::start(running.address(), count, wish, &self.scratch);
        let opened = streams.all_have(wish.events).await;
        let after = settled(running).await;
        streams.abandon();
        opened?;
        let grown = after?.saturating_sub(before);
        let value = grown as f64 / 1024.0 / count as f64;
        Ok(Sample { value, units: count as u64, core_share: None, gap: None })
    }
}

/// Resident memory once it has stopped changing, at most some seconds later.
async fn settled(running: &Running) -> Result<u64, String> {
    let mut last = running.resident()?;
    for _ in 0..10 {
        sleep(Duration::from_millis(300)).await;
        let now = running.resident()?;
        if now == last {
            break;
        }
        last = now;
    }
    Ok(last)
}

fn no_failures(counters: &Counters) -> Result<(), String> {
    match counters.first_failure() {
        None => Ok(()),
        Some(why) => Err(format!("{} failed, the first because: {why}", counters.failed())),
    }
}
