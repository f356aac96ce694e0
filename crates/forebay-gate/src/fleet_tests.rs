//! What a Gate learns from a small fleet that answers it, and what follows from
//! that.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::*;
use forebay_predict::StepModel;
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::*;

const POOL: PoolId = PoolId(0);

fn at(ms: f64) -> Time {
    Time::from_nanos(1_000_000_000_000 + (ms * 1e6) as u64)
}

/// A request at its engine.
#[derive(Clone, Debug)]
struct Work {
    ticket: TicketId,
    sent_ms: f64,
    first_ms: f64,
    stream: bool,
    adapter: Option<ModelId>,
    /// Prompt tokens to compute, and tokens of context.
    left: f64,
    context: f64,
    /// Tokens of the answer to come, and how many it has in all.
    to_come: u32,
    tokens: u32,
}

/// An engine with continuous batching: in each step one token for every stream,
/// and what is left of its budget for the prompts that came first.
#[derive(Clone, Debug)]
struct Engine {
    model: StepModel,
    /// Times as slow as predicted: prompts, and all else.
    slow: (f64, f64),
    /// What loading an adapter takes.
    load_ms: f64,
    waiting: VecDeque<Work>,
    running: Vec<Work>,
    /// When its step is done, and how many of those that wait have their first token then.
    step: Option<(f64, usize)>,
    adapters: BTreeSet<ModelId>,
    loads: usize,
    picked: usize,
}

impl Engine {
    fn new(slow: f64) -> Engine {
        Engine {
            model: StepModel::guess("", ""),
            slow: (slow, slow),
            load_ms: 1_000.0,
            waiting: VecDeque::new(),
            running: Vec::new(),
            step: None,
            adapters: BTreeSet::new(),
            loads: 0,
            picked: 0,
        }
    }

    fn begin_step(&mut self, now_ms: f64) {
        if self.waiting.is_empty() && self.running.is_empty() {
            self.step = None;
            return;
        }
        let m = &self.model;
        let streams = self.running.len() as f64;
        let context: f64 = self.running.iter().map(|work| work.context).sum();
        let mut budget = m.budget - streams;
        let (mut prefill, mut load, mut ready) = (0.0, 0.0, 0);
        for work in &mut self.waiting {
            if budget <= 0.0 {
                break;
            }
            if work.adapter.is_some_and(|adapter| self.adapters.insert(adapter)) {
                self.loads += 1;
                load += self.load_ms;
            }
            let chunk = work.left.min(budget);
            prefill += m.prefill_ms(chunk, work.context - work.left);
            work.left -= chunk;
            budget -= chunk;
            ready += usize::from(work.left <= 0.0);
        }
        let took = prefill * self.slow.0 + m.step_ms(streams, context) * self.slow.1 + load;
        self.step = Some((now_ms + took, ready));
    }
}

struct Fleet {
    gate: Gate,
    ids: Vec<EndpointId>,
    engines: Vec<Engine>,
    now_ms: f64,
    rng: Pcg64Mcg,
}

impl Fleet {
    fn new(config: PoolConfig, slow: &[f64]) -> Fleet {
        let mut gate = Gate::new(1);
        gate.apply(at(0.0), Event::Configure(POOL, config));
        let join = |i: usize| {
            let facts = EndpointFacts::named(format!("http://e{i}"));
            gate.apply(at(0.0), Event::Join(POOL, facts, EndpointState::Ready)).joined.unwrap()
        };
        let ids = (0..slow.len()).map(join).collect();
        let engines = slow.iter().map(|slow| Engine::new(*slow)).collect();
        Fleet { gate, ids, engines, now_ms: 0.0, rng: Pcg64Mcg::seed_from_u64(7) }
    }

    /// A request of a thousand tokens or so.
    fn request(&mut self) -> RequestFacts {
        RequestFacts {
            pool: POOL,
            prompt_tokens: self.rng.random_range(500..2000),
            output_tokens: 100,
            stream: true,
            ..RequestFacts::default()
        }
    }

    fn submit(&mut self, facts: RequestFacts) {
        let Verdict::Go(decision) = self.gate.submit(at(self.now_ms), Arc::new(facts.clone())) else {
            panic!("nothing is full");
        };
        let number = self.ids.iter().position(|id| *id == decision.endpoint).unwrap();
        let tokens = self.rng.random_range(50..150);
        let engine = &mut self.engines[number];
        engine.picked += 1;
        engine.waiting.push_back(Work {
            ticket: decision.ticket,
            sent_ms: self.now_ms,
            first_ms: 0.0,
            stream: facts.stream,
            adapter: facts.adapter,
            left: f64::from(facts.prompt_tokens),
            context: f64::from(facts.prompt_tokens),
            to_come: tokens,
            tokens,
        });
        if engine.step.is_none() {
            engine.begin_step(self.now_ms);
        }
    }

