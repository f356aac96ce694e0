//! Who computes what in the next steps, and what came of the last ones.

use std::cmp::Reverse;

use super::phase::{Kind, Phase};
use super::{FastEngine, FastEvent, Head, Stage};

/// Steps after which streams report how far they are.
const SCAN_EVERY: u64 = 32;
/// Tokens that make a report worth it: every stream is heard of about every
/// 32 tokens, as a gateway does it.
const WORTH_TELLING: u32 = 16;

/// What one step computes.
#[derive(Default)]
struct Work {
    tokens: u64,
    pairs: f64,
    extra_ms: f64,
}

impl Work {
    fn prefill(&mut self, chunk: u32, done: u32) {
        self.tokens += u64::from(chunk);
        self.pairs += f64::from(chunk) * (f64::from(done) + f64::from(chunk) / 2.0);
    }
}

impl FastEngine {
    /// Plans the steps from `now` on.
    pub(super) fn begin(&mut self, now: u64) {
        let preempted = self.make_room_for_streams();
        let streams = self.streams.len() as u64;
        let mut budget = self.profile.max_batched_tokens.max(1).saturating_sub(streams as u32);
        let mut work = Work { tokens: streams, ..Work::default() };
        let mut kind = Kind::Decode;
        if let Some(head) = self.head.filter(|_| budget > 0) {
            let left = head.target - head.done;
            if left > budget {
                kind = Kind::Chunks(budget);
                budget = 0;
            } else {
                work.prefill(left, head.done);
                budget -= left;
                self.joins(head.slot);
                self.head = None;
                kind = Kind::Joining;
            }
        }
        // Memory that was just taken from a sequence is not for newcomers.
        if !preempted {
            self.admit(&mut budget, &mut work, &mut kind);
        }
        let mut steps = match (kind, self.head) {
            (Kind::Chunks(chunk), Some(head)) => {
                let left = head.target - head.done;
                work.prefill(chunk, head.done);
                u64::from((left - 1) / chunk)
            }
            (Kind::Joining, _) => 1,
            _ if streams == 0 => {
                // Nothing fits, though nothing runs: there is nobody to wait for.
                self.phase = None;
                return;
            }
            _ => u64::MAX,
        };
        if let Some(fits) = self.room().checked_div(streams) {
            let next_end = self.next_end().unwrap_or(u64::MAX).saturating_sub(self.steps);
            let fits = fits.max(1);
            steps = steps.min(next_end).min(fits).min(self.next_scan.saturating_sub(self.steps));
        }
        let p = &self.profile;
        let first = p.a
            + p.b * work.tokens as f64
            + p.c * work.pairs
            + p.d * self.context as f64
            + p.e * streams as f64;
        let chunk = match kind {
            Kind::Chunks(chunk) => f64::from(chunk),
            _ => 0.0,
        };
        let growth = p.d * streams as f64 + p.c * chunk * chunk;
        let scale = self.slowdown * 1e6;
        let phase = Phase::new(
            kind,
            now,
            steps,
            (first * scale).max(0.0),
            (growth * scale).max(0.0),
            work.extra_ms * 1e6,
        );
        self.phase = Some(phase);
    }

    /// Every stream needs room for one more token; who came last gives way.
    /// True when one did.
    fn make_room_for_streams(&mut self) -> bool {
        let mut preempted = false;
        while self.room() < self.streams.len() as u64 {
            let last =
                self.streams.iter().copied().chain(self.head.map(|head| head.slot)).max_by_key(|slot| {
                    let seq = &self.seqs[*slot as usize];
                    (seq.request.priority, seq.number)
                });
            let Some(slot) = last else { break };
            self.preempt(slot);
            preempted = true;
        }
        preempted
    }

    fn preempt(&mut self, slot: u32) {
        if self.seqs[slot as usize].stage == Stage::Decoding {
            let seq = &mut self.seqs[slot as usize];
            let base = seq.base + 1 + (self.steps - seq.joined) as u32;
            self.leave(slot);
            self.seqs[slot as usize].base = base;
        } else {
            self.head = None;
        }
        self.give_back(slot);
        let seq = &mut self.seqs[slot as usize];
        seq.stage = Stage::Waiting;
        self.waiting_tokens += u64::from(seq.request.prompt);
        self.waiting.insert((seq.request.priority, seq.number), slot);
        self.preemptions += 1;
    }

    /// Admits waiting sequences in order. The first that does not fit holds
    /// back the rest, so that none starves.
    fn admit(&mut self, budget: &mut u32, work: &mut Work, kind: &mut Kind) {
        while *budget > 0 && self.has_place() {
            let Some((&key, &slot)) = self.waiting.first_key_value() else { return };
            if self.blocked == Some((key.1, self.releases)) {
                return;
            }
            let seq = &self.seqs[slot as usize];
            let (block, prompt) = (self.block_tokens, seq.request.prompt);
            let target = prompt + seq.base;
            let full = ((prompt / block) as usize).min(seq.request.chain.len());
            let chain = &seq.request.chain[..full];
            let hit = self.cache.look_up(chain, &mut self.found);
            let private = target - full as u32 * block;
            let missing = full as u64 - u64::from(hit.blocks - hit.unheld);
            if missing * u64::from(block) + u64::from(private) > self.room() {
                self.blocked = Some((key.1, self.releases));
                return;
            }
            self.blocked = None;
            // The last token is always computed: its output is what comes next.
            let cached = (hit.blocks * block).min(((target - 1) / block) * block);
            let (host, adapter) = (hit.host * block, seq.request.adapter);
            self.waiting.remove(&key);
            self.waiting_tokens -= u64::from(prompt);
            self.private += u64::from(private);
            let seq = &mut self.seqs[slot as usize];
            seq.private = private;
            let mut blocks = std::mem::take(&mut seq.blocks);
            self.cache.acquire(&seq.request.chain[..full], &self.found, &mut blocks);
            seq.blocks = blocks;
            if !std::mem::replace(&mut seq.started, true) {
                seq.cached = cached;
            }
            self.keep_within_memory();
            work.extra_ms += f64::from(host) * self.extras.host_ms_per_token + self.load_adapter(adapter);
            let pending = target - cached;
            if pending > *budget {
                self.seqs[slot as usize].stage = Stage::Reading;
                let mut head = Head { slot, done: cached, target };
                if *kind == Kind::Decode {
                    *kind = Kind::Chunks(*budget);
                } else {
                    work.prefill(*budget, cached);
                    head.done += *budget;
                    *kind = Kind::Joining;
                }
                self.head = Some(head);
                *budget = 0;
            } else {
                work.prefill(pending, cached);
                *budget -= pending;
                self.joins(slot);
                *kind = Kind::Joining;
            }
        }
    }

