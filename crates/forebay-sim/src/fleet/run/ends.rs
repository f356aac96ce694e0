//! What gateways hear of their requests, and how those end.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::Failure;

use super::{Part, Run};
use crate::fleet::engine_fast::FastEvent;
use crate::fleet::measure::Service;

impl Run<'_> {
    /// What an engine did for a request reaches the gateway.
    pub(super) fn hear(&mut self, key: u32, event: FastEvent) {
        match event {
            FastEvent::First { .. } => {
                let now = self.time();
                let request = &mut self.requests[key as usize];
                request.first = Some(self.now);
                self.gateways[request.gateway as usize].progress(now, request.ticket, 1);
                self.lap(Part::Settle);
            }
            FastEvent::Progress { tokens, .. } => {
                let now = self.time();
                let request = &self.requests[key as usize];
                self.gateways[request.gateway as usize].progress(now, request.ticket, tokens);
                self.lap(Part::Settle);
            }
            FastEvent::Finished { cached, .. } => self.served(key, cached),
        }
    }

    /// A request was served whole.
    fn served(&mut self, key: u32, cached: u32) {
        let now = self.time();
        let request = self.requests.remove(key as usize);
        let gateway = &mut self.gateways[request.gateway as usize];
        gateway.over(now, request.endpoint, &request.facts, true, Some(cached));
        self.lap(Part::Index);
        let first = request.first.unwrap_or(self.now);
        let since = |at: u64| Duration::from_nanos(at - request.sent);
        let gateway = &mut self.gateways[request.gateway as usize];
        let tokens = (request.request.output_tokens, cached);
        let woken =
            gateway.finished(now, request.ticket, &request.facts, tokens, (since(first), since(self.now)));
        if request.counts {
            let service = Service {
                endpoint: request.endpoint as usize,
                arrival: request.request.arrival.as_nanos(),
                first,
                end: self.now,
                cached,
            };
            self.measure.serve(&request.request, &service);
        }
        self.lap(Part::Settle);
        self.wake(request.gateway, woken);
        self.over(request.request.session, true);
    }

    /// A request broke off or could not be delivered.
    pub(super) fn fail(&mut self, key: u32) {
        let now = self.time();
        let request = self.requests.remove(key as usize);
        let failure = match (request.slot, request.first) {
            (_, Some(_)) => Failure::Truncated,
            (Some(_), None) => Failure::Reset,
            (None, None) if self.nodes[request.endpoint as usize].up => Failure::Status,
            (None, None) => Failure::Connect,
        };
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
}
