//! What becomes of a request that was sent: its progress, its end, and what is
//! learned from both.

use std::time::Duration;

use forebay_core::{EndKind, Failure, Outcome, PoolId, RequestFacts, TicketId, Time};

use crate::event::{Effects, Progress};
use crate::gate::Gate;
use crate::pick::{Observed, Policy, WORK_PER_OUTPUT_TOKEN, prefill_work, total_work};
use crate::ticket::{Loading, Sending, Stage, Ticket};

/// An answer of fewer tokens says little of the time per token.
const MIN_TOKENS: u64 = 8;
/// So does a stretch of fewer.
const MIN_STRETCH: u32 = 8;
/// Whoever gives up has waited this many times as long as predicted, or it was
/// not the prediction's fault.
const GIVEN_UP: f64 = 2.0;
/// An answer is hardly ever this many times as long as its model's usual ones.
const LONGEST: f64 = 8.0;

impl Gate {
    /// Requests whose answers come whole show no first token: they are taken
    /// to have it when it was predicted.
    pub(crate) fn catch_up(&mut self, now: Time) {
        while let Some(&(at, id)) = self.unseen.first() {
            if at > now {
                return;
            }
            self.unseen.pop_first();
            if let Some(Ticket { stage: Stage::Sent(sending), .. }) = self.tickets.get_mut(id) {
                self.endpoints.first_token(sending.slot, &mut sending.charge, at);
            }
        }
    }

    pub(crate) fn progress(&mut self, now: Time, progress: Progress) {
        let Some(ticket) = self.tickets.get_mut(progress.ticket) else { return };
        let Stage::Sent(sending) = &mut ticket.stage else { return };
        let facts = &*ticket.facts;
        // What should be left after this many tokens; an answer longer than
        // estimated keeps the work of one token, so that it never looks done.
        let output = u64::from(facts.output_tokens.saturating_sub(progress.tokens).max(1));
        let left = (output * WORK_PER_OUTPUT_TOKEN).min(total_work(facts) - prefill_work(facts));
        let done = sending.charge.work_left.saturating_sub(left);
        sending.charge.work_left -= done;
        self.endpoints.reduce_work(sending.slot, done);
        if progress.tokens == 0 || !facts.stream {
            return;
        }
        if sending.first_token.is_some() {
            let (slot, from) =
                (sending.slot, std::mem::replace(&mut sending.counted, (now, progress.tokens)));
            self.learn_stretch(now, slot, from, progress.tokens);
            return;
        }
        sending.counted = (now, progress.tokens);
        self.endpoints.first_token(sending.slot, &mut sending.charge, now);
        let took = now.since(sending.at);
        sending.first_token = Some(took);
        let (sending, limit, session) = (*sending, facts.slo.ttft_ms, facts.session);
        let (pool, adapter) = (facts.pool, facts.adapter);
        let observed_ms = took.as_secs_f64() * 1e3;
        if let Some(adapter) = adapter {
            self.endpoints.residents_mut(sending.slot).answered(adapter);
        }
        if sending.loading.is_none() {
            self.endpoints.learn_first_token(sending.slot, observed_ms, sending.base, sending.met, now);
        }
        let Some(pool) = self.pool_mut(pool) else { return };
        if let Some(loading) = sending.loading.filter(|loading| loading.first) {
            pool.learned.adapter_loaded(observed_ms - f64::from(sending.ttft_ms - loading.ms));
        }
        let limit = limit.map(f64::from);
        pool.learned.errors.observe(f64::from(sending.ttft_ms), observed_ms, now);
        pool.learned.watchdog.observe(f64::from(sending.ttft_ms), observed_ms, limit, now);
        let observed = Observed {
            ttft: Some(took),
            predicted_ttft_ms: sending.ttft_ms,
            in_flight: sending.in_flight,
            failed: false,
            session,
            cost_ms: None,
            lost: false,
            met: limit.is_none_or(|limit| observed_ms <= limit),
            tokens: 0,
            note: sending.note,
        };
        pool.policy.observed(sending.slot, now, &observed);
        if let Some(shadow) = &mut pool.shadow {
            shadow.observed(sending.slot, now, &observed);
        }
    }

    pub(crate) fn end(&mut self, now: Time, id: TicketId, outcome: Option<&Outcome>, effects: &mut Effects) {
        self.unanswered(now, id, outcome);
        if let Some(outcome) = outcome {
            self.learn(now, id, outcome);
        }
        if let Some(pool) = self.drop_ticket(id, now) {
            self.wake(now, pool, effects);
        }
    }

