//! One model server, fast: the step-accurate engine's rules with its steps
//! summed up between two changes of the batch.
//!
//! Step times, the budget of a step, order of admission, one token per stream
//! and step, preemption by recompute and the prefix cache are those of
//! [`crate::engine`]. What differs: blocks are the workload's own; the KV memory
//! of a prompt is taken when it is admitted, not chunk by chunk; the memory of a
//! stream is counted in tokens, not in blocks of 16; the blocks of an answer can
//! be found when it is complete. A test holds the two against each other.

mod cache;
mod phase;
mod step;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use slab::Slab;

pub(crate) use cache::{Cache, Change};
use phase::{Kind, Phase};

use crate::engine::Profile;

/// One sequence to compute.
#[derive(Clone, Debug)]
pub(crate) struct FastRequest {
    /// The caller's name for it.
    pub(crate) key: u64,
    /// Hashes of the full blocks of the prompt.
    pub(crate) chain: Arc<[u64]>,
    /// Hashes of the blocks that the answer fills, after those of the prompt.
    pub(crate) answer: Arc<[u64]>,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    /// Smaller goes first.
    pub(crate) priority: i32,
    /// The adapter it needs.
    pub(crate) adapter: Option<u32>,
}

/// What came of a sequence at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastEvent {
    /// Its first token.
    First { key: u64 },
    /// So many tokens have come out in all.
    Progress { key: u64, tokens: u32 },
    /// It is complete; so many prompt tokens were in the cache.
    Finished { key: u64, cached: u32 },
}

/// What cannot be told from the profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extras {
    /// Tokens that the host keeps beside the accelerator's memory.
    pub(crate) host_tokens: u64,
    /// Milliseconds to copy one token back from the host.
    pub(crate) host_ms_per_token: f64,
    /// Adapters that fit at a time.
    pub(crate) adapter_slots: u32,
    /// Milliseconds to load one.
    pub(crate) adapter_load_ms: f64,
}

struct Seq {
    request: FastRequest,
    number: u64,
    /// Tokens generated before it was last admitted.
    base: u32,
    /// Steps done when its first token since then was there.
    joined: u64,
    blocks: Vec<u32>,
    /// Tokens of memory of its own when it was last admitted.
    private: u32,
    cached: u32,
    started: bool,
    reported: u32,
    /// Where among the streams; meaningful while it is one.
    place: u32,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waiting,
    /// Its prompt is being read over several steps.
    Reading,
    /// Its prompt is complete at the end of this step.
    Joining,
    Decoding,
}

/// The prompt that is read in part.
#[derive(Clone, Copy)]
struct Head {
    slot: u32,
    done: u32,
    target: u32,
}

/// What an engine says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FastLoad {
    pub(crate) running: u32,
    pub(crate) waiting: u32,
    pub(crate) kv_usage: f64,
    pub(crate) waiting_tokens: u64,
}

/// See the module's text. Times are nanoseconds and must not go backwards.
pub(crate) struct FastEngine {
    profile: Profile,
    extras: Extras,
    block_tokens: u32,
    /// KV memory in tokens.
    total: u64,
    pub(crate) cache: Cache,
    seqs: Slab<Seq>,
    waiting: BTreeMap<(i32, u64), u32>,
    waiting_tokens: u64,
    streams: Vec<u32>,
    /// Steps at which streams end; entries of streams that ended otherwise stay
    /// until they come up.
    ends: BinaryHeap<Reverse<(u64, u64, u32)>>,
    head: Option<Head>,
    joining: Vec<u32>,
    /// Blocks found for the sequence that is being admitted.
    found: Vec<u32>,
    phase: Option<Phase>,
    /// When to begin a step, while there is none.
    wake: Option<u64>,
    steps: u64,
    /// Tokens that the streams attend to in the next step.
    context: u64,
    /// Tokens of memory outside blocks.
    private: u64,
    slowdown: f64,
    numbers: u64,
    next_scan: u64,
    /// The head of the queue that did not fit, and the releases seen then.
    blocked: Option<(u64, u64)>,
    releases: u64,
    /// Adapters loaded, the one used last at the end.
    adapters: Vec<u32>,
    /// Nanoseconds spent in steps, up to the last one that ended.
    pub(crate) busy: u64,
    /// Times a sequence lost its memory.
    pub(crate) preemptions: u64,
    /// Tokens generated.
    pub(crate) generated: u64,
}

