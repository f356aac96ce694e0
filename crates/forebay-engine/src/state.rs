//! What changes in an engine, under its lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::Time;
use forebay_sim::engine::{EngineEvent, EngineModel, EngineRequest, EnqueueError, Profile, SeqId};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::adapters::Adapters;
use crate::answer::FinishReason;
use crate::clock::{EngineClock, unix_seconds};
use crate::fault::{Away, Fault, FaultKind};
use crate::kv::{KvFeed, KvMessage, SeqText};
use crate::metrics::{Lifetime, Metrics};
use crate::options::EngineOptions;
use crate::shared::{Death, SeqEvent};

/// Names one sequence, never reused.
pub(crate) type JobId = u64;

/// One sequence to run, and what else is to be known of it.
pub(crate) struct Job {
    pub(crate) request: EngineRequest,
    pub(crate) finish: FinishReason,
    /// The adapter it needs.
    pub(crate) adapter: Option<String>,
    /// For KV events, if there are any.
    pub(crate) text: Option<Arc<SeqText>>,
}

pub(crate) struct State {
    pub(crate) model: EngineModel,
    pub(crate) clock: EngineClock,
    sinks: BTreeMap<JobId, Sink>,
    by_seq: BTreeMap<SeqId, JobId>,
    /// Sequences whose adapter is not in memory, by arrival.
    parked: BTreeMap<JobId, Parked>,
    events: Vec<EngineEvent>,
    pub(crate) metrics: Metrics,
    pub(crate) kv: Option<KvFeed>,
    pub(crate) adapters: Adapters,
    pub(crate) fault: Fault,
    /// How many times as fast as its profile it runs.
    pub(crate) speed: f64,
    pub(crate) death: Option<Death>,
    /// Set until the server has begun to act on it.
    pub(crate) away: Option<Away>,
    pub(crate) draining: bool,
    pub(crate) requests: u64,
    pub(crate) in_flight: u32,
    /// When it started, in seconds since 1970.
    pub(crate) started: f64,
}

struct Sink {
    tx: UnboundedSender<(u32, SeqEvent)>,
    choice: u32,
    life: Lifetime,
    finish: FinishReason,
    adapter: Option<String>,
    /// None while it is parked.
    seq: Option<SeqId>,
}

struct Parked {
    request: EngineRequest,
    text: Option<Arc<SeqText>>,
}

impl State {
    /// An engine that has just started.
    pub(crate) fn new(
        options: &EngineOptions,
        profile: Profile,
        kv: Option<UnboundedSender<KvMessage>>,
    ) -> State {
        let mut model = EngineModel::new(profile);
        if kv.is_some() {
            model.log_block_changes();
        }
        State {
            model,
            clock: EngineClock::new(options.time_scale),
            sinks: BTreeMap::new(),
            by_seq: BTreeMap::new(),
            parked: BTreeMap::new(),
            events: Vec::new(),
            metrics: Metrics::new(),
            kv: kv.map(KvFeed::new),
            adapters: Adapters::new(&options.adapters, options.max_loras, options.adapter_load),
            fault: Fault { kind: FaultKind::None, count: None },
            speed: 1.0,
            death: None,
            away: None,
            draining: false,
            requests: 0,
            in_flight: 0,
            started: unix_seconds(),
        }
    }

    /// Sequences that wait for their adapter.
    pub(crate) fn deferred(&self) -> u32 {
        self.parked.len() as u32
    }

    /// Takes a sequence, at once or when its adapter is in memory; `tx` is told
    /// what becomes of it, with `choice`.
    pub(crate) fn take(
        &mut self,
        id: JobId,
        job: Job,
        (tx, choice): (UnboundedSender<(u32, SeqEvent)>, u32),
    ) -> Result<(), EnqueueError> {
        let now = self.clock.now();
        let Job { request, finish, adapter, text } = job;
        let prompt_tokens = request.prompt_tokens;
        let life = Lifetime { arrival: now, started: now, first: now, last: now, prompt_tokens, tokens: 0 };
        let ready = self.adapters.ready(adapter.as_deref());
        self.sinks.insert(id, Sink { tx, choice, life, finish, adapter, seq: None });
        let parked = Parked { request, text };
        if !ready {
            self.parked.insert(id, parked);
            self.settle(now);
            return Ok(());
        }
        let result = self.enqueue(now, id, parked);
        if result.is_err() {
            self.sinks.remove(&id);
        }
        result
    }