    /// What the engines do until then.
    fn run_until(&mut self, until_ms: f64) {
        loop {
            let ends = |engine: &Engine| engine.step.map_or(f64::INFINITY, |(end, _)| end);
            let next = (0..self.engines.len())
                .min_by(|a, b| ends(&self.engines[*a]).total_cmp(&ends(&self.engines[*b])));
            let Some(number) = next.filter(|n| ends(&self.engines[*n]) <= until_ms) else { break };
            self.end_step(number);
        }
        self.now_ms = self.now_ms.max(until_ms);
    }

    fn end_step(&mut self, number: usize) {
        let engine = &mut self.engines[number];
        let Some((end_ms, ready)) = engine.step else { return };
        self.now_ms = self.now_ms.max(end_ms);
        for work in &mut engine.running {
            work.to_come -= 1;
            work.context += 1.0;
        }
        let mut begun = Vec::new();
        for mut work in engine.waiting.drain(..ready).collect::<Vec<_>>() {
            (work.first_ms, work.to_come) = (self.now_ms, work.to_come - 1);
            begun.extend(work.stream.then_some(Progress { ticket: work.ticket, tokens: 1 }));
            engine.running.push(work);
        }
        let ended: Vec<Work> = engine.running.iter().filter(|work| work.to_come == 0).cloned().collect();
        engine.running.retain(|work| work.to_come > 0);
        engine.begin_step(self.now_ms);
        if !begun.is_empty() {
            self.gate.apply(at(self.now_ms), Event::Progress(begun));
        }
        for work in ended {
            let ms = |ms: f64| Duration::from_secs_f64(ms * 1e-3);
            let outcome = Outcome {
                end: EndKind::Finished,
                ttft: work.stream.then(|| ms(work.first_ms - work.sent_ms)),
                duration: ms(self.now_ms - work.sent_ms),
                usage: Some(Usage { completion_tokens: work.tokens.into(), ..Usage::default() }),
            };
            self.gate.apply(at(self.now_ms), Event::Outcome(work.ticket, outcome));
        }
    }

    /// So many requests a second for so long; returns who got how many.
    fn serve(
        &mut self,
        seconds: f64,
        per_second: f64,
        mut of: impl FnMut(RequestFacts) -> RequestFacts,
    ) -> Vec<usize> {
        for engine in &mut self.engines {
            engine.picked = 0;
        }
        let end_ms = self.now_ms + seconds * 1e3;
        let mut next_ms = self.now_ms;
        while next_ms < end_ms {
            self.run_until(next_ms);
            let facts = self.request();
            self.submit(of(facts));
            next_ms += -(1.0 - self.rng.random::<f64>()).ln() * 1e3 / per_second;
        }
        self.run_until(end_ms);
        self.engines.iter().map(|engine| engine.picked).collect()
    }

    fn factors(&self, number: usize) -> (f64, f64) {
        let speed = self.gate.load(self.ids[number]).unwrap().speed;
        (speed.prefill_factor, speed.decode_factor)
    }

    fn pool(&self) -> PoolLoad {
        self.gate.pool(POOL, at(self.now_ms)).unwrap()
    }

    fn adapter_load_ms(&self) -> f64 {
        f64::from(self.gate.pools[0].as_ref().unwrap().learned.adapter_load_ms())
    }
}

fn whole(facts: RequestFacts) -> RequestFacts {
    RequestFacts { stream: false, ..facts }
}

#[test]
fn answers_that_come_whole_show_an_engine_at_half_speed() {
    let mut fleet = Fleet::new(PoolConfig::default(), &[1.0, 1.0, 2.0, 1.0]);
    let first = fleet.serve(5.0, 40.0, whole);
    fleet.serve(115.0, 40.0, whole);
    let (prefill, decode) = fleet.factors(2);
    assert!((1.6..2.4).contains(&prefill) && (1.6..2.4).contains(&decode), "{prefill} {decode}");
    for number in [0, 1, 3] {
        let (prefill, decode) = fleet.factors(number);
        assert!((0.8..1.25).contains(&prefill) && (0.8..1.25).contains(&decode), "{prefill} {decode}");
    }
    let then = fleet.serve(60.0, 40.0, whole);
    let share = |counts: &[usize]| counts[2] as f64 * 4.0 / counts.iter().sum::<usize>() as f64;
    assert!(share(&then) < 0.7 && share(&then) < 0.8 * share(&first), "{first:?} {then:?}");
    assert!(!fleet.pool().fallback);
}