impl FastEngine {
    /// An idle engine with an empty cache, whose blocks have so many tokens.
    pub(crate) fn new(profile: Profile, extras: Extras, block_tokens: u32) -> FastEngine {
        let block_tokens = block_tokens.max(1);
        let host = u32::try_from(extras.host_tokens / u64::from(block_tokens)).unwrap_or(u32::MAX);
        FastEngine {
            total: u64::from(profile.kv_tokens),
            profile,
            extras,
            block_tokens,
            cache: Cache::new(host),
            seqs: Slab::new(),
            waiting: BTreeMap::new(),
            waiting_tokens: 0,
            streams: Vec::new(),
            ends: BinaryHeap::new(),
            head: None,
            joining: Vec::new(),
            found: Vec::new(),
            phase: None,
            wake: None,
            steps: 0,
            context: 0,
            private: 0,
            slowdown: 1.0,
            numbers: 0,
            next_scan: 0,
            blocked: None,
            releases: 0,
            adapters: Vec::new(),
            busy: 0,
            preemptions: 0,
            generated: 0,
        }
    }

    /// Takes a sequence into the queue; false when it could not finish even
    /// alone, and nothing is taken. Its slot names it to [`FastEngine::cancel`].
    pub(crate) fn enqueue(&mut self, now: u64, request: FastRequest) -> Option<u32> {
        if u64::from(request.prompt) + u64::from(request.output) > self.total || request.prompt == 0 {
            return None;
        }
        let number = self.numbers;
        self.numbers += 1;
        let key = (request.priority, number);
        self.waiting_tokens += u64::from(request.prompt);
        let slot = self.seqs.insert(Seq {
            request,
            number,
            base: 0,
            joined: 0,
            blocks: Vec::new(),
            private: 0,
            cached: 0,
            started: false,
            reported: 0,
            place: 0,
            stage: Stage::Waiting,
        }) as u32;
        self.waiting.insert(key, slot);
        let is_first = self.waiting.first_key_value().is_some_and(|(first, _)| *first == key);
        match self.phase {
            None => self.wake = Some(self.wake.map_or(now, |wake| wake.min(now))),
            Some(phase) if phase.kind == Kind::Decode && is_first && self.has_place() => self.cut(now),
            Some(_) => {}
        }
        Some(slot)
    }

    /// Forgets a sequence and releases what it holds at once; no event of it follows.
    pub(crate) fn cancel(&mut self, now: u64, slot: u32) {
        if !self.seqs.contains(slot as usize) {
            return;
        }
        self.cut(now);
        let number = self.seqs[slot as usize].number;
        match self.seqs[slot as usize].stage {
            Stage::Waiting => {
                let request = &self.seqs[slot as usize].request;
                self.waiting_tokens -= u64::from(request.prompt);
                self.waiting.remove(&(request.priority, number));
            }
            Stage::Reading => {
                self.head = None;
                if let Some(phase) = &mut self.phase {
                    // What is left of the step takes as long as it would have.
                    phase.kind = Kind::Decode;
                }
                self.give_back(slot);
            }
            Stage::Joining => {
                self.joining.retain(|other| *other != slot);
                self.give_back(slot);
            }
            Stage::Decoding => {
                self.leave(slot);
                self.give_back(slot);
            }
        }
        self.seqs.remove(slot as usize);
    }

    /// Everything in it is lost at once, the cache too unless it is kept.
    /// Returns the callers' names of what was there.
    pub(crate) fn crash(&mut self, now: u64, keep_cache: bool) -> Vec<u64> {
        self.cut(now);
        let mut lost: Vec<(u64, u64)> =
            self.seqs.iter().map(|(_, seq)| (seq.number, seq.request.key)).collect();
        lost.sort_unstable();
        for (_, seq) in &mut self.seqs {
            self.cache.release(&mut seq.blocks);
        }
        self.seqs.clear();
        self.waiting.clear();
        self.waiting_tokens = 0;
        self.streams.clear();
        self.ends.clear();
        self.head = None;
        self.joining.clear();
        self.phase = None;
        self.wake = None;
        self.context = 0;
        self.private = 0;
        self.blocked = None;
        if !keep_cache {
            self.forget_cache();
        }
        lost.into_iter().map(|(_, key)| key).collect()
    }