    fn joins(&mut self, slot: u32) {
        self.seqs[slot as usize].stage = Stage::Joining;
        self.joining.push(slot);
    }

    /// What it takes to have an adapter there, in milliseconds.
    fn load_adapter(&mut self, adapter: Option<u32>) -> f64 {
        let Some(adapter) = adapter else { return 0.0 };
        let known = self.adapters.iter().position(|other| *other == adapter);
        if let Some(at) = known {
            self.adapters.remove(at);
        } else if self.adapters.len() >= self.extras.adapter_slots.max(1) as usize {
            self.adapters.remove(0);
        }
        self.adapters.push(adapter);
        if known.is_some() { 0.0 } else { self.extras.adapter_load_ms }
    }

    fn keep_within_memory(&mut self) {
        let block = u64::from(self.block_tokens);
        while u64::from(self.cache.resident()) * block + self.private > self.total {
            if !self.cache.evict() {
                return;
            }
        }
    }

    /// The step at which the next stream ends.
    fn next_end(&mut self) -> Option<u64> {
        while let Some(&Reverse((step, number, slot))) = self.ends.peek() {
            let seq = self.seqs.get(slot as usize);
            if seq
                .is_some_and(|seq| seq.number == number && seq.stage == Stage::Decoding && seq.end() == step)
            {
                return Some(step);
            }
            self.ends.pop();
        }
        None
    }

    /// What came of a phase that is over.
    pub(super) fn end_phase(&mut self, phase: Phase, events: &mut Vec<FastEvent>) {
        self.did(&phase, phase.steps);
        self.busy += phase.end - phase.start;
        self.phase = None;
        let mut joining = std::mem::take(&mut self.joining);
        for slot in joining.drain(..) {
            self.join(slot, events);
        }
        self.joining = joining;
        while self.next_end().is_some_and(|step| step <= self.steps) {
            if let Some(Reverse((_, _, slot))) = self.ends.pop() {
                self.leave(slot);
                self.finish(slot, events);
            }
        }
        if self.steps >= self.next_scan {
            self.next_scan = self.steps + SCAN_EVERY;
            for &slot in &self.streams {
                let seq = &mut self.seqs[slot as usize];
                let tokens = seq.base + 1 + (self.steps - seq.joined) as u32;
                if tokens - seq.reported >= WORTH_TELLING {
                    seq.reported = tokens;
                    events.push(FastEvent::Progress { key: seq.request.key, tokens });
                }
            }
        }
        self.keep_within_memory();
    }

    /// A prompt is complete and its first token, or its next one, is there.
    fn join(&mut self, slot: u32, events: &mut Vec<FastEvent>) {
        let (steps, place) = (self.steps, self.streams.len() as u32);
        let seq = &mut self.seqs[slot as usize];
        let output = seq.request.output;
        if output > 0 {
            self.generated += 1;
            if seq.base == 0 {
                seq.reported = 1;
                events.push(FastEvent::First { key: seq.request.key });
            }
        }
        seq.joined = steps;
        if output <= seq.base + 1 {
            self.finish(slot, events);
            return;
        }
        seq.stage = Stage::Decoding;
        seq.place = place;
        self.context += u64::from(seq.request.prompt) + u64::from(seq.base);
        self.ends.push(Reverse((seq.end(), seq.number, slot)));
        self.streams.push(slot);
    }

    /// A sequence is complete; it is no stream any more.
    fn finish(&mut self, slot: u32, events: &mut Vec<FastEvent>) {
        let mut seq = self.seqs.remove(slot as usize);
        events.push(FastEvent::Finished { key: seq.request.key, cached: seq.cached });
        self.private -= u64::from(seq.private);
        // What was generated last has not been computed.
        let known = seq.request.prompt + seq.request.output.max(1) - 1;
        let (prompt, all) = (seq.request.prompt / self.block_tokens, known / self.block_tokens);
        let filled = (all - prompt) as usize;
        if filled > 0 && seq.blocks.len() == prompt as usize {
            let answer = &seq.request.answer[..filled.min(seq.request.answer.len())];
            self.cache.acquire(answer, &[], &mut seq.blocks);
        }
        self.cache.release(&mut seq.blocks);
        self.releases += 1;
    }
}

impl super::Seq {
    /// The step after which its last token is there.
    fn end(&self) -> u64 {
        self.joined + u64::from(self.request.output - self.base - 1)
    }
}
