//! Learned speeds: how much slower than its class's step model an endpoint is.

mod blend;
mod signal;

use forebay_core::Time;
use serde::{Deserialize, Serialize};

use self::signal::{Reading, Signal};

/// Milliseconds that were predicted for a request's first token, at speed 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Prefill owed there before it, stretched by running decodes, and the
    /// wait for KV memory.
    pub wait_ms: f64,
    /// Its own prefill, stretched by running decodes.
    pub own_ms: f64,
    /// What does not depend on the accelerator's speed: the network, loading
    /// an adapter, half a decode step.
    pub fixed_ms: f64,
}

/// Two learned factors per endpoint, for prefill and for decode: 1 is as its
/// class's [`StepModel`](crate::StepModel) says, 2 is twice as slow.
///
/// Each factor is a product of three parts, every one exactly 1 inside a dead
/// band of its own, because following noise costs more than it gains:
/// - the *pool's* scale: the hardware is not what the constants say. Dead band
///   [.75, 1.33].
/// - the *class's* deviation from the pool: another accelerator.
/// - the *endpoint's* deviation from its class: a throttled accelerator, a
///   noisy neighbour, an accelerator that nobody named. Between .25 and 6 times
///   its class.
///
/// Pool and class are represented by the 25th percentile of their endpoints,
/// so that up to three quarters of them may be slow. An endpoint without
/// evidence of its own reads as its class does, times its prior; evidence
/// counts in full after about ten samples and fades in minutes without any, so
/// that an endpoint that was avoided is tried again.
///
/// One observation costs O(1). The percentiles are taken again at most every
/// 250 ms of the time passed in, in O(endpoints).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    members: Vec<Option<Member>>,
    prefill: Signal,
    decode: Signal,
    prefill_out: Vec<f64>,
    decode_out: Vec<f64>,
    refreshed_ns: Option<u64>,
}

/// What is known of an endpoint beside the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Member {
    class: u16,
    /// Logarithm of the factor expected while there is no evidence.
    prior: f64,
    /// When it last reported tokens.
    tokens_ns: Option<u64>,
}

/// How an endpoint's factors came about, for explanations and metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedReport {
    /// The factors in use.
    pub prefill: f64,
    /// The factors in use.
    pub decode: f64,
    /// Observed over predicted as measured, relative to the class's step
    /// model, before dead bands and normalisation.
    pub measured_prefill: f64,
    /// As `measured_prefill`, of the time per token.
    pub measured_decode: f64,
    /// First tokens' worth of evidence behind it, 0 to 30.
    pub prefill_evidence: f64,
    /// Quarter seconds of decoding behind it, 0 to 30.
    pub decode_evidence: f64,
}

/// Tokens that make a full sample of decode speed.
const FULL_TOKENS: f64 = 25.0;
/// At most one full decode sample in this many seconds: reports that come
/// faster see the same steps.
const FULL_SECONDS: f64 = 0.25;

/// Half the dead band of the prefill factor where there is much evidence, and
/// none from decoding, which would show a smaller difference better: the
/// queue's prediction errs with the load.
const PREFILL_NARROW: f64 = 0.2;
/// The same of the decode factor: ln 1.09.
const DECODE_NARROW: f64 = 0.086;
/// Nanoseconds between two takings of the percentiles.
const REFRESH_NS: u64 = 250_000_000;

impl Default for Speeds {
    fn default() -> Self {
        Self::new()
    }
}

impl Speeds {
    /// No endpoints.
    pub fn new() -> Speeds {
        Speeds {
            members: Vec::new(),
            prefill: Signal::new(PREFILL_NARROW),
            decode: Signal::new(DECODE_NARROW),
            prefill_out: Vec::new(),
            decode_out: Vec::new(),
            refreshed_ns: None,
        }
    }

