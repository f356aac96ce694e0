//! Speeds learned behind small engines with continuous batching, predicted as
//! a gateway predicts them: from what it sent, not from what the engine does.

use super::*;
use crate::testing::{Lcg, at};
use crate::{DecayedSum, StepModel};

const BASE: StepModel = StepModel::H100_8B;

struct Request {
    sent: f64,
    left: f64,
    done: f64,
    context: f64,
    output: f64,
    predicted: Predicted,
    charged: f64,
    first: Option<f64>,
    prompt: f64,
}

/// An engine: FCFS chunked prefill beside the decode of all others.
struct Engine {
    truth: StepModel,
    waiting: std::collections::VecDeque<Request>,
    running: Vec<Request>,
    free_at: f64,
    // The gateway's ledger.
    pend: f64,
    context: f64,
    prefilled: DecayedSum,
    // Since the last report.
    tokens: f64,
    gaps: f64,
    expected: f64,
    clean: bool,
}

impl Engine {
    fn new(truth: StepModel) -> Engine {
        Engine {
            truth,
            waiting: Default::default(),
            running: Vec::new(),
            free_at: 0.0,
            pend: 0.0,
            context: 0.0,
            prefilled: DecayedSum::new(20.0),
            tokens: 0.0,
            gaps: 0.0,
            expected: 0.0,
            clean: true,
        }
    }

    fn send(&mut self, prompt: f64, cached: f64, output: f64, now: f64) {
        let streams = self.running.len() as f64;
        let step = BASE.step_ms(streams, self.context);
        let stretch = BASE.interference(streams, step);
        let charged = BASE.prefill_ms(prompt - cached, cached);
        let predicted =
            Predicted { wait_ms: self.pend * stretch, own_ms: charged * stretch, fixed_ms: step / 2.0 };
        self.pend += charged;
        self.clean = false;
        self.context += prompt;
        self.prefilled.add(charged, at(now / 1e3));
        self.free_at = self.free_at.max(now);
        self.waiting.push_back(Request {
            sent: now,
            left: prompt - cached,
            done: cached,
            context: prompt,
            output,
            predicted,
            charged,
            first: None,
            prompt,
        });
    }

    /// Runs steps until `now`; reports first tokens.
    fn run(&mut self, now: f64, slot: u32, speeds: &mut Speeds) {
        while self.free_at < now && !(self.waiting.is_empty() && self.running.is_empty()) {
            let streams = self.running.len() as f64;
            let mut budget = BASE.budget - streams;
            let context: f64 = self.running.iter().map(|r| r.context).sum();
            let mut ms = self.truth.a + streams * (self.truth.b + self.truth.e) + self.truth.d * context;
            let mut ready = 0;
            for request in &mut self.waiting {
                if budget <= 0.0 || request.sent > self.free_at {
                    break;
                }
                let chunk = request.left.min(budget);
                ms += chunk * (self.truth.b + self.truth.c * (request.done + chunk / 2.0));
                (request.left, request.done, budget) =
                    (request.left - chunk, request.done + chunk, budget - chunk);
                ready += usize::from(request.left <= 0.0);
            }
            self.free_at += ms;
            let predicted = BASE.tpot_ms(streams, self.context, 0.0);
            self.tokens += streams;
            self.gaps += ms * streams;
            self.expected += predicted * streams;
            for request in &mut self.running {
                request.context += 1.0;
                request.output -= 1.0;
            }
            for _ in 0..ready {
                let Some(mut request) = self.waiting.pop_front() else { break };
                self.pend = (self.pend - request.charged).max(0.0);
                request.first = Some(self.free_at);
                speeds.first_token(
                    slot,
                    self.free_at - request.sent,
                    request.predicted,
                    at(self.free_at / 1e3),
                );
                self.running.push(request);
            }
            let gone: f64 = self.running.iter().filter(|r| r.output <= 0.0).map(|r| r.prompt).sum();
            self.context -= gone;
            self.running.retain(|r| r.output > 0.0);
        }
    }

