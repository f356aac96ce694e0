//! What gateways hear of their requests, and how those end.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::Failure;

use super::{Key, Part, Run};
use crate::fleet::engine_fast::FastEvent;
use crate::fleet::gateway::Answer;
use crate::fleet::measure::Service;

impl Run<'_> {
    /// What an engine did for a request reaches the gateway.
    pub(super) fn hear(&mut self, key: Key, event: FastEvent) {
        match event {
            FastEvent::First { .. } => {
                let now = self.time();
                let Some(request) = self.request(key) else { return };
                request.first = Some(now.as_nanos());
                let (gateway, ticket) = (request.gateway as usize, request.ticket);
                self.gateways[gateway].note_progress(ticket, 1);
                self.gateways[gateway].tell_progress(now);
                self.lap(Part::Settle);
            }
            FastEvent::Progress { tokens, .. } => {
                let Some(request) = self.request(key) else { return };
                let (gateway, ticket) = (request.gateway as usize, request.ticket);
                self.gateways[gateway].note_progress(ticket, tokens);
            }
            FastEvent::Finished { cached, .. } => self.served(key, cached),
        }
    }

    /// Tells the gateways how far the streams of an engine are.
    pub(super) fn tell_progress(&mut self) {
        let now = self.time();
        for gateway in &mut self.gateways {
            gateway.tell_progress(now);
        }
        self.lap(Part::Settle);
    }

    /// A request was served whole.
    fn served(&mut self, key: Key, cached: u32) {
        let now = self.time();
        let Some(request) = self.take(key) else { return };
        self.really[request.endpoint as usize] -= 1;
        let gateway = &mut self.gateways[request.gateway as usize];
        gateway.over(now, request.endpoint, &request.facts, true, Some(cached));
        self.lap(Part::Index);
        let first = request.first.unwrap_or(self.now);
        let since = |at: u64| Duration::from_nanos(at - request.sent);
        let gateway = &mut self.gateways[request.gateway as usize];
        let answer = Answer {
            output: request.request.output_tokens,
            cached,
            ttft: since(first),
            duration: since(self.now),
        };
        let woken = gateway.finished(now, request.ticket, &request.facts, &answer);
        if self.reads_orca {
            self.tell_orca(request.gateway, request.endpoint);
        }
        let service = Service {
            endpoint: request.endpoint as usize,
            arrival: request.request.arrival.as_nanos(),
            first,
            end: self.now,
            cached,
        };
        self.timeline.serve(service.ttft_ns() * 1e-6, service.meets(&request.request));
        if request.counts {
            self.measure.serve(&request.request, &service);
        }
        self.lap(Part::Settle);
        self.wake(request.gateway, woken);
        self.over(request.request.session, true);
    }

    /// A request broke off or could not be delivered.
    pub(super) fn fail(&mut self, key: Key) {
        let now = self.time();
        let Some(request) = self.take(key) else { return };
        let failure = match (request.delivered, request.first) {
            (_, Some(_)) => Failure::Truncated,
            (true, None) => Failure::Reset,
            (false, None) if self.nodes[request.endpoint as usize].up => Failure::Status,
            (false, None) => Failure::Connect,
        };
        // One that was refused never got there.
        if failure != Failure::Connect {
            self.really[request.endpoint as usize] -= 1;
        }
        let facts = Arc::clone(&request.facts);
        let gateway = &mut self.gateways[request.gateway as usize];
        gateway.over(now, request.endpoint, &facts, request.first.is_some(), None);
        let took = Duration::from_nanos(self.now - request.sent);
        let woken = gateway.failed(now, request.ticket, failure, took);
        self.measure.failed += u64::from(request.counts);
        self.lap(Part::Settle);
        self.wake(request.gateway, woken);
        self.over(request.request.session, false);
    }

    /// A client goes away before its first token.
    pub(super) fn give_up(&mut self, key: Key) {
        let now = self.time();
        if self.request(key).is_none_or(|request| request.first.is_some()) {
            return;
        }
        let Some(request) = self.take(key) else { return };
        let gateway = &mut self.gateways[request.gateway as usize];
        if request.endpoint != u32::MAX {
            self.really[request.endpoint as usize] -= 1;
            gateway.over(now, request.endpoint, &request.facts, false, None);
            if let Some(slot) = request.slot {
                self.nodes[request.endpoint as usize].engine.cancel(self.now, slot);
                self.follow_engine(request.endpoint);
            }
        }
        let woken = self.gateways[request.gateway as usize].cancelled(now, request.ticket);
        self.measure.cancelled += u64::from(request.counts);
        self.lap(Part::Settle);
        self.wake(request.gateway, woken);
        self.over(request.request.session, false);
    }
}