    /// Forgets what nobody holds, and what was not told of it yet.
    pub(crate) fn forget_cache(&mut self) {
        self.cache.clear();
        self.adapters.clear();
        if let Some(log) = &mut self.cache.log {
            log.clear();
        }
    }

    /// When something happens next.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.phase.as_ref().map(|phase| phase.end).or(self.wake)
    }

    /// Lets everything happen up to and including `now`.
    pub(crate) fn advance(&mut self, now: u64, events: &mut Vec<FastEvent>) {
        loop {
            if let Some(phase) = self.phase {
                if phase.end > now {
                    return;
                }
                self.end_phase(phase, events);
                self.begin(phase.end);
            } else if let Some(wake) = self.wake.filter(|wake| *wake <= now) {
                self.wake = None;
                self.begin(wake);
            } else {
                return;
            }
        }
    }

    /// Makes every later step take `factor` times as long.
    pub(crate) fn set_slowdown(&mut self, now: u64, factor: f64) {
        self.cut(now);
        self.slowdown = if factor.is_finite() { factor.max(1e-3) } else { 1.0 };
    }

    /// What it would report of itself.
    pub(crate) fn load(&self, now: u64) -> FastLoad {
        let grown = self.phase.map_or(0, |phase| phase.over_by(now)) * self.streams.len() as u64;
        FastLoad {
            running: (self.seqs.len() - self.waiting.len()) as u32,
            waiting: self.waiting.len() as u32,
            kv_usage: ((self.used() + grown) as f64 / self.total.max(1) as f64).min(1.0),
            waiting_tokens: self.waiting_tokens,
        }
    }

    /// Whether nothing is there.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.seqs.is_empty()
    }

    fn used(&self) -> u64 {
        u64::from(self.cache.held()) * u64::from(self.block_tokens) + self.private
    }

    fn room(&self) -> u64 {
        self.total.saturating_sub(self.used())
    }

    fn has_place(&self) -> bool {
        self.seqs.len() - self.waiting.len() < self.profile.max_num_seqs.max(1) as usize
    }

    /// Ends the phase with the step in progress, so that what is about to
    /// change is seen by the next one.
    fn cut(&mut self, now: u64) {
        if let Some(phase) = self.phase.filter(|phase| phase.steps > 1) {
            let over = phase.over_by(now);
            let rest = phase.cut(over);
            self.did(&phase, over);
            self.busy += rest.start - phase.start;
            self.phase = Some(rest);
        }
    }

    /// Accounts for steps that are over.
    fn did(&mut self, phase: &Phase, steps: u64) {
        let grown = steps * self.streams.len() as u64;
        self.steps += steps;
        self.context += grown;
        self.private += grown;
        self.generated += grown;
        if let (Kind::Chunks(chunk), Some(head)) = (phase.kind, &mut self.head) {
            head.done += chunk * steps as u32;
        }
    }

    /// Takes a stream out of the batch.
    fn leave(&mut self, slot: u32) {
        let seq = &self.seqs[slot as usize];
        let since = self.steps - seq.joined;
        self.context -= u64::from(seq.request.prompt) + u64::from(seq.base) + since;
        self.private -= since;
        let place = seq.place as usize;
        self.streams.swap_remove(place);
        if let Some(&moved) = self.streams.get(place) {
            self.seqs[moved as usize].place = place as u32;
        }
    }

    /// Gives the memory of a sequence back that was admitted.
    fn give_back(&mut self, slot: u32) {
        let seq = &mut self.seqs[slot as usize];
        self.private -= u64::from(std::mem::take(&mut seq.private));
        self.cache.release(&mut seq.blocks);
        self.releases += 1;
    }
}