    /// Learns from an end before what the request held is given back.
    fn learn(&mut self, now: Time, id: TicketId, outcome: &Outcome) {
        let Some(Ticket { facts, stage: Stage::Sent(sending), .. }) = self.tickets.get_mut(id) else {
            return;
        };
        let (facts, sending) = (std::sync::Arc::clone(facts), *sending);
        let failed = matches!(outcome.end, EndKind::Failed(failure) if failure.is_fault());
        let finished = outcome.end == EndKind::Finished;
        self.endpoints.count_end(sending.slot, finished, failed, now);
        let tokens = outcome.usage.map_or(0, |usage| usage.completion_tokens);
        let tpot = match sending.first_token.or(outcome.ttft) {
            Some(first) if finished && tokens >= MIN_TOKENS => {
                let rest = outcome.duration.max(first) - first;
                Some(rest.as_secs_f64() * 1e3 / (tokens - 1) as f64)
            }
            _ => None,
        };
        if let Some(observed_ms) = tpot {
            self.learn_tpot(now, &sending, facts.pool, observed_ms);
            if sending.first_token.is_some() {
                let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
                self.learn_stretch(now, sending.slot, sending.counted, tokens);
            }
        }
        if finished && !facts.stream && outcome.ttft.is_none() {
            self.learn_whole(now, &sending, &facts, outcome);
        }
        let Some(pool) = self.pool_mut(facts.pool) else { return };
        // Tokens that were only counted too: many streams never state theirs.
        if finished && tokens > 0 {
            pool.learned.finished(u32::try_from(tokens).unwrap_or(u32::MAX));
            // … but what was only counted may have been more.
            if outcome.usage.is_some_and(|usage| !usage.estimated) {
                pool.learned.output_errors.observe(f64::from(facts.output_tokens), tokens as f64, now);
            }
        }
        let weights = pool.config.weights();
        let ms = |d: Duration| d.as_secs_f32() * 1e3;
        let first = sending.first_token.or(outcome.ttft);
        let lost = matches!(outcome.end, EndKind::Failed(_));
        let limit = facts.slo.ttft_ms.unwrap_or(f32::INFINITY);
        let met = finished
            && first.is_none_or(|first| ms(first) <= limit)
            && tpot.is_none_or(|t| t <= f64::from(facts.slo.tpot_ms.unwrap_or(f32::INFINITY)));
        let cost_ms = first.filter(|_| finished).map(|first| {
            let decode = ms(outcome.duration.max(first) - first);
            let missed = if met { 0.0 } else { crate::pool::value_of(&facts, &weights) };
            weights.ttft * ms(first) + weights.decode.max(weights.harm) * decode + missed
        });
        let cost_ms =
            cost_ms.or_else(|| lost.then(|| crate::pool::lost_ms(&facts, &weights, outcome.duration)));
        let observed = Observed {
            // A stream's was told when it came.
            ttft: outcome.ttft.filter(|_| sending.first_token.is_none()),
            predicted_ttft_ms: sending.ttft_ms,
            in_flight: sending.in_flight,
            failed,
            session: facts.session,
            cost_ms,
            lost,
            met,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            note: sending.note,
        };
        if failed || cost_ms.is_some() {
            pool.policy.observed(sending.slot, now, &observed);
            if let Some(shadow) = &mut pool.shadow {
                shadow.observed(sending.slot, now, &observed);
            }
        }
    }

    /// Tokens came while the endpoint did nothing but decode: what they took is
    /// its decode speed, and nothing else.
    fn learn_stretch(&mut self, now: Time, slot: u32, from: (Time, u32), tokens: u32) {
        let (since, before) = from;
        let came = tokens.saturating_sub(before);
        let others = self.endpoints.peer(slot).requests;
        if came >= MIN_STRETCH && others == 0 && self.endpoints.row(slot).only_decoded(since) {
            let took = now.since(since).as_secs_f64() * 1e3 / f64::from(came);
            self.endpoints.learn_tokens(slot, took, came, now);
        }
    }

    /// A request ended before its first token: it would have come later still.
    /// That refutes a prediction when the request ran out of time, and when its
    /// owner had waited for twice as long as predicted. What comes whole may
    /// also be long: that has to wait for as long as the longest would.
    fn unanswered(&mut self, now: Time, id: TicketId, outcome: Option<&Outcome>) {
        let patience = match outcome.map_or(EndKind::Cancelled, |outcome| outcome.end) {
            EndKind::Failed(Failure::FirstByteTimeout | Failure::IdleTimeout | Failure::TotalTimeout) => 1.0,
            EndKind::Cancelled => GIVEN_UP,
            _ => return,
        };
        let Some(Ticket { facts, stage: Stage::Sent(sending), .. }) = self.tickets.get_mut(id) else {
            return;
        };
        if sending.first_token.is_some() || outcome.is_some_and(|outcome| outcome.ttft.is_some()) {
            return;
        }
        let waited_ms = now.since(sending.at).as_secs_f64() * 1e3;
        let (first_ms, stream, limit) = (f64::from(sending.ttft_ms), facts.stream, facts.slo.ttft_ms);
        let rest_ms = f64::from(sending.tpot_ms) * f64::from(facts.output_tokens.saturating_sub(1));
        let pool = facts.pool;
        let Some(pool) = self.pool_mut(pool) else { return };
        let watchdog = &mut pool.learned.watchdog;
        if stream && waited_ms > patience * first_ms {
            watchdog.observe(first_ms, waited_ms, limit.map(f64::from), now);
        } else if !stream && waited_ms > LONGEST * (first_ms + rest_ms) {
            watchdog.observe_whole(first_ms + rest_ms, waited_ms, now);
        }
    }

