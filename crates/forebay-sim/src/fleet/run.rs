//! One run: the queue of events and what each of them sets going.

mod ends;
mod events;
mod way;

use std::sync::Arc;

use forebay_core::{RequestFacts, TicketId, Time};
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use slab::Slab;

use super::engine_fast::{Change, Extras, FastEngine, FastEvent};
use super::gateway::{Gateway, Woken};
use super::measure::Measure;
use super::policy::{PolicySpec, RunOptions};
use super::queue::Queue;
use super::result::{Parts, SimResult};
use super::spec::{Fleet, FleetError};
use super::timeline::Timeline;
use crate::baselines::Load;
use crate::workload::{SimRequest, Workload};

/// Arrivals between two words about progress.
const PROGRESS_EVERY: u64 = 4096;
/// How often a request is sent elsewhere at most when a connection is refused.
const CONNECT_RETRIES: u8 = 2;

/// A request: its place in the table, and above that which holder of the place.
type Key = u64;

enum Next {
    /// The request that [`Run::open`] holds.
    Arrival,
    /// A request that follows from another one.
    Follow(Box<SimRequest>),
    /// A request reaches its engine.
    Deliver(Key),
    /// Something happens inside an engine.
    Engine(u32),
    /// What an engine did reaches the gateway.
    Heard(Key, FastEvent),
    /// A broken connection reaches the gateway.
    Broken(Key),
    /// The client of a request loses its patience.
    GiveUp(Key),
    /// Every endpoint is asked for its load.
    Scrape,
    /// Gateways tell each other what they have in flight.
    Share,
    /// The state of the fleet is written down.
    Sample,
    /// By its place in the fleet's events.
    Change(usize),
    /// A crashed endpoint is back.
    Back { endpoint: u32, keep_cache: bool, crash: u32 },
    /// An engine's news reach every gateway.
    News(u32, Vec<Change>),
    /// A gateway wants to be told that time has passed.
    Timer(u32),
}

/// What the simulator spends its own time on.
#[derive(Clone, Copy)]
enum Part {
    Workload,
    LookUp,
    Pick,
    Index,
    Settle,
    Engine,
    Report,
    Rest,
}

struct Node {
    engine: FastEngine,
    /// When its next event is queued.
    wake: Option<u64>,
    up: bool,
    /// Crashes so far: only the last one's end brings it back.
    crashes: u32,
    /// It began anew and the gateways have not seen it yet.
    restarted: bool,
    /// Nanoseconds from and to a gateway.
    way: u64,
    /// As the profile says times this.
    slowness: f64,
    /// Requests finished per second and the mean use of KV memory, both fading
    /// over ten seconds, and as of when.
    rate: f64,
    utilization: f64,
    rated: u64,
}

struct Request {
    key: Key,
    request: SimRequest,
    facts: Arc<RequestFacts>,
    gateway: u32,
    ticket: TicketId,
    endpoint: u32,
    /// Its slot in the engine, while it is there.
    slot: Option<u32>,
    /// An engine has taken it.
    delivered: bool,
    sent: u64,
    first: Option<u64>,
    counts: bool,
    retries: u8,
}

struct Run<'a> {
    fleet: &'a Fleet,
    workload: &'a mut dyn Workload,
    queue: Queue<Next>,
    now: u64,
    nodes: Vec<Node>,
    gateways: Vec<Gateway>,
    /// Requests by ticket slot, for those that wait.
    by_ticket: Vec<Vec<Key>>,
    timers: Vec<Option<u64>>,
    requests: Slab<Request>,
    /// Requests on their way to an endpoint or there, by endpoint.
    really: Vec<u32>,
    others: Vec<Load>,
    reads_orca: bool,
    open: Option<SimRequest>,
    /// Requests still to come or to end; scrapes go on until there are none.
    pending: u64,
    arrived: u64,
    /// When the last request ended.
    ended: u64,
    /// The numbers of the requests that count.
    counted: std::ops::Range<u64>,
    /// Requests that count and have not ended.
    counting: u64,
    measure: Measure,
    rng: Pcg64Mcg,
    heard: Vec<FastEvent>,
    timeline: Timeline,
    progress: Option<&'a dyn Fn(u64)>,
    clock: Option<&'a dyn Fn() -> u64>,
    lapped: u64,
    parts: Parts,
}