    /// An endpoint takes `slot`. `class` says which endpoints are alike (the
    /// accelerator; one class per pool where it is unknown). `prior_speed` is
    /// how fast the operator says it is compared with its class: 1 as fast,
    /// 2 twice as fast; taken for 1 unless finite and above 0.
    pub fn join(&mut self, slot: u32, class: u16, prior_speed: f64) {
        self.leave(slot);
        let index = slot as usize;
        if index >= self.members.len() {
            self.members.resize(index + 1, None);
            self.prefill_out.resize(index + 1, 1.0);
            self.decode_out.resize(index + 1, 1.0);
        }
        let usable = prior_speed.is_finite() && prior_speed > 0.0;
        let prior = if usable { blend::within_class(-prior_speed.ln()) } else { 0.0 };
        self.members[index] = Some(Member { class, prior, tokens_ns: None });
        for signal in [&mut self.prefill, &mut self.decode] {
            signal.join(index, class);
        }
        self.publish(index);
    }

    /// The endpoint of `slot` is gone; it reads 1 again.
    pub fn leave(&mut self, slot: u32) {
        let index = slot as usize;
        if let Some(member) = self.members.get_mut(index).and_then(Option::take) {
            self.prefill.leave(index, member.class);
            self.decode.leave(index, member.class);
            (self.prefill_out[index], self.decode_out[index]) = (1.0, 1.0);
        }
    }

    /// The endpoint of `slot` restarted: what was learned of it is void.
    pub fn reset(&mut self, slot: u32) {
        if let Some(Some(member)) = self.members.get(slot as usize).copied() {
            self.join(slot, member.class, (-member.prior).exp());
        }
    }

    /// A first token came `observed_ms` after dispatch. Ignored unless the
    /// observation is finite and above 0 and the prediction finite and not
    /// below 0.
    ///
    /// The network, adapters and the phase of the engine's loop do not scale
    /// with speed: the less of the prediction does, the less it counts.
    pub fn first_token(&mut self, slot: u32, observed_ms: f64, predicted: Predicted, now: Time) {
        let Predicted { wait_ms, own_ms, fixed_ms } = predicted;
        let usable = |x: f64| x.is_finite() && (0.0..1e9).contains(&x);
        let scaled = wait_ms + own_ms;
        if !(usable(observed_ms) && usable(wait_ms) && usable(own_ms) && usable(fixed_ms))
            || observed_ms <= 0.0
            || scaled < MIN_SCALED_MS
        {
            return;
        }
        // Never below a tenth: a remainder near zero says that it was fast, not how fast.
        let rest = (observed_ms - fixed_ms).max(0.1 * scaled);
        let blur = (FIXED_BLUR * fixed_ms + TIMER_MS) / scaled;
        let weight = MODEL_BLUR * MODEL_BLUR / (MODEL_BLUR * MODEL_BLUR + blur * blur);
        if let Some((index, member)) = self.member(slot) {
            let ratio = (rest / scaled).ln();
            self.prefill.vouch(index, &self.decode);
            self.prefill.observe(index, member.class, member.prior, ratio, weight, now);
            self.after(index, now);
        }
    }

    /// `tokens` tokens came at `observed_ms_per_token` on average over the
    /// streams of an endpoint, where `predicted_ms_per_token` was expected at
    /// speed 1. Ignored unless both are finite and above 0 and `tokens` is.
    ///
    /// Report only stretches in which the endpoint decoded alone, that is while
    /// nothing sent there waited for its first token, and predict them by
    /// [`StepModel::step_ms`](crate::StepModel::step_ms). Prefill shares its
    /// steps with decode, comes in bursts that last seconds, and would be taken
    /// for a slow endpoint: with it in the reports, a simulated pool with
    /// nothing wrong reads something other than 1 a third of the time, without
    /// it a hundredth.
    pub fn tokens(
        &mut self,
        slot: u32,
        observed_ms_per_token: f64,
        predicted_ms_per_token: f64,
        tokens: f64,
        now: Time,
    ) {
        let usable = |x: f64| x.is_finite() && x > 0.0 && x < 1e9;
        if !(usable(observed_ms_per_token) && usable(predicted_ms_per_token) && usable(tokens)) {
            return;
        }
        let Some((index, mut member)) = self.member(slot) else { return };
        let since = member.tokens_ns.map_or(FULL_SECONDS, |ns| crate::decay::seconds_since(now, ns));
        member.tokens_ns = Some(now.as_nanos());
        self.members[index] = Some(member);
        let weight = (tokens / FULL_TOKENS).min(1.0) * (since / FULL_SECONDS).min(1.0);
        let ratio = (observed_ms_per_token / predicted_ms_per_token).ln();
        self.decode.observe(index, member.class, member.prior, ratio, weight, now);
        self.after(index, now);
    }

