//! What happens to endpoints, and what they say of themselves.

use forebay_core::{LoadReport, OrcaLoad};

use super::{Gateway, Next, Part, Run, nanos};
use crate::baselines::Load;
use crate::fleet::spec::FleetChange;

/// Time constant of the rate that endpoints report.
const RATE_SECONDS: f64 = 10.0;

impl Run<'_> {
    /// Every gateway asks every endpoint for its load.
    pub(super) fn scrape(&mut self) {
        let now = self.time();
        for number in 0..self.nodes.len() {
            let node = &mut self.nodes[number];
            let up = node.up;
            let restarted = up && std::mem::take(&mut node.restarted);
            let load = node.engine.load(self.now);
            let report = LoadReport {
                at: now,
                running: Some(load.running),
                waiting: Some(load.waiting),
                kv_usage: Some(load.kv_usage as f32),
                kv_tokens: Some(self.fleet.endpoints[number].profile.kv_tokens),
                waiting_tokens: Some(load.waiting_tokens),
                ..LoadReport::default()
            };
            for gateway in 0..self.gateways.len() {
                if restarted {
                    self.gateways[gateway].restarted(now, number);
                }
                if self.gateways[gateway].is_ready(number) != up {
                    let woken = self.gateways[gateway].set_ready(now, number, up);
                    self.wake(gateway as u32, woken);
                }
                if up {
                    self.gateways[gateway].report(now, number, report);
                }
            }
        }
        for gateway in &mut self.gateways {
            gateway.tick(now);
        }
        self.queue.push(self.now + nanos(self.fleet.scrape_every), Next::Scrape);
        self.lap(Part::Report);
    }

    /// An answer carries what its endpoint says of itself: its KV memory in use
    /// as utilization, the metric that vLLM's reports have, and requests per
    /// second, both over the last ten seconds or so.
    pub(super) fn tell_orca(&mut self, gateway: u32, endpoint: u32) {
        let now = self.time();
        let node = &mut self.nodes[endpoint as usize];
        let since = (self.now - std::mem::replace(&mut node.rated, self.now)) as f64 * 1e-9;
        let kept = (-since / RATE_SECONDS).exp();
        node.rate = node.rate * kept + 1.0 / RATE_SECONDS;
        let load = node.engine.load(self.now);
        node.utilization = load.kv_usage + (node.utilization - load.kv_usage) * kept;
        let orca = OrcaLoad {
            utilization: Some(node.utilization as f32),
            qps: Some(node.rate as f32),
            eps: Some(0.0),
            kv_usage: Some(load.kv_usage as f32),
            waiting: Some(load.waiting),
        };
        self.gateways[gateway as usize].orca(now, endpoint as usize, orca);
    }

    /// The state of the fleet is written down.
    pub(super) fn sample(&mut self) {
        let now = self.now;
        let states = self.nodes.iter().map(|node| {
            let load = node.engine.load(now);
            (node.engine.busy, load.running, load.waiting)
        });
        self.timeline.point(now, states);
        if let Some(every) = self.timeline.every() {
            self.queue.push(now + every, Next::Sample);
        }
        self.lap(Part::Rest);
    }

    /// Every gateway hears what all others have in flight.
    pub(super) fn share(&mut self) {
        let now = self.time();
        for number in 0..self.gateways.len() {
            let Some(word) = self.gateways[number].word(now) else { break };
            for other in (0..self.gateways.len()).filter(|other| *other != number) {
                let woken = self.gateways[other].hear_peer(now, number as u32, word.clone());
                self.wake(other as u32, woken);
            }
        }
        self.others.clear();
        self.others.resize(self.nodes.len(), Load::default());
        for own in self.gateways.iter().filter_map(Gateway::own) {
            for (sum, load) in self.others.iter_mut().zip(own) {
                sum.add(load);
            }
        }
        for gateway in &mut self.gateways {
            gateway.hear_of_all(&self.others);
        }
        if let Some(every) = self.fleet.share_every {
            self.queue.push(self.now + nanos(every), Next::Share);
        }
        self.lap(Part::Report);
    }

    /// Something happens to an endpoint.
    pub(super) fn change(&mut self, number: usize) {
        let event = self.fleet.events[number];
        let now = self.time();
        let endpoint = event.endpoint as u32;
        let node = &mut self.nodes[event.endpoint];
        match event.change {
            FleetChange::Slow { slowness } => {
                node.slowness = slowness;
                node.engine.set_slowdown(self.now, slowness);
                self.follow_engine(endpoint);
            }
            FleetChange::Crash { back_after, keep_cache } => {
                node.up = false;
                node.crashes += 1;
                let crash = node.crashes;
                let lost = node.engine.crash(self.now, keep_cache);
                let way = node.way;
                self.follow_engine(endpoint);
                for key in lost {
                    if let Some(request) = self.request(key) {
                        request.slot = None;
                    }
                    self.queue.push(self.now + way, Next::Broken(key));
                }
                if let Some(after) = back_after {
                    self.queue.push(self.now + nanos(after), Next::Back { endpoint, keep_cache, crash });
                }
            }
            FleetChange::Join => {
                node.engine.forget_cache();
                for gateway in 0..self.gateways.len() {
                    let spec = &self.fleet.endpoints[event.endpoint];
                    let woken = self.gateways[gateway].join(now, event.endpoint, spec);
                    self.wake(gateway as u32, woken);
                }
            }
            FleetChange::Leave => {
                for gateway in 0..self.gateways.len() {
                    let woken = self.gateways[gateway].leave(now, event.endpoint);
                    self.wake(gateway as u32, woken);
                }
            }
        }
    }

    /// A crashed endpoint takes connections again; gateways find out when they
    /// ask it the next time.
    /// Another crash meanwhile has an end of its own.
    pub(super) fn back(&mut self, endpoint: u32, keep_cache: bool, crash: u32) {
        let node = &mut self.nodes[endpoint as usize];
        if node.crashes != crash {
            return;
        }
        node.up = true;
        node.restarted = !keep_cache;
        node.engine.set_slowdown(self.now, node.slowness);
        self.follow_engine(endpoint);
    }
}
