//! Who decides in a gateway: the Gate, or a rival's router beside it.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{
    EndKind, EndpointFacts, EndpointId, EndpointState, Failure, LoadReport, OrcaLoad, Outcome, RequestFacts,
    TicketId, Time, Usage,
};
use forebay_gate::{Effects, Event, Gate, PeerWord, Progress, RepickReason, Verdict};

use super::{POOL, Routed, Woken};
use crate::baselines::{Desk, Load};
use crate::fleet::policy::PolicySpec;
use crate::fleet::spec::EndpointSpec;

/// One interface over both.
pub(super) enum Decider {
    Gate(Box<OurGate>),
    Desk(Box<Desk>),
}

/// The Gate, and which endpoint is in which of its slots.
pub(super) struct OurGate {
    gate: Gate,
    numbers: Vec<u32>,
    /// What it last told its peers.
    said: Option<Arc<PeerWord>>,
}

/// How a request ended that was served.
pub(crate) struct Answer {
    pub(crate) output: u32,
    pub(crate) cached: u32,
    /// From being sent to the first token, and to the last.
    pub(crate) ttft: Duration,
    pub(crate) duration: Duration,
}

impl OurGate {
    fn routed(&self, verdict: &Verdict) -> Routed {
        match verdict {
            Verdict::Go(decision) => {
                Routed::Go { ticket: decision.ticket, endpoint: self.numbers[decision.endpoint.index()] }
            }
            Verdict::Wait(ticket) => Routed::Wait(*ticket),
            Verdict::Refuse(_) => Routed::Refused,
        }
    }

    fn apply(&mut self, now: Time, event: Event) -> Woken {
        let effects = self.gate.apply(now, event);
        self.woken(&effects)
    }

    fn woken(&self, effects: &Effects) -> Woken {
        if effects.go.is_empty() && effects.refuse.is_empty() {
            return Woken::default();
        }
        Woken {
            go: effects.go.iter().map(|d| (d.ticket, self.numbers[d.endpoint.index()])).collect(),
            refused: effects.refuse.iter().map(|(ticket, _)| *ticket).collect(),
        }
    }
}

impl Decider {
    pub(super) fn new(
        policy: &PolicySpec,
        endpoints: &[EndpointSpec],
        exact: bool,
        block_tokens: u32,
        seed: u64,
    ) -> Decider {
        match policy {
            PolicySpec::Ours(config) => {
                let mut gate = Gate::new(seed);
                gate.keep_decisions(0);
                gate.apply(Time::ZERO, Event::Configure(POOL, *config));
                Decider::Gate(Box::new(OurGate { gate, numbers: Vec::new(), said: None }))
            }
            PolicySpec::Baseline(kind, knobs) => {
                Decider::Desk(Box::new(Desk::new(*kind, knobs, endpoints, exact, block_tokens, seed)))
            }
        }
    }

    pub(super) fn join(
        &mut self,
        now: Time,
        number: usize,
        spec: &EndpointSpec,
    ) -> (Option<EndpointId>, Woken) {
        match self {
            Decider::Gate(ours) => {
                let facts = EndpointFacts {
                    weight: spec.weight,
                    accelerator: spec.accelerator.clone(),
                    ..EndpointFacts::named(spec.name.clone())
                };
                let effects = ours.gate.apply(now, Event::Join(POOL, facts, EndpointState::Ready));
                if let Some(id) = effects.joined {
                    if ours.numbers.len() <= id.index() {
                        ours.numbers.resize(id.index() + 1, u32::MAX);
                    }
                    ours.numbers[id.index()] = number as u32;
                    if !spec.round_trip.is_zero() {
                        ours.gate.apply(now, Event::Network(id, spec.round_trip));
                    }
                }
                (effects.joined, ours.woken(&effects))
            }
            Decider::Desk(desk) => (Some(desk.join(number)), Woken::default()),
        }
    }

    pub(super) fn leave(&mut self, now: Time, number: usize, id: EndpointId) -> Woken {
        match self {
            Decider::Gate(ours) => ours.apply(now, Event::Leave(id)),
            Decider::Desk(desk) => {
                desk.leave(number);
                Woken::default()
            }
        }
    }

    pub(super) fn set_ready(&mut self, now: Time, number: usize, id: EndpointId, ready: bool) -> Woken {
        match self {
            Decider::Gate(ours) => {
                let state = if ready { EndpointState::Ready } else { EndpointState::Unready };
                ours.apply(now, Event::State(id, state))
            }
            Decider::Desk(desk) => {
                desk.set_ready(number, ready);
                Woken::default()
            }
        }
    }

    pub(super) fn restarted(&mut self, now: Time, id: EndpointId) {
        if let Decider::Gate(ours) = self {
            ours.gate.apply(now, Event::Restarted(id));
        }
    }

    pub(super) fn submit(&mut self, now: Time, facts: Arc<RequestFacts>, really: &[u32]) -> Routed {
        match self {
            Decider::Gate(ours) => {
                let verdict = ours.gate.submit(now, facts);
                ours.routed(&verdict)
            }
            Decider::Desk(desk) => match desk.submit(now.as_nanos(), facts, really) {
                Some((ticket, endpoint)) => Routed::Go { ticket, endpoint },
                None => Routed::Refused,
            },
        }
    }