    /// A whole answer took `observed_ms`, of which nobody saw the first token.
    /// `predicted` is what was expected until then and `decode_ms` what was for
    /// the tokens after it, at speed 1. Ignored unless the observation is finite
    /// and above 0 and the others finite and not below 0.
    ///
    /// One number cannot tell prefill from decode: it says how far both are
    /// from what they are taken to be now, each the less the smaller its part
    /// was. Much else went into it, so that it counts for less than a first
    /// token or a stretch of tokens, and shows an endpoint slower than its class
    /// but never faster.
    pub fn answer(&mut self, slot: u32, observed_ms: f64, predicted: Predicted, decode_ms: f64, now: Time) {
        let Predicted { wait_ms, own_ms, fixed_ms } = predicted;
        let usable = |x: f64| x.is_finite() && (0.0..1e9).contains(&x);
        let all = [observed_ms, wait_ms, own_ms, fixed_ms, decode_ms];
        let Some((index, member)) = self.member(slot) else { return };
        let (prefill, decode) = (self.prefill(slot), self.decode(slot));
        let scaled = (wait_ms + own_ms) * prefill + decode_ms * decode;
        if !all.into_iter().all(usable) || observed_ms <= 0.0 || scaled < MIN_SCALED_MS {
            return;
        }
        let since = member.tokens_ns.map_or(FULL_SECONDS, |ns| crate::decay::seconds_since(now, ns));
        let off = ((observed_ms - fixed_ms).max(0.1 * scaled) / scaled).ln();
        let blur = (FIXED_BLUR * fixed_ms + TIMER_MS) / scaled;
        let weight = WHOLE * MODEL_BLUR * MODEL_BLUR / (MODEL_BLUR * MODEL_BLUR + blur * blur);
        let share = (wait_ms + own_ms) * prefill / scaled;
        let (class, prior) = (member.class, member.prior);
        let of_prefill = weight * share * share;
        let of_decode = weight * (1.0 - share) * (1.0 - share) * (since / FULL_SECONDS).min(1.0);
        if of_prefill > WHOLE_LEAST {
            self.prefill.vouch(index, &self.decode);
            self.prefill.observe_slowness(index, class, prior, off + prefill.ln(), of_prefill, now);
        }
        if of_decode > WHOLE_LEAST {
            // Not where it counts for nothing: answers may come faster than that.
            self.members[index] = Some(Member { tokens_ns: Some(now.as_nanos()), ..member });
            self.decode.observe_slowness(index, class, prior, off + decode.ln(), of_decode, now);
        }
        self.refresh(now);
    }

    /// How many times as slow as its class's step model the endpoint's prefill
    /// is: multiply predicted prefill and wait by it. 1 for a free slot.
    pub fn prefill(&self, slot: u32) -> f64 {
        self.prefill_out.get(slot as usize).copied().unwrap_or(1.0)
    }

    /// As [`prefill`](Self::prefill), for decode steps.
    pub fn decode(&self, slot: u32) -> f64 {
        self.decode_out.get(slot as usize).copied().unwrap_or(1.0)
    }