#[test]
fn answers_that_come_whole_teach_nothing_where_nothing_is_wrong() {
    let mut fleet = Fleet::new(PoolConfig::default(), &[1.0; 4]);
    for per_second in [2.0, 12.0, 40.0] {
        let mut off = 0;
        fleet.serve(30.0, per_second, whole);
        for _ in 0..100 {
            fleet.serve(1.0, per_second, whole);
            off += (0..4).filter(|number| fleet.factors(*number) != (1.0, 1.0)).count();
        }
        assert!(off < 20, "{off} of 400 at {per_second}/s");
        assert!(!fleet.pool().fallback);
    }
}

/// An endpoint is `slow` until that is believed, and then as fast as the others;
/// its shares of a fair one after that, minute by minute, until it has half of it.
fn minutes_of_mistrust(slow: (f64, f64), per_second: f64) -> Vec<f64> {
    let mut fleet = Fleet::new(PoolConfig::default(), &[1.0; 4]);
    let stream = |facts| facts;
    fleet.serve(30.0, per_second, stream);
    fleet.engines[0].slow = slow;
    let mut worst = 1.0_f64;
    for _ in 0..60 {
        fleet.serve(1.0, per_second, stream);
        worst = worst.max(fleet.factors(0).0);
        if worst >= 2.5 {
            break;
        }
    }
    fleet.engines[0].slow = (1.0, 1.0);
    assert!(worst > 1.6, "it has to be believed: {worst}");
    let mut shares = Vec::new();
    while shares.len() < 15 && shares.last().is_none_or(|share| *share < 0.5) {
        let counts = fleet.serve(60.0, per_second, stream);
        shares.push(counts[0] as f64 * 4.0 / counts.iter().sum::<usize>() as f64);
    }
    shares
}

#[test]
fn an_endpoint_that_was_taken_for_slow_by_mistake_is_used_again() {
    for slow in [(4.0, 1.0), (4.0, 4.0)] {
        for per_second in [2.0, 4.0, 10.0] {
            let shares = minutes_of_mistrust(slow, per_second);
            assert!(shares.len() <= 4, "{slow:?} {per_second}/s: {shares:?}");
        }
    }
}

#[test]
fn what_an_adapter_takes_to_load_is_learned_and_teaches_no_speed() {
    for load_ms in [50.0, 4_000.0] {
        let mut fleet = Fleet::new(PoolConfig::default(), &[1.0; 4]);
        fleet.engines.iter_mut().for_each(|engine| engine.load_ms = load_ms);
        let mut next = 0;
        // Every adapter is new, so that every request loads one.
        fleet.serve(240.0, 0.5, |facts| {
            next += 1;
            RequestFacts { adapter: Some(ModelId(next)), ..facts }
        });
        let learned = fleet.adapter_load_ms();
        assert!((0.6..1.6).contains(&(learned / load_ms)), "{load_ms}: {learned}");
        for number in 0..4 {
            assert_eq!(fleet.factors(number).0, 1.0, "{load_ms}");
        }
    }
}

#[test]
fn those_who_wait_for_the_same_adapter_teach_no_speed_either() {
    let mut fleet = Fleet::new(PoolConfig::default(), &[1.0; 2]);
    fleet.engines.iter_mut().for_each(|engine| engine.load_ms = 20_000.0);
    fleet.serve(10.0, 4.0, asks(1));
    fleet.run_until(fleet.now_ms + 60_000.0);
    assert_eq!((fleet.factors(0).0, fleet.factors(1).0), (1.0, 1.0));
    // Now that it is there, they do.
    fleet.engines[1].slow = (3.0, 3.0);
    fleet.serve(60.0, 20.0, asks(1));
    assert!(fleet.factors(1).0 > 1.5, "{:?}", fleet.factors(1));
}

/// A request for that adapter.
fn asks(adapter: u32) -> impl Fn(RequestFacts) -> RequestFacts {
    move |facts| RequestFacts { adapter: Some(ModelId(adapter)), ..facts }
}