    /// Reports the tokens since the last report, if it was decoding alone.
    fn report(&mut self, now: f64, slot: u32, speeds: &mut Speeds) {
        if self.tokens > 0.0 && self.clean {
            let (observed, predicted) = (self.gaps / self.tokens, self.expected / self.tokens);
            speeds.tokens(slot, observed, predicted, self.tokens, at(now / 1e3));
        }
        self.clean = self.waiting.is_empty();
        (self.tokens, self.gaps, self.expected) = (0.0, 0.0, 0.0);
    }
}

/// Sends `rate` requests a second to each engine, half of them to the engine
/// of their group whatever its load and the rest to the one that owes least.
/// From the 60th second on the engines are as `truths` says, before as `BASE`.
fn drive(truths: &[StepModel], rate: f64, seconds: f64, seed: u64, mut seen: impl FnMut(f64, &Speeds)) {
    let mut engines: Vec<Engine> = truths.iter().map(|_| Engine::new(BASE)).collect();
    let mut speeds = Speeds::new();
    for slot in 0..truths.len() {
        speeds.join(slot as u32, 0, 1.0);
    }
    let mut rng = Lcg::new(seed);
    let n = truths.len() as f64;
    let (mut now, mut next, mut report) = (0.0, 0.0, REPORT_MS);
    while now < seconds * 1e3 {
        now += 5.0;
        while next <= now {
            next += -(1.0 - rng.unit()).ln() * 1e3 / (rate * n);
            let least = (0..truths.len()).min_by(|a, b| engines[*a].pend.total_cmp(&engines[*b].pend));
            let warm = rng.unit() < 0.5;
            let group = ((rng.unit() * rng.unit()) * n) as usize;
            let prompt = 200.0 + 4000.0 * rng.unit() * rng.unit();
            let cached = if warm { 0.7 * prompt } else { 0.0 };
            let output = 20.0 + 300.0 * rng.unit();
            engines[if warm { group } else { least.unwrap() }].send(prompt, cached, output, now);
        }
        for (slot, engine) in engines.iter_mut().enumerate() {
            if now >= 60e3 {
                engine.truth = truths[slot];
            }
            engine.run(now, slot as u32, &mut speeds);
        }
        if now >= report {
            report += REPORT_MS;
            for (slot, engine) in engines.iter_mut().enumerate() {
                engine.report(now, slot as u32, &mut speeds);
            }
            seen(now / 1e3, &speeds);
        }
    }
}

/// Milliseconds between two reports.
const REPORT_MS: f64 = 50.0;

#[test]
fn real_queues_with_nothing_wrong_read_1_up_to_saturation() {
    for rate in [0.5, 1.0, 3.0, 5.0, 8.0] {
        for seed in 0..4 {
            let (mut read, mut off) = (0, 0);
            drive(&[BASE; 8], rate, 120.0, seed, |_, speeds| {
                for slot in 0..8 {
                    read += 2;
                    off += u32::from(speeds.prefill(slot) != 1.0) + u32::from(speeds.decode(slot) != 1.0);
                }
            });
            assert!(f64::from(off) < 0.03 * f64::from(read), "{rate}/s, seed {seed}: {off} of {read}");
        }
    }
}

#[test]
fn real_queues_show_a_slow_engine() {
    // Requests a second, how slow, read as at least, within seconds.
    for (rate, slow, least, within) in
        [(3.0, 2.0, 1.7, 10.0), (3.0, 1.25, 1.12, 20.0), (5.0, 1.25, 1.12, 60.0)]
    {
        for seed in 0..4 {
            let mut truths = [BASE; 8];
            truths[6] = BASE.scaled(slow, slow);
            let (mut found, mut others_off, mut rounds) = (None, 0, 0);
            drive(&truths, rate, 120.0, seed, |t, speeds| {
                if speeds.prefill(6) >= least && speeds.decode(6) >= least {
                    found = found.or(Some(t - 60.0));
                }
                rounds += 1;
                let off = |slot: &u32| speeds.prefill(*slot) != 1.0 || speeds.decode(*slot) != 1.0;
                others_off += (0..6).filter(off).count();
            });
            let found = found.unwrap();
            assert!((0.0..within).contains(&found), "{rate}/s, {slow} times, seed {seed}: {found}");
            assert!(others_off * 20 < 6 * rounds, "{rate}/s, {slow} times, seed {seed}: {others_off}");
        }
    }
}