/// Plays a workload against a fleet under one policy.
///
/// # Errors
/// A fleet that cannot be simulated.
pub fn run(
    fleet: &Fleet,
    workload: &mut dyn Workload,
    policy: &PolicySpec,
    options: &RunOptions<'_>,
) -> Result<SimResult, FleetError> {
    fleet.validate()?;
    let block_tokens = workload.block_tokens().max(1);
    let gateways: Vec<Gateway> = (0..fleet.gateways as u64)
        .map(|number| {
            let seed = options.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number);
            let mut gateway =
                Gateway::new(policy, &fleet.endpoints, fleet.kv_events.is_some(), block_tokens, seed);
            if fleet.gateways > 1 {
                gateway.stand_among(number as u32, fleet.gateways as u32);
            }
            gateway
        })
        .collect();
    let nodes = fleet
        .endpoints
        .iter()
        .map(|spec| {
            let extras = Extras {
                host_tokens: spec.host_tokens,
                host_ms_per_token: spec.host_ms_per_token,
                adapter_slots: spec.adapter_slots,
                adapter_load_ms: spec.adapter_load_ms,
            };
            let mut engine = FastEngine::new(spec.profile, extras, block_tokens);
            engine.set_slowdown(0, spec.slowness);
            if fleet.kv_events.is_some() {
                engine.cache.log = Some(Vec::new());
            }
            let way = (spec.round_trip.as_nanos() / 2).min(u128::from(u64::MAX / 4)) as u64;
            Node {
                engine,
                wake: None,
                up: true,
                crashes: 0,
                restarted: false,
                way,
                slowness: spec.slowness,
                rate: 0.0,
                utilization: 0.0,
                rated: 0,
            }
        })
        .collect();
    let mut run = Run {
        fleet,
        workload,
        queue: Queue::new(),
        now: 0,
        nodes,
        by_ticket: vec![Vec::new(); gateways.len()],
        timers: vec![None; gateways.len()],
        gateways,
        requests: Slab::new(),
        really: vec![0; fleet.endpoints.len()],
        others: Vec::new(),
        reads_orca: policy.reads_orca(),
        open: None,
        pending: 0,
        arrived: 0,
        ended: 0,
        counted: options.warmup..options.counted.map_or(u64::MAX, |n| options.warmup.saturating_add(n)),
        counting: 0,
        measure: Measure::new(fleet.endpoints.len()),
        rng: Pcg64Mcg::seed_from_u64(options.seed ^ 0x666c_6565),
        heard: Vec::new(),
        timeline: Timeline::new(options.sample_every, fleet.endpoints.len()),
        progress: options.progress,
        clock: options.clock,
        lapped: options.clock.map_or(0, |clock| clock()),
        parts: Parts::default(),
    };
    for (number, event) in fleet.events.iter().enumerate() {
        run.queue.push(event.at.as_nanos(), Next::Change(number));
    }
    run.fetch();
    run.queue.push(nanos(fleet.scrape_every), Next::Scrape);
    if let Some(every) = fleet.share_every.filter(|_| fleet.gateways > 1) {
        run.queue.push(nanos(every), Next::Share);
    }
    if let Some(every) = run.timeline.every() {
        run.queue.push(every, Next::Sample);
    }
    while run.pending > 0 && (run.counting > 0 || run.arrived < run.counted.end) {
        let Some((at, next)) = run.queue.pop() else { break };
        run.now = at;
        run.lap(Part::Rest);
        run.happen(next);
    }
    Ok(run.finish(policy.name()))
}

fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Where in the table a request is.
fn place(key: Key) -> usize {
    (key & Key::from(u32::MAX)) as usize
}