    /// The endpoint's own part of the two factors, prefill and decode: how many
    /// times as slow as the others of its class it is. (1, 1) for a free slot.
    pub fn deviation(&self, slot: u32) -> (f64, f64) {
        let Some((index, member)) = self.member(slot) else { return (1.0, 1.0) };
        let (prefill, decode) = self.readings(index, &member);
        let logs = blend::deviations(&prefill, &decode);
        (logs.0.exp(), logs.1.exp())
    }

    /// Takes the percentiles again when 250 ms have passed since it was done
    /// last. Observations do this by themselves; a timer should where
    /// endpoints may be idle, so that old evidence fades.
    pub fn refresh(&mut self, now: Time) {
        let due = self.refreshed_ns.is_none_or(|ns| now.as_nanos().saturating_sub(ns) >= REFRESH_NS);
        if due {
            self.refreshed_ns = Some(now.as_nanos());
            self.decode.refresh(now);
            for index in 0..self.members.len() {
                self.prefill.vouch(index, &self.decode);
            }
            self.prefill.refresh(now);
            for index in 0..self.members.len() {
                self.publish(index);
            }
        }
    }

    /// The step model of `class` was replaced by one whose prefill takes
    /// `prefill_by` and whose decode step takes `decode_by` times as long:
    /// what was learned relative to the old one is carried over.
    pub fn rebase(&mut self, class: u16, prefill_by: f64, decode_by: f64) {
        for (signal, by) in [(&mut self.prefill, prefill_by), (&mut self.decode, decode_by)] {
            if by.is_finite() && by > 0.0 {
                signal.rebase(class, -by.ln());
            }
        }
        for index in 0..self.members.len() {
            self.publish(index);
        }
    }

    /// How the factors of `slot` came about; `None` for a free slot.
    pub fn report(&self, slot: u32, now: Time) -> Option<SpeedReport> {
        let (index, _) = self.member(slot)?;
        Some(SpeedReport {
            prefill: self.prefill(slot),
            decode: self.decode(slot),
            measured_prefill: self.prefill.evidence(index).mean().exp(),
            measured_decode: self.decode.evidence(index).mean().exp(),
            prefill_evidence: self.prefill.evidence(index).known_at(now),
            decode_evidence: self.decode.evidence(index).known_at(now),
        })
    }

    fn member(&self, slot: u32) -> Option<(usize, Member)> {
        let index = slot as usize;
        self.members.get(index).copied().flatten().map(|member| (index, member))
    }

    fn readings(&self, index: usize, member: &Member) -> (Reading, Reading) {
        let of = |signal: &Signal| signal.reading(index, member.class, member.prior);
        (of(&self.prefill), of(&self.decode))
    }

    fn after(&mut self, index: usize, now: Time) {
        self.refresh(now);
        self.publish(index);
    }

    fn publish(&mut self, index: usize) {
        if let Some(member) = self.members[index] {
            let (prefill, decode) = self.readings(index, &member);
            (self.prefill_out[index], self.decode_out[index]) = blend::factors(&prefill, &decode);
        }
    }
}

/// What a whole answer counts for beside a first token or a stretch of tokens.
const WHOLE: f64 = 0.3;
/// What counts for less than that is not worth looking at.
const WHOLE_LEAST: f64 = 0.01;
/// Predictions with less than this many milliseconds that scale say nothing.
const MIN_SCALED_MS: f64 = 0.5;
/// Standard deviation of an observed TTFT over its prediction, in logarithms,
/// when all is right: the queue is never known exactly.
const MODEL_BLUR: f64 = 0.25;
/// The fixed part is off by about this share of itself (half a step is
/// anything between none and a whole one).
const FIXED_BLUR: f64 = 0.6;
/// And by this many milliseconds on both hosts that no model knows of: a first
/// token of a cached prompt is mostly that.
const TIMER_MS: f64 = 8.0;

#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod tests;