    fn enqueue(
        &mut self,
        now: Time,
        id: JobId,
        Parked { request, text }: Parked,
    ) -> Result<(), EnqueueError> {
        let seq = self.model.enqueue(now, request)?;
        self.by_seq.insert(seq, id);
        if let (Some(kv), Some(text)) = (&mut self.kv, text) {
            kv.begin(seq, text);
        }
        let Some(sink) = self.sinks.get_mut(&id) else { return Ok(()) };
        sink.seq = Some(seq);
        if let Some(name) = &sink.adapter {
            self.adapters.begin(name, unix_seconds());
        }
        Ok(())
    }

    /// Loads adapters that are waited for, and lets those run that have theirs.
    fn settle(&mut self, now: Time) {
        if self.parked.is_empty() {
            return;
        }
        let adapter = |id: &JobId| self.sinks.get(id).and_then(|sink| sink.adapter.as_deref());
        self.adapters.settle(now, self.parked.keys().filter_map(adapter));
        let ready: Vec<JobId> =
            self.parked.keys().filter(|id| self.adapters.ready(adapter(id))).copied().collect();
        for id in ready {
            let Some(parked) = self.parked.remove(&id) else { continue };
            // What can never fit was refused when its length was checked.
            if self.enqueue(now, id, parked).is_err()
                && let Some(sink) = self.sinks.remove(&id)
            {
                let _ = sink.tx.send((sink.choice, SeqEvent::Aborted));
            }
        }
    }

    /// Lets time pass up to now; gives the moment of the next event.
    pub(crate) fn tick(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        let mut events = std::mem::take(&mut self.events);
        self.model.advance(now, &mut events);
        if let Some(kv) = &mut self.kv {
            kv.announce(self.model.take_block_changes(), self.model.load().steps);
        }
        for event in events.drain(..) {
            self.dispatch(event);
        }
        self.events = events;
        self.settle(now);
        let next = [self.model.next_time(), self.adapters.next_time()].into_iter().flatten().min();
        next.and_then(|at| self.clock.real(at))
    }

    fn dispatch(&mut self, event: EngineEvent) {
        let Some(id) = self.by_seq.get(&event.seq()).copied() else { return };
        let Some(sink) = self.sinks.get_mut(&id) else { return };
        let tell = match event {
            EngineEvent::Started { at, cached_tokens, .. } => {
                sink.life.started = at;
                SeqEvent::Started(cached_tokens)
            }
            EngineEvent::Token { at, .. } => {
                self.metrics.token(&sink.life, at);
                if sink.life.tokens == 0 {
                    sink.life.first = at;
                }
                sink.life.last = at;
                sink.life.tokens += 1;
                SeqEvent::Token
            }
            EngineEvent::Finished { at, .. } => {
                self.metrics.finish(&sink.life, sink.finish, at);
                SeqEvent::Finished
            }
            EngineEvent::Preempted { .. } => return,
        };
        // A receiver that is gone cancels by itself.
        let _ = sink.tx.send((sink.choice, tell));
        if matches!(tell, SeqEvent::Finished) {
            self.forget(id);
        }
    }

    /// Stops generating what is not finished of these.
    pub(crate) fn cancel(&mut self, ids: &[JobId]) {
        let now = self.clock.now();
        for id in ids {
            if let Some(seq) = self.sinks.get(id).and_then(|sink| sink.seq) {
                self.model.cancel(now, seq);
            }
            self.forget(*id);
        }
    }

    fn forget(&mut self, id: JobId) {
        self.parked.remove(&id);
        let Some(Sink { adapter, seq: Some(seq), .. }) = self.sinks.remove(&id) else { return };
        self.by_seq.remove(&seq);
        if let Some(kv) = &mut self.kv {
            kv.end(seq, self.model.load().steps);
        }
        if let Some(name) = adapter {
            self.adapters.end(&name, unix_seconds());
        }
    }

    /// Ends every sequence with this word to its receiver.
    pub(crate) fn end_all(&mut self, with: SeqEvent) {
        let ids: Vec<JobId> = self.sinks.keys().copied().collect();
        for id in &ids {
            let Some(sink) = self.sinks.get(id) else { continue };
            *self.metrics.finished.entry(FinishReason::Abort).or_default() += 1;
            let _ = sink.tx.send((sink.choice, with));
        }
        self.cancel(&ids);
    }

    /// Makes steps take as long as speed and fault say.
    pub(crate) fn set_pace(&mut self) {
        let factor = match self.fault.kind {
            FaultKind::Slow { factor } => factor,
            _ => 1.0,
        };
        self.model.set_slowdown(factor / self.speed);
    }
}
