//! Counting what happens to requests.

use std::collections::BTreeMap;

use super::result::{ClassResult, EndpointResult, Parts, Sample, SimResult};
use crate::workload::SimRequest;

#[derive(Clone, Copy, Default)]
struct Served {
    requests: u64,
    prompt: u64,
    cached: u64,
    output: u64,
}

/// Requests of one priority.
struct ClassCount {
    arrived: u64,
    met: u64,
    ttft: Sample,
    e2e: Sample,
}

/// How one request went that was served whole.
pub(crate) struct Service {
    pub(crate) endpoint: usize,
    /// All in nanoseconds of simulated time.
    pub(crate) arrival: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) cached: u32,
}

impl Service {
    pub(crate) fn ttft_ns(&self) -> f64 {
        (self.first - self.arrival) as f64
    }

    /// Nanoseconds for each token after the first; none when there is none.
    fn tpot_ns(&self, output: u32) -> Option<f64> {
        (output > 1).then(|| (self.end - self.first) as f64 / f64::from(output - 1))
    }

    /// Whether the request met its limits.
    pub(crate) fn meets(&self, request: &SimRequest) -> bool {
        let within = |ns: f64, limit: Option<f32>| limit.is_none_or(|ms| ns <= f64::from(ms) * 1e6);
        let tpot = self.tpot_ns(request.output_tokens).unwrap_or(0.0);
        within(self.ttft_ns(), request.slo.ttft_ms) && within(tpot, request.slo.tpot_ms)
    }
}

/// Counts of one run.
pub(crate) struct Measure {
    ttft: Sample,
    tpot: Sample,
    e2e: Sample,
    arrived: u64,
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
    pub(crate) cancelled: u64,
    pub(crate) repicked: u64,
    met: u64,
    served: Vec<Served>,
    classes: BTreeMap<i32, ClassCount>,
    /// When counting began and each endpoint's busy time then.
    from: Option<(u64, Vec<u64>)>,
}

impl Measure {
    pub(crate) fn new(endpoints: usize) -> Measure {
        Measure {
            ttft: Sample::new(),
            tpot: Sample::new(),
            e2e: Sample::new(),
            arrived: 0,
            failed: 0,
            rejected: 0,
            cancelled: 0,
            repicked: 0,
            met: 0,
            served: vec![Served::default(); endpoints],
            classes: BTreeMap::new(),
            from: None,
        }
    }

    fn class(&mut self, request: &SimRequest) -> &mut ClassCount {
        let new = || ClassCount { arrived: 0, met: 0, ttft: Sample::new(), e2e: Sample::new() };
        self.classes.entry(request.priority.0).or_insert_with(new)
    }

    /// A request arrived that counts.
    pub(crate) fn arrive(&mut self, request: &SimRequest, now: u64, busy: impl Iterator<Item = u64>) {
        self.arrived += 1;
        self.class(request).arrived += 1;
        if self.from.is_none() {
            self.from = Some((now, busy.collect()));
        }
    }

    /// It was served.
    pub(crate) fn serve(&mut self, request: &SimRequest, service: &Service) {
        let output = request.output_tokens;
        self.ttft.add(service.ttft_ns());
        self.e2e.add((service.end - service.arrival) as f64);
        if let Some(tpot) = service.tpot_ns(output) {
            self.tpot.add(tpot);
        }
        let met = service.meets(request);
        self.met += u64::from(met);
        let class = self.class(request);
        class.met += u64::from(met);
        class.ttft.add(service.ttft_ns());
        class.e2e.add((service.end - service.arrival) as f64);
        let served = &mut self.served[service.endpoint];
        served.requests += 1;
        served.prompt += u64::from(request.prompt_tokens);
        served.cached += u64::from(service.cached);
        served.output += u64::from(output);
    }

    fn by_class(&self) -> Vec<ClassResult> {
        if self.classes.len() < 2 {
            return Vec::new();
        }
        let of = |(priority, class): (&i32, &ClassCount)| ClassResult {
            priority: *priority,
            requests: class.arrived,
            goodput: if class.arrived > 0 { class.met as f64 / class.arrived as f64 } else { 0.0 },
            ttft_ms: class.ttft.times(),
            e2e_ms: class.e2e.times(),
        };
        self.classes.iter().map(of).collect()
    }

    /// The result; `engines` gives each endpoint's busy time and preemptions.
    pub(crate) fn result(
        &self,
        policy: String,
        end: u64,
        names: impl Iterator<Item = String>,
        engines: &[(u64, u64)],
        parts: Parts,
    ) -> SimResult {
        let sum = |f: fn(&Served) -> u64| self.served.iter().map(f).sum::<u64>();
        let (requests, prompt, output) = (sum(|s| s.requests), sum(|s| s.prompt), sum(|s| s.output));
        let (from, busy) = self.from.clone().unwrap_or_default();
        let span = end.saturating_sub(from).max(1) as f64;
        let share = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 } else { 0.0 };
        let endpoints: Vec<EndpointResult> = names
            .enumerate()
            .map(|(i, name)| {
                let served = self.served[i];
                let before = busy.get(i).copied().unwrap_or(0);
                EndpointResult {
                    name,
                    requests: served.requests,
                    share: share(served.requests, requests),
                    token_share: share(served.prompt + served.output, prompt + output),
                    prefix_hit: share(served.cached, served.prompt),
                    utilization: (engines[i].0.saturating_sub(before) as f64 / span).min(1.0),
                    preemptions: engines[i].1,
                }
            })
            .collect();
        let most = self.served.iter().map(|s| s.requests).max().unwrap_or(0);
        let most_tokens = self.served.iter().map(|s| s.prompt + s.output).max().unwrap_or(0);
        SimResult {
            policy,
            requests: self.arrived,
            failed: self.failed,
            rejected: self.rejected,
            cancelled: self.cancelled,
            ttft_ms: self.ttft.times(),
            tpot_ms: self.tpot.times(),
            e2e_ms: self.e2e.times(),
            tokens_per_second: output as f64 / (span * 1e-9),
            goodput: share(self.met, self.arrived),
            prefix_hit: share(sum(|s| s.cached), prompt),
            busiest: share(most * self.served.len() as u64, requests),
            busiest_tokens: share(most_tokens * self.served.len() as u64, prompt + output),
            repicked: self.repicked,
            classes: self.by_class(),
            endpoints,
            simulated: 0,
            sim_seconds: end as f64 * 1e-9,
            timeline: Vec::new(),
            parts,
        }
    }
}
