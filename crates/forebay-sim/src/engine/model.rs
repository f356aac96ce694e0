//! The engine: what callers see, and time.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_core::Time;
use slab::Slab;

use super::blocks::{BlockId, BlockPool};
use super::event::{EngineEvent, EngineLoad, EngineRequest, EnqueueError, SeqId};
use super::log::BlockChanges;
use super::profile::Profile;
use super::sequence::{QueueKey, Sequence};

/// One sequence's share of the step in progress.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) id: SeqId,
    pub(super) tokens: u32,
}

/// A model server that batches continuously, as vLLM's v1 engine does.
///
/// Work goes in steps. At the beginning of a step every running sequence gets
/// its next tokens (one when it decodes, a chunk of its prompt before that),
/// then waiting ones are admitted in order while tokens, places and KV blocks
/// last. At its end the tokens appear. A sequence that needs a block when none
/// is left takes it from the last one in the queue's order, which is computed
/// again later. Nothing is random: equal calls give equal events.
///
/// Every call takes the time; it must not go backwards (an earlier time is
/// treated as the latest one seen).
pub struct EngineModel {
    pub(super) profile: Profile,
    pub(super) pool: BlockPool,
    pub(super) seqs: Slab<Sequence>,
    pub(super) waiting: BTreeMap<QueueKey, u32>,
    /// Slots of the running sequences, in order of admission.
    pub(super) running: Vec<u32>,
    pub(super) batch: Vec<Share>,
    /// End of the step in progress.
    step_end: Option<Time>,
    /// Latest time seen.
    clock: Time,
    slowdown: f64,
    arrivals: u64,
    pub(super) totals: EngineLoad,
    pub(super) found: Vec<BlockId>,
    /// The head of the queue that did not fit, and the count of pool changes
    /// before which looking again is useless.
    pub(super) misfit: Option<(SeqId, u64)>,
    /// Events that happened while a caller enqueued or cancelled.
    pub(super) outbox: Vec<EngineEvent>,
    /// Block changes of the steps that have ended.
    pub(super) announced: Vec<BlockChanges>,
}

impl EngineModel {
    /// An idle engine with an empty cache.
    pub fn new(profile: Profile) -> EngineModel {
        EngineModel {
            pool: BlockPool::new(profile.blocks()),
            profile,
            seqs: Slab::new(),
            waiting: BTreeMap::new(),
            running: Vec::new(),
            batch: Vec::new(),
            step_end: None,
            clock: Time::ZERO,
            slowdown: 1.0,
            arrivals: 0,
            totals: EngineLoad::default(),
            found: Vec::new(),
            misfit: None,
            outbox: Vec::new(),
            announced: Vec::new(),
        }
    }

    /// Keeps a record of block changes from now on, for
    /// [`take_block_changes`](Self::take_block_changes). It grows until it is
    /// taken; without this call there is none and nothing is paid for it.
    pub fn log_block_changes(&mut self) {
        self.pool.log.get_or_insert_default();
    }

    /// The block changes of the steps that have ended since the last call, a
    /// batch for each step that had any.
    pub fn take_block_changes(&mut self) -> Vec<BlockChanges> {
        std::mem::take(&mut self.announced)
    }

    /// Forgets the prefix cache. False, and nothing happens, while sequences
    /// hold blocks (as vLLM refuses to reset its own then).
    pub fn reset_prefix_cache(&mut self, now: Time) -> bool {
        self.catch_up(now);
        self.pool.reset()
    }