#[test]
fn a_hot_adapter_spreads_as_its_load_grows() {
    let mut spread = Vec::new();
    for per_second in [1.0, 40.0] {
        let mut fleet = Fleet::new(PoolConfig::default(), &[1.0; 4]);
        fleet.serve(5.0, 1.0, asks(1));
        let counts = fleet.serve(60.0, per_second, asks(1));
        spread.push(counts.iter().filter(|count| **count * 20 > counts.iter().sum::<usize>()).count());
        let loads: usize = fleet.engines.iter().map(|engine| engine.loads).sum();
        assert!(loads <= 4, "loaded once for each endpoint at most: {loads}");
    }
    assert!(spread[0] == 1 && spread[1] >= 3, "{spread:?}");
}

#[test]
fn cold_adapters_stay_where_they_are() {
    let mut fleet = Fleet::new(PoolConfig::default(), &[1.0; 4]);
    // A dozen that share the load: more than one endpoint holds, fewer than all do.
    let mut next = 0;
    let mut turn = |facts| {
        next += 1;
        asks(next % 12)(facts)
    };
    fleet.serve(60.0, 4.0, &mut turn);
    let settled: usize = fleet.engines.iter().map(|engine| engine.loads).sum();
    fleet.serve(240.0, 4.0, &mut turn);
    let loads: usize = fleet.engines.iter().map(|engine| engine.loads).sum();
    assert!(settled <= 24, "{settled}");
    assert!(loads - settled <= 6, "{} more in four minutes", loads - settled);
}

#[test]
fn an_operators_cost_is_not_taken_for_time() {
    for policy in [PolicyKind::Predictive, PolicyKind::LeastLatency, PolicyKind::LeastQueue] {
        let mut fleet = Fleet::new(PoolConfig { policy, ..PoolConfig::default() }, &[1.0; 4]);
        // Everything costs a second more, and half of the endpoints another one.
        let ids = fleet.ids.clone();
        let costs: Vec<CandidateCost> = ids
            .iter()
            .enumerate()
            .map(|(i, id)| CandidateCost {
                endpoint: *id,
                cost_ms: Some(if i < 2 { 1_000.0 } else { 2_000.0 }),
            })
            .collect();
        let ruled = |facts| RequestFacts { costs: costs.clone(), ..facts };
        fleet.serve(60.0, 2.0, ruled);
        let counts = fleet.serve(60.0, 2.0, ruled);
        let pool = fleet.pool();
        let error = pool.ttft_error.unwrap();
        assert!(!pool.fallback && error.mean < 1.6, "{policy}: {error:?}");
        for number in 0..4 {
            assert_eq!(fleet.factors(number), (1.0, 1.0), "{policy}");
        }
        let (near, far) = (counts[0] + counts[1], counts[2] + counts[3]);
        assert!(near > 3 * far, "{policy}: the cost still counts: {counts:?}");
    }
}

/// A pool whose requests end as `end` says, so many a second, until it falls back.
fn falls_back(stream: bool, mut end: impl FnMut(&mut Gate, f64, TicketId)) -> bool {
    let mut gate = Gate::new(1);
    gate.apply(at(0.0), Event::Configure(POOL, PoolConfig::default()));
    for name in ["a", "b"] {
        gate.apply(at(0.0), Event::Join(POOL, EndpointFacts::named(name), EndpointState::Ready));
    }
    for i in 0..120 {
        let now_ms = f64::from(i) * 500.0;
        let facts = RequestFacts {
            pool: POOL,
            prompt_tokens: 1_000,
            output_tokens: 20,
            stream,
            slo: Slo { ttft_ms: Some(2_000.0), tpot_ms: None },
            ..RequestFacts::default()
        };
        let Verdict::Go(decision) = gate.submit(at(now_ms), Arc::new(facts)) else { panic!("it is open") };
        end(&mut gate, now_ms, decision.ticket);
        if gate.pool(POOL, at(now_ms)).unwrap().fallback {
            return true;
        }
    }
    false
}

#[test]
fn requests_that_never_get_a_first_token_break_predictions_too() {
    let failed = |failure| {
        move |gate: &mut Gate, now_ms: f64, ticket| {
            let took = Duration::from_secs(30);
            let outcome = Outcome::without_answer(EndKind::Failed(failure), took);
            gate.apply(at(now_ms + 30_000.0), Event::Outcome(ticket, outcome));
        }
    };
    for stream in [true, false] {
        assert!(falls_back(stream, failed(Failure::FirstByteTimeout)), "{stream}");
        // Their owners waited for long …
        let given_up = |gate: &mut Gate, now_ms: f64, ticket| {
            gate.apply(at(now_ms + 10_000.0), Event::Cancelled(ticket));
        };
        assert!(falls_back(stream, given_up), "{stream}");
        // … or left at once: that says nothing, and neither does an endpoint that breaks off.
        let left = |gate: &mut Gate, now_ms: f64, ticket| {
            gate.apply(at(now_ms + 20.0), Event::Cancelled(ticket));
        };
        assert!(!falls_back(stream, left), "{stream}");
        assert!(!falls_back(stream, failed(Failure::Reset)), "{stream}");
    }
}

