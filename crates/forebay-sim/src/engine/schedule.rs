//! One step: who computes what, and what comes of it.

use forebay_core::Time;

use super::event::EngineEvent;
use super::log::{BlockChange, BlockChanges};
use super::model::{EngineModel, Share};
use super::profile::StepWork;

impl EngineModel {
    /// Fills the batch of a step that begins at `at`. None when nothing can be
    /// computed.
    pub(super) fn begin_step(&mut self, at: Time) -> Option<StepWork> {
        self.batch.clear();
        let mut budget = self.profile.max_batched_tokens.max(1);
        let preempted = self.continue_running(at, &mut budget);
        // Memory that was just taken from a sequence is not for newcomers.
        if !preempted {
            self.admit_waiting(at, &mut budget);
        }
        let mut work = StepWork::default();
        for share in &self.batch {
            let seq = &self.seqs[share.id.slot as usize];
            if seq.decoding() {
                work.decode(seq.computed);
            } else {
                work.prefill(share.tokens, seq.computed);
            }
        }
        (!self.batch.is_empty()).then_some(work)
    }

    /// Gives every running sequence its next tokens, in order of admission.
    /// True when one lost its memory for another.
    fn continue_running(&mut self, at: Time, budget: &mut u32) -> bool {
        let mut preempted = false;
        let mut i = 0;
        while i < self.running.len() && *budget > 0 {
            let slot = self.running[i];
            let tokens = self.seqs[slot as usize].pending().min(*budget);
            let missing = self.missing_blocks(slot, tokens);
            let mut lost_itself = false;
            while self.pool.free() < missing && !lost_itself {
                let victim = self.victim(i);
                lost_itself = victim == i;
                self.preempt(victim, at);
                preempted = true;
            }
            if lost_itself {
                // The next one has moved to this index.
                continue;
            }
            self.schedule(slot, tokens);
            *budget -= tokens;
            i += 1;
        }
        preempted
    }

    /// Admits waiting sequences in order. The first one that does not fit
    /// holds back the rest, so that none starves.
    fn admit_waiting(&mut self, at: Time, budget: &mut u32) {
        while *budget > 0 && (self.running.len() as u32) < self.profile.max_num_seqs.max(1) {
            let Some((key, slot)) = self.waiting.first_key_value().map(|(k, s)| (*k, *s)) else { return };
            let seq = &self.seqs[slot as usize];
            let id = seq.id;
            if self.misfit.is_some_and(|(head, until)| head == id && self.pool.changes < until) {
                return;
            }
            // The whole prompt must fit, or chunks of many prompts would push
            // each other out without end.
            self.pool.lookup(seq.shareable(self.profile.block_size), &mut self.found);
            let shared = self.found.len() as u32;
            let needed =
                seq.known().div_ceil(self.profile.block_size) - shared + self.pool.unheld(&self.found);
            if let Some(short) = needed.checked_sub(self.pool.free()).filter(|short| *short > 0) {
                self.misfit = Some((id, self.pool.changes + u64::from(short)));
                return;
            }
            self.misfit = None;
            self.waiting.remove(&key);
            self.running.push(slot);
            for block in &self.found {
                self.pool.share(*block);
            }
            let cached_tokens = shared * self.profile.block_size;
            let seq = &mut self.seqs[slot as usize];
            seq.running = true;
            seq.table.extend_from_slice(&self.found);
            seq.computed = cached_tokens;
            if !seq.started {
                seq.started = true;
                self.totals.prefix_queries += u64::from(seq.request.prompt_tokens);
                self.totals.prefix_hits += u64::from(cached_tokens);
                self.outbox.push(EngineEvent::Started { seq: id, at, cached_tokens });
            }
            let tokens = seq.pending().min(*budget);
            self.schedule(slot, tokens);
            *budget -= tokens;
        }
    }

    /// Blocks that a sequence lacks to compute `tokens` more.
    fn missing_blocks(&self, slot: u32, tokens: u32) -> u32 {
        let seq = &self.seqs[slot as usize];
        (seq.computed + tokens).div_ceil(self.profile.block_size).saturating_sub(seq.table.len() as u32)
    }

    /// Index in `running` of the sequence that gives way: last in the queue's
    /// order of those that this step has not served yet (from `first` on, which
    /// asks and may have to give way itself).
    fn victim(&self, first: usize) -> usize {
        let key = |i: &usize| self.seqs[self.running[*i] as usize].key();
        (first..self.running.len()).max_by_key(key).unwrap_or(first)
    }

    /// Sends a running sequence back to the queue without its blocks.
    fn preempt(&mut self, index: usize, at: Time) {
        let slot = self.running.remove(index);
        let seq = &mut self.seqs[slot as usize];
        seq.running = false;
        seq.computed = 0;
        self.pool.release(&mut seq.table);
        self.waiting.insert(seq.key(), slot);
        self.totals.preemptions += 1;
        self.outbox.push(EngineEvent::Preempted { seq: seq.id, at });
    }

    /// Puts a sequence into the batch; the caller has made sure of the blocks.
    /// Blocks filled by this step can be shared from now on: whoever finds one
    /// reads it after it was written, in a later part of the same step or later.
    fn schedule(&mut self, slot: u32, tokens: u32) {
        for _ in 0..self.missing_blocks(slot, tokens) {
            let Some(block) = self.pool.allocate() else { break };
            self.seqs[slot as usize].table.push(block);
        }
        let seq = &self.seqs[slot as usize];
        let block_size = self.profile.block_size;
        let full = (seq.computed / block_size) as usize..((seq.computed + tokens) / block_size) as usize;
        let chain = &seq.request.chain;
        for (index, (block, hash)) in seq.table.iter().zip(chain).enumerate().take(full.end).skip(full.start)
        {
            if let (true, Some(log)) = (self.pool.publish(*block, *hash), &mut self.pool.log) {
                let parent = index.checked_sub(1).map(|before| chain[before]);
                log.push(BlockChange::Stored { seq: seq.id, index: index as u32, hash: *hash, parent });
            }
        }
        self.batch.push(Share { id: seq.id, tokens });
    }

    /// The results of the step that ends at `at`.
    pub(super) fn finish_step(&mut self, at: Time) {
        self.totals.steps += 1;
        if let Some(changes) = self.pool.log.as_mut().filter(|log| !log.is_empty()).map(std::mem::take) {
            self.announced.push(BlockChanges { at, changes });
        }
        let batch = std::mem::take(&mut self.batch);
        let mut ended = false;
        for share in &batch {
            // Cancelled meanwhile, and its slot perhaps taken by another.
            let Some(seq) = self.seqs.get_mut(share.id.slot as usize).filter(|s| s.id == share.id) else {
                continue;
            };
            seq.computed += share.tokens;
            if seq.pending() > 0 {
                continue;
            }
            if seq.generated == 0 {
                self.totals.prompt_tokens += u64::from(seq.request.prompt_tokens);
            }
            if seq.request.output_tokens > 0 {
                self.outbox.push(EngineEvent::Token { seq: seq.id, at, index: seq.generated });
                seq.generated += 1;
                self.totals.generation_tokens += 1;
            }
            if seq.generated >= seq.request.output_tokens {
                self.outbox.push(EngineEvent::Finished { seq: seq.id, at });
                let mut seq = self.seqs.remove(share.id.slot as usize);
                self.pool.release(&mut seq.table);
                ended = true;
            }
        }
        if ended {
            let seqs = &self.seqs;
            self.running.retain(|slot| seqs.contains(*slot as usize));
        }
        self.batch = batch;
        self.batch.clear();
    }
}
