//! A request's way to an engine.

use std::sync::Arc;

use rand::RngExt;

use super::{CONNECT_RETRIES, Key, Next, PROGRESS_EVERY, Part, Request, Run, nanos, place};
use crate::fleet::engine_fast::FastRequest;
use crate::fleet::gateway::Routed;
use crate::fleet::spec::OutputKnowledge;
use crate::workload::SimRequest;

impl Run<'_> {
    /// Which gateway the next request comes to.
    fn draw_gateway(&mut self) -> u32 {
        let (gateways, shares) = (self.gateways.len() as u32, &self.fleet.gateway_shares);
        if gateways == 1 {
            return 0;
        }
        if shares.is_empty() {
            return self.rng.random_range(0..gateways);
        }
        let mut left = self.rng.random::<f64>() * shares.iter().sum::<f64>();
        let drawn = shares.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        drawn.map_or(gateways - 1, |drawn| drawn as u32)
    }

    /// The length of its answer as a gateway is told beforehand, where it need
    /// not learn it.
    fn expected_output(&mut self, request: &SimRequest) -> Option<f64> {
        let really = f64::from(request.output_tokens);
        match self.fleet.output_knowledge {
            OutputKnowledge::Learned => None,
            OutputKnowledge::Exact => Some(really),
            OutputKnowledge::Noisy(sigma) => {
                let normal: f64 = self.rng.sample(rand_distr::StandardNormal);
                Some(really * (normal * sigma).exp())
            }
            OutputKnowledge::Constant(tokens) => Some(f64::from(tokens)),
        }
    }

    /// A request comes to one of the gateways.
    pub(super) fn arrive(&mut self, request: SimRequest) {
        let gateway = self.draw_gateway();
        let counts = self.counted.contains(&self.arrived);
        self.arrived += 1;
        self.timeline.arrived += 1;
        if let Some(progress) = self.progress
            && self.arrived.is_multiple_of(PROGRESS_EVERY)
        {
            progress(self.arrived);
        }
        if counts {
            self.measure.arrive(&request, self.now, self.nodes.iter().map(|node| node.engine.busy));
        }
        let expected = self.expected_output(&request);
        let facts = self.gateways[gateway as usize].facts(&request, expected);
        self.lap(Part::LookUp);
        let now = self.time();
        let routed = self.gateways[gateway as usize].submit(now, Arc::clone(&facts), &self.really);
        self.lap(Part::Pick);
        let (ticket, endpoint) = match routed {
            Routed::Go { ticket, endpoint } => (ticket, Some(endpoint)),
            Routed::Wait(ticket) => (ticket, None),
            Routed::Refused => {
                self.measure.rejected += u64::from(counts);
                self.over(request.session, false);
                return;
            }
        };
        self.counting += u64::from(counts);
        let patience = request.patience;
        let entry = self.requests.vacant_entry();
        let key = (self.arrived & u64::from(u32::MAX)) << 32 | entry.key() as u64;
        entry.insert(Request {
            key,
            request,
            facts,
            gateway,
            ticket,
            endpoint: u32::MAX,
            slot: None,
            delivered: false,
            sent: self.now,
            first: None,
            counts,
            retries: 0,
        });
        if let Some(patience) = patience {
            self.queue.push(self.now + nanos(patience), Next::GiveUp(key));
        }
        let by_ticket = &mut self.by_ticket[gateway as usize];
        if by_ticket.len() <= ticket.index() {
            by_ticket.resize(ticket.index() + 1, Key::MAX);
        }
        by_ticket[ticket.index()] = key;
        match endpoint {
            Some(endpoint) => self.send(key, endpoint),
            None => self.set_timer(gateway),
        }
    }

    /// Sends a request on its way to an endpoint.
    pub(super) fn send(&mut self, key: Key, endpoint: u32) {
        let now = self.now;
        let Some(request) = self.request(key) else { return };
        request.endpoint = endpoint;
        request.sent = now;
        let gateway = request.gateway as usize;
        let facts = Arc::clone(&request.facts);
        self.really[endpoint as usize] += 1;
        self.timeline.send(endpoint);
        self.gateways[gateway].begin(endpoint, &facts);
        self.lap(Part::Index);
        let way = self.nodes[endpoint as usize].way + nanos(self.fleet.gateway_overhead);
        if way == 0 {
            self.deliver(key);
        } else {
            self.queue.push(self.now + way, Next::Deliver(key));
        }
    }

    /// A request reaches its engine.
    pub(super) fn deliver(&mut self, key: Key) {
        let Some(request) = self.requests.get_mut(place(key)).filter(|request| request.key == key) else {
            return;
        };
        let endpoint = request.endpoint;
        let node = &mut self.nodes[endpoint as usize];
        if !node.up {
            self.refused(key);
            return;
        }
        let sim = &request.request;
        let slot = node.engine.enqueue(
            self.now,
            FastRequest {
                key,
                chain: Arc::clone(&sim.chain),
                answer: Arc::clone(&sim.answer),
                prompt: sim.prompt_tokens,
                output: sim.output_tokens,
                priority: 0,
                adapter: sim.adapter,
            },
        );
        request.slot = slot;
        request.delivered = slot.is_some();
        if slot.is_none() {
            // It can never fit: the engine says so.
            self.fail(key);
            return;
        }
        self.follow_engine(endpoint);
        self.lap(Part::Engine);
    }

    /// The connection was refused: another endpoint, if there is one.
    pub(super) fn refused(&mut self, key: Key) {
        let now = self.time();
        let Some(request) = self.request(key) else { return };
        let (gateway, endpoint, ticket) = (request.gateway, request.endpoint, request.ticket);
        let facts = Arc::clone(&request.facts);
        request.retries += 1;
        let may_retry = request.retries <= CONNECT_RETRIES;
        self.really[endpoint as usize] -= 1;
        let woken = self.gateways[gateway as usize].set_ready(now, endpoint as usize, false);
        self.wake(gateway, woken);
        if may_retry
            && let Routed::Go { endpoint: other, .. } =
                self.gateways[gateway as usize].repick(now, ticket, &self.really)
        {
            self.gateways[gateway as usize].over(now, endpoint, &facts, false, None);
            self.measure.repicked += 1;
            self.send(key, other);
            return;
        }
        self.fail(key);
    }
}