#[test]
fn a_version_for_few_requests_is_priced_as_the_pool_is() {
    let mut gate = Gate::new(1);
    gate.apply(at(0.0), Event::Configure(POOL, PoolConfig::default()));
    let mut slow = None;
    for i in 0..10 {
        let facts = EndpointFacts {
            version: Some(VersionId(u32::from(i == 9))),
            accelerator: (i == 9).then(|| "A100".to_owned()),
            ..EndpointFacts::named(format!("http://e{i}"))
        };
        slow = gate.apply(at(0.0), Event::Join(POOL, facts, EndpointState::Ready)).joined;
    }
    // One in ten asks for the other version, which one of ten endpoints has.
    let mut prices = [Vec::new(), Vec::new()];
    for i in 0..400u32 {
        let now_ms = f64::from(i) * 100.0;
        let version = u32::from(i % 10 == 9);
        let facts = RequestFacts {
            pool: POOL,
            prompt_tokens: 1_000,
            output_tokens: 100,
            stream: true,
            version: Some(VersionId(version)),
            ..RequestFacts::default()
        };
        let Verdict::Go(decision) = gate.submit(at(now_ms), Arc::new(facts)) else { panic!("it is open") };
        assert_eq!(Some(decision.endpoint) == slow, version == 1);
        let terms = gate.decisions(1).next().unwrap().top().next().unwrap().terms;
        prices[version as usize].push(terms.price_ms / terms.capacity_ms);
        // The fastest of the pool, whoever asked last.
        let learned = &gate.pools[0].as_ref().unwrap().learned;
        assert!(f64::from(learned.fastest()) < 1.01 * StepModel::guess("", "").b, "{}", learned.fastest());
        let usage = Usage { completion_tokens: 100, ..Usage::default() };
        let (ttft, took) = (Duration::from_millis(40), Duration::from_millis(90));
        let outcome = Outcome {
            ttft: Some(ttft),
            usage: Some(usage),
            ..Outcome::without_answer(EndKind::Finished, took)
        };
        gate.apply(at(now_ms + 90.0), Event::Outcome(decision.ticket, outcome));
    }
    let mean = |prices: &[f32]| prices.iter().sum::<f32>() / prices.len() as f32;
    let (of_many, of_few) = (mean(&prices[0]), mean(&prices[1]));
    assert!((0.5..2.0).contains(&(of_few / of_many)), "{of_few} for few, {of_many} for many");
}

#[test]
fn what_was_learned_of_an_engine_ends_with_it() {
    let mut fleet = Fleet::new(PoolConfig::default(), &[1.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    let id = fleet.ids[1];
    let slot = id.slot;
    let tell = |fleet: &mut Fleet, event| {
        fleet.gate.apply(at(fleet.now_ms), event);
    };
    tell(&mut fleet, Event::Network(id, Duration::from_millis(2)));
    let report = LoadReport { kv_tokens: Some(5_000), ..LoadReport::default() };
    tell(&mut fleet, Event::Report(id, report));
    fleet.serve(60.0, 80.0, |facts| facts);
    let before = fleet.factors(1).0;
    assert!(before > 2.0, "{before}");
    let memory = |fleet: &Fleet| fleet.gate.endpoints.row(slot).inverse_memory;
    assert_eq!(memory(&fleet), 1.0 / 5_000.0);

    tell(&mut fleet, Event::Network(id, Duration::from_millis(2)));
    tell(&mut fleet, Event::Restarted(id));
    // As slow as its class is taken to be by all that was seen of it.
    assert!(fleet.factors(1).0 < 0.6 * before, "{before}, then {:?}", fleet.factors(1));
    assert_eq!(memory(&fleet), (1.0 / StepModel::guess("", "").cap) as f32);
    let network = |fleet: &Fleet| fleet.gate.load(id).unwrap().speed.network_ms;
    assert_eq!(network(&fleet), 2.0, "nobody looked yet");
    tell(&mut fleet, Event::Network(id, Duration::from_millis(9)));
    assert_eq!(network(&fleet), 9.0, "the old minimum is no news of the new one");
}