    /// The profile it was made with.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Takes a sequence into the queue.
    ///
    /// # Errors
    /// When the prompt is empty, or prompt and answer can never fit.
    pub fn enqueue(&mut self, now: Time, mut request: EngineRequest) -> Result<SeqId, EnqueueError> {
        if request.prompt_tokens == 0 {
            return Err(EnqueueError::EmptyPrompt);
        }
        let block = u64::from(self.profile.block_size.max(1));
        let tokens = u64::from(request.prompt_tokens) + u64::from(request.output_tokens);
        let (needed, total) = (tokens.div_ceil(block), self.pool.total());
        if needed > u64::from(total) {
            return Err(EnqueueError::TooLarge { needed, total });
        }
        self.catch_up(now);
        request.chain.truncate((tokens / block) as usize);
        let entry = self.seqs.vacant_entry();
        let id = SeqId { number: self.arrivals, slot: entry.key() as u32 };
        self.arrivals += 1;
        let seq = Sequence {
            id,
            request,
            computed: 0,
            generated: 0,
            table: Vec::new(),
            started: false,
            running: false,
        };
        self.waiting.insert(seq.key(), id.slot);
        entry.insert(seq);
        Ok(id)
    }

    /// Forgets a sequence, waiting or running, and releases its blocks at once;
    /// no event of it follows. False when it had ended already.
    pub fn cancel(&mut self, now: Time, id: SeqId) -> bool {
        self.catch_up(now);
        if self.get(id).is_none() {
            return false;
        }
        self.remove(id.slot);
        self.outbox.retain(|event| event.seq() != id);
        true
    }

    /// When something happens next: the end of the step in progress, or a step
    /// to begin. None when there is no work.
    pub fn next_time(&self) -> Option<Time> {
        let idle = self.running.is_empty() && self.waiting.is_empty();
        match self.step_end {
            _ if !self.outbox.is_empty() => Some(self.clock),
            Some(end) => Some(end),
            None if idle => None,
            None => Some(self.clock),
        }
    }

    /// Lets everything happen up to and including `to`; events are appended in
    /// order of time.
    pub fn advance(&mut self, to: Time, events: &mut Vec<EngineEvent>) {
        self.run(to, true);
        events.append(&mut self.outbox);
    }

    /// Makes every later step take `factor` times as long (1 = the profile).
    /// The step in progress keeps its end. Values under 0.001, and NaN, count
    /// as 0.001.
    pub fn set_slowdown(&mut self, factor: f64) {
        self.slowdown = factor.max(0.001);
    }

    /// What the engine would report about itself now.
    pub fn load(&self) -> EngineLoad {
        let (used, total) = (self.pool.used(), self.pool.total());
        EngineLoad {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            kv_usage: f64::from(used) / f64::from(total.max(1)),
            blocks_used: used,
            blocks_total: total,
            ..self.totals
        }
    }

    /// A call at `now` must find what had happened by then, but a step that
    /// could begin exactly now waits, so that it sees what the call brings.
    fn catch_up(&mut self, now: Time) {
        self.run(now, false);
    }

    fn run(&mut self, to: Time, start_at_to: bool) {
        let to = to.max(self.clock);
        loop {
            match self.step_end {
                Some(end) if end <= to => {
                    self.clock = end;
                    self.step_end = None;
                    self.finish_step(end);
                }
                Some(_) => break,
                None if self.clock < to || start_at_to => match self.begin_step(self.clock) {
                    Some(work) => {
                        // The cast saturates where Duration::mul_f64 would panic.
                        let nanos = self.profile.step_time(&work).as_nanos() as f64 * self.slowdown;
                        let time = Duration::from_nanos(nanos.round() as u64);
                        self.step_end = Some(self.clock + time.max(MIN_STEP));
                    }
                    None => break,
                },
                None => break,
            }
        }
        self.clock = to;
    }

    pub(super) fn get(&self, id: SeqId) -> Option<&Sequence> {
        self.seqs.get(id.slot as usize).filter(|seq| seq.id == id)
    }

    /// Takes a sequence out of whichever list it is in.
    pub(super) fn remove(&mut self, slot: u32) {
        let mut seq = self.seqs.remove(slot as usize);
        if seq.running {
            self.running.retain(|other| *other != slot);
        } else {
            self.waiting.remove(&seq.key());
        }
        self.pool.release(&mut seq.table);
    }
}

/// Keeps time moving under a profile made by hand whose steps take nothing.
const MIN_STEP: Duration = Duration::from_micros(1);