    pub(super) fn repick(&mut self, now: Time, ticket: TicketId, really: &[u32]) -> Routed {
        match self {
            Decider::Gate(ours) => {
                let verdict = ours.gate.repick(now, ticket, RepickReason::Connect);
                ours.routed(&verdict)
            }
            Decider::Desk(desk) => match desk.repick(now.as_nanos(), ticket, really) {
                Some(endpoint) => Routed::Go { ticket, endpoint },
                None => Routed::Refused,
            },
        }
    }

    pub(super) fn progress(&mut self, now: Time, batch: &mut Vec<Progress>) {
        match self {
            Decider::Gate(ours) => {
                ours.gate.apply(now, Event::Progress(std::mem::take(batch)));
            }
            Decider::Desk(desk) => {
                for progress in batch.drain(..) {
                    desk.progress(now.as_nanos(), progress.ticket);
                }
            }
        }
    }

    pub(super) fn finished(
        &mut self,
        now: Time,
        ticket: TicketId,
        facts: &RequestFacts,
        answer: &Answer,
    ) -> Woken {
        match self {
            Decider::Gate(ours) => {
                let outcome = Outcome {
                    end: EndKind::Finished,
                    ttft: Some(answer.ttft),
                    duration: answer.duration,
                    usage: Some(Usage {
                        prompt_tokens: u64::from(facts.prompt_tokens),
                        cached_tokens: u64::from(answer.cached),
                        cached_known: true,
                        completion_tokens: u64::from(answer.output),
                        estimated: false,
                    }),
                };
                ours.apply(now, Event::Outcome(ticket, outcome))
            }
            Decider::Desk(desk) => {
                desk.end(ticket, answer.output);
                Woken::default()
            }
        }
    }

    pub(super) fn failed(&mut self, now: Time, ticket: TicketId, failure: Failure, took: Duration) -> Woken {
        match self {
            Decider::Gate(ours) => {
                let outcome = Outcome::without_answer(EndKind::Failed(failure), took);
                ours.apply(now, Event::Outcome(ticket, outcome))
            }
            Decider::Desk(desk) => {
                desk.end(ticket, 0);
                Woken::default()
            }
        }
    }

    pub(super) fn cancelled(&mut self, now: Time, ticket: TicketId) -> Woken {
        match self {
            Decider::Gate(ours) => ours.apply(now, Event::Cancelled(ticket)),
            Decider::Desk(desk) => {
                desk.end(ticket, 0);
                Woken::default()
            }
        }
    }

    pub(super) fn report(&mut self, now: Time, number: usize, id: EndpointId, report: LoadReport) {
        match self {
            Decider::Gate(ours) => {
                ours.gate.apply(now, Event::Report(id, report));
            }
            Decider::Desk(desk) => desk.report(number, report),
        }
    }

    pub(super) fn orca(&mut self, now: Time, number: usize, id: EndpointId, load: OrcaLoad) {
        match self {
            Decider::Gate(ours) => {
                ours.gate.apply(now, Event::Orca(id, load));
            }
            Decider::Desk(desk) => desk.orca(now.as_nanos(), number, load),
        }
    }

    /// It is number `me` of so many.
    pub(super) fn stand_among(&mut self, now: Time, me: u32, gateways: u32) {
        if let Decider::Gate(ours) = self {
            ours.apply(now, Event::Among { me, gateways });
        }
    }

    /// What our Gate tells its peers; none for rivals. Nothing new since the
    /// last time: no word in it.
    pub(super) fn word(&mut self, now: Time) -> Option<Option<Arc<PeerWord>>> {
        let Decider::Gate(ours) = self else { return None };
        let word = ours.gate.word(now);
        if ours.said.as_ref().is_some_and(|said| word.repeats(said)) {
            return Some(None);
        }
        let word = Arc::new(word);
        ours.said = Some(Arc::clone(&word));
        Some(Some(word))
    }

    pub(super) fn hear_peer(&mut self, now: Time, number: u32, word: Option<Arc<PeerWord>>) -> Woken {
        match self {
            Decider::Gate(ours) => ours.apply(now, Event::Peer(number, word)),
            Decider::Desk(_) => Woken::default(),
        }
    }

    /// What is in flight by its own account, for its peers; none where a
    /// gateway has nothing to tell them.
    pub(super) fn own(&self) -> Option<&[Load]> {
        match self {
            Decider::Gate(_) => None,
            Decider::Desk(desk) => Some(desk.own()),
        }
    }

    pub(super) fn hear_of_all(&mut self, all: &[Load]) {
        if let Decider::Desk(desk) = self {
            desk.hear_of_all(all);
        }
    }

    pub(super) fn next_timer(&self) -> Option<u64> {
        match self {
            Decider::Gate(ours) => ours.gate.next_timer().map(Time::as_nanos),
            Decider::Desk(_) => None,
        }
    }

    pub(super) fn unsettled(&self) -> usize {
        match self {
            Decider::Gate(ours) => ours.gate.unsettled(),
            Decider::Desk(desk) => desk.unsettled(),
        }
    }

    pub(super) fn timer(&mut self, now: Time) -> Woken {
        match self {
            Decider::Gate(ours) => ours.apply(now, Event::Timer),
            Decider::Desk(_) => Woken::default(),
        }
    }
}