    /// An answer that came whole: what it took in all, against what was
    /// predicted for a first token and as many tokens after it.
    fn learn_whole(&mut self, now: Time, sending: &Sending, facts: &RequestFacts, outcome: &Outcome) {
        let Some(usage) = outcome.usage.filter(|usage| !usage.estimated) else { return };
        let after = usage.completion_tokens.saturating_sub(1) as f64;
        let took_ms = outcome.duration.as_secs_f64() * 1e3;
        let decode_ms = after * self.tpot_base(now, sending);
        if let Some(adapter) = facts.adapter {
            self.endpoints.residents_mut(sending.slot).answered(adapter);
        }
        let Some(pool) = self.pool_mut(facts.pool) else { return };
        let predicted_ms = f64::from(sending.ttft_ms) + after * f64::from(sending.tpot_ms);
        pool.learned.watchdog.observe_whole(predicted_ms, took_ms, now);
        let decode_ms = decode_ms * f64::from(pool.learned.gamma());
        match sending.loading {
            None => self.endpoints.learn_answer(sending.slot, took_ms, sending.base, decode_ms, now),
            Some(Loading { ms, first: true }) if predicted_ms < 2.0 * f64::from(ms) => {
                // Mostly loading: what is left over says how much of it.
                pool.learned.adapter_loaded(took_ms - (predicted_ms - f64::from(ms)));
            }
            Some(_) => {}
        }
    }

    /// The time per token at the class's own speed, by what was predicted when
    /// it was sent and what the endpoint looks like now that it ends: it lived
    /// in between.
    fn tpot_base(&self, now: Time, sending: &Sending) -> f64 {
        let row = self.endpoints.row(sending.slot);
        let model = self.endpoints.model(sending.slot);
        let (requests, context) =
            (self.endpoints.all_requests(sending.slot), self.endpoints.all_context(sending.slot));
        let share =
            self.endpoints.prefill_share(sending.slot, self.endpoints.decay(now)) / row.prefill_factor;
        let at_end = model.tpot_ms(f64::from(requests), f64::from(context), f64::from(share));
        (f64::from(sending.tpot_base_ms) + at_end) / 2.0
    }

    /// The time per token against what was expected of it.
    fn learn_tpot(&mut self, now: Time, sending: &Sending, pool: PoolId, observed_ms: f64) {
        let base = self.tpot_base(now, sending);
        let decode_factor = f64::from(self.endpoints.row(sending.slot).decode_factor);
        if let Some(pool) = self.pool_mut(pool) {
            pool.learned.tpot(observed_ms, base * decode_factor);
            pool.learned.tpot_errors.observe(f64::from(sending.tpot_ms), observed_ms, now);
        }
    }

    /// No connection could be made: the policies hear of it as of any fault.
    pub(crate) fn unreachable(&mut self, now: Time, pool: PoolId, sending: &Sending) {
        let Some(pool) = self.pool_mut(pool) else { return };
        let observed = Observed {
            ttft: None,
            predicted_ttft_ms: sending.ttft_ms,
            in_flight: sending.in_flight,
            failed: true,
            session: None,
            cost_ms: None,
            lost: false,
            met: false,
            tokens: 0,
            note: sending.note,
        };
        pool.policy.observed(sending.slot, now, &observed);
        if let Some(shadow) = &mut pool.shadow {
            shadow.observed(sending.slot, now, &observed);
        }
    }

    /// Settles a ticket: whatever it holds is given back. Returns its pool.
    pub(crate) fn drop_ticket(&mut self, id: TicketId, now: Time) -> Option<PoolId> {
        let ticket = self.tickets.remove(id)?;
        let pool = self.pools.get_mut(ticket.facts.pool.index()).and_then(Option::as_mut);
        match (ticket.stage, pool) {
            (Stage::Waiting, Some(pool)) => pool.admission.withdraw(id),
            (_, Some(pool)) => pool.admission.leave(),
            (_, None) => {}
        }
        if let Stage::Sent(sending) = ticket.stage {
            self.endpoints.done(sending.slot, &sending.charge, now);
            if !ticket.facts.stream {
                self.forget_unseen(id, &sending);
            }
        }
        Some(ticket.facts.pool)
    }

    /// Takes a request out of those whose first token nobody sees.
    pub(crate) fn forget_unseen(&mut self, id: TicketId, sending: &Sending) {
        self.unseen.remove(&(sending.unseen_at(), id));
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