impl Run<'_> {
    /// A request, unless it has ended.
    fn request(&mut self, key: Key) -> Option<&mut Request> {
        self.requests.get_mut(place(key)).filter(|request| request.key == key)
    }

    fn take(&mut self, key: Key) -> Option<Request> {
        let counts = self.request(key)?.counts;
        self.counting -= u64::from(counts);
        self.requests.try_remove(place(key))
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// What was done since the last lap was this.
    fn lap(&mut self, part: Part) {
        let Some(clock) = self.clock else { return };
        let now = clock();
        let took = now.saturating_sub(std::mem::replace(&mut self.lapped, now));
        let parts = &mut self.parts;
        let sum = match part {
            Part::Workload => &mut parts.workload,
            Part::LookUp => &mut parts.look_up,
            Part::Pick => &mut parts.pick,
            Part::Index => &mut parts.index,
            Part::Settle => &mut parts.settle,
            Part::Engine => &mut parts.engine,
            Part::Report => &mut parts.report,
            Part::Rest => &mut parts.rest,
        };
        *sum += took;
    }

    /// Gets the next request that comes by itself.
    fn fetch(&mut self) {
        self.open = self.workload.next_request();
        if let Some(request) = &self.open {
            self.pending += 1;
            self.queue.push(request.arrival.as_nanos().max(self.now), Next::Arrival);
        }
        self.lap(Part::Workload);
    }

    fn happen(&mut self, next: Next) {
        match next {
            Next::Arrival => {
                if let Some(request) = self.open.take() {
                    self.fetch();
                    self.arrive(request);
                }
            }
            Next::Follow(request) => self.arrive(*request),
            Next::Deliver(key) => self.deliver(key),
            Next::Engine(endpoint) => {
                if self.nodes[endpoint as usize].wake == Some(self.now) {
                    self.advance(endpoint);
                }
            }
            Next::Heard(key, event) => {
                self.hear(key, event);
                self.tell_progress();
            }
            Next::Broken(key) => self.fail(key),
            Next::GiveUp(key) => self.give_up(key),
            Next::Scrape => self.scrape(),
            Next::Share => self.share(),
            Next::Sample => self.sample(),
            Next::Change(number) => self.change(number),
            Next::Back { endpoint, keep_cache, crash } => self.back(endpoint, keep_cache, crash),
            Next::News(endpoint, changes) => {
                if self.is_lost() {
                    return;
                }
                for gateway in &mut self.gateways {
                    gateway.cache_changed(endpoint as usize, &changes);
                }
                self.lap(Part::Index);
            }
            Next::Timer(gateway) => {
                let now = self.time();
                self.timers[gateway as usize] = None;
                let woken = self.gateways[gateway as usize].timer(now);
                self.wake(gateway, woken);
            }
        }
    }

    /// Lets an engine do what is due and passes on what came of it.
    fn advance(&mut self, endpoint: u32) {
        let node = &mut self.nodes[endpoint as usize];
        node.wake = None;
        let mut heard = std::mem::take(&mut self.heard);
        heard.clear();
        node.engine.advance(self.now, &mut heard);
        let way = node.way;
        let changes = match (&mut node.engine.cache.log, self.fleet.kv_events) {
            (Some(log), Some(late)) if !log.is_empty() => Some((std::mem::take(log), late)),
            _ => None,
        };
        self.follow_engine(endpoint);
        self.lap(Part::Engine);
        if let Some((changes, late)) = changes {
            self.queue.push(self.now + nanos(late), Next::News(endpoint, changes));
        }
        for &event in &heard {
            let (FastEvent::First { key }
            | FastEvent::Progress { key, .. }
            | FastEvent::Finished { key, .. }) = event;
            if way == 0 {
                self.hear(key, event);
            } else {
                self.queue.push(self.now + way, Next::Heard(key, event));
            }
        }
        if way == 0 && matches!(heard.last(), Some(FastEvent::Progress { .. })) {
            // Streams report after everything else that a step brings.
            self.tell_progress();
        }
        self.heard = heard;
    }

    /// Whether this piece of cache news is lost on the way.
    fn is_lost(&mut self) -> bool {
        let lost = self.fleet.kv_events_lost;
        lost > 0.0 && self.rng.random::<f64>() < lost
    }

    /// Queues an engine's next event where that changed.
    fn follow_engine(&mut self, endpoint: u32) {
        let node = &mut self.nodes[endpoint as usize];
        let next = node.engine.next_time();
        if next != node.wake {
            node.wake = next;
            if let Some(at) = next {
                self.queue.push(at, Next::Engine(endpoint));
            }
        }
    }

    /// Waiting requests go or are refused.
    fn wake(&mut self, gateway: u32, woken: Woken) {
        for ticket in woken.refused {
            let key = self.by_ticket[gateway as usize][ticket.index()];
            let Some(request) = self.take(key) else { continue };
            self.measure.rejected += u64::from(request.counts);
            self.over(request.request.session, false);
        }
        for (ticket, endpoint) in woken.go {
            let key = self.by_ticket[gateway as usize][ticket.index()];
            self.send(key, endpoint);
        }
        self.set_timer(gateway);
    }

    fn set_timer(&mut self, gateway: u32) {
        let next = self.gateways[gateway as usize].next_timer();
        let set = &mut self.timers[gateway as usize];
        if let Some(at) = next
            && set.is_none_or(|set| at < set)
        {
            *set = Some(at);
            self.queue.push(at.max(self.now), Next::Timer(gateway));
        }
    }

    /// A request has ended, whatever way.
    fn over(&mut self, session: Option<u64>, served: bool) {
        self.pending -= 1;
        self.ended = self.now;
        if let Some(session) = session
            && let Some(request) = self.workload.follow(session, Time::from_nanos(self.now), served)
        {
            self.pending += 1;
            let at = request.arrival.as_nanos().max(self.now);
            self.queue.push(at, Next::Follow(Box::new(request)));
        }
        self.lap(Part::Workload);
    }

    fn finish(mut self, policy: String) -> SimResult {
        self.lap(Part::Rest);
        // Unless it ended early, with requests under way that do not count.
        debug_assert!(self.pending > 0 || self.gateways.iter().all(|gateway| gateway.unsettled() == 0));
        let engines: Vec<(u64, u64)> =
            self.nodes.iter().map(|node| (node.engine.busy, node.engine.preemptions)).collect();
        let names = self.fleet.endpoints.iter().map(|spec| spec.name.clone());
        let mut result = self.measure.result(policy, self.ended, names, &engines, self.parts);
        result.simulated = self.arrived;
        result.timeline = self.timeline.points;
        result
    }
}
