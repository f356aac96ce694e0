//! The price of sending one request to one endpoint, in milliseconds.
//!
//! Eight candidates at a time, so that the compiler can use vector registers;
//! the numbers that choose are the numbers that explain. The formula follows
//! docs/routing.md, which gives it with its sources.

use serde::{Deserialize, Serialize};

/// Candidates in one block.
pub(crate) const LANES: usize = 8;
/// SLO classes of a pool that are told apart.
pub(crate) const SLO_CLASSES: usize = 8;

type Lanes = [f32; LANES];

/// Time constant of the memory of dispatched prefill work, in milliseconds.
pub(crate) const PREFILL_WINDOW_MS: f32 = 20_000.0;
/// The engine is taken to spend at most this share of its time in prefill.
const MAX_PREFILL_SHARE: f32 = 0.85;
/// Output tokens over which a request's context weighs on the streams beside it.
const HARM_HORIZON: f32 = 1000.0;
/// What a load of one fair share beyond the slack costs, in multiples of the
/// whole prompt's prefill: at twice its share and the slack, holding the prompt
/// is worth no more than computing it elsewhere. More parts crowds sooner and
/// takes agents away from their own long contexts near saturation. Prompts that are alone pay nothing: it
/// goes with the square of how much of its prompts a pool finds held.
const CROWDING: f32 = 3.0;
/// How far beyond its fair share of the usual load an endpoint may be for free.
const CROWDING_SLACK: f32 = 0.3;
/// A chunked prefill gets at least this many tokens of each step.
const MIN_CHUNK: f32 = 256.0;

/// What the terms count for. A profile is one set of these.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Of the predicted time to the first token.
    pub ttft: f32,
    /// Of the request's own decoding.
    pub decode: f32,
    /// Of the delay put on streams already there.
    pub harm: f32,
    /// What an expected miss costs, in multiples of the TTFT limit.
    pub miss: f32,
    /// Beyond the TTFT limit each millisecond counts this much more.
    pub overtime: f32,
    /// Width of the curve from "will be met" to "will be missed", as a share of the limit.
    pub width: f32,
    /// The price of capacity is at most this.
    pub max_price: f32,
}

/// What the pool knows that is the same for every candidate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Common {
    /// Prompt tokens.
    pub(crate) prompt: f32,
    /// Expected output tokens.
    pub(crate) output: f32,
    /// Output tokens that requests of this pool usually have.
    pub(crate) usual_output: f32,
    /// Price of a millisecond of capacity.
    pub(crate) price: f32,
    /// Share of the prompts of this pool that is found held, 0 to 1: how much
    /// of what is placed now brings others after it.
    pub(crate) follow: f32,
    /// 1 over the thousands of prompt tokens that the pool usually has in flight
    /// for each token that its endpoints can prefill in a millisecond.
    pub(crate) usual_mean_inverse: f32,
    /// Correction of predicted TPOT, learned by the pool.
    pub(crate) gamma: f32,
    /// The fastest prefill of the pool, in milliseconds per token.
    pub(crate) fastest: f32,
    /// The request's own limits; infinite when absent.
    pub(crate) ttft_limit: f32,
    pub(crate) tpot_limit: f32,
    /// What its own miss costs, in milliseconds.
    pub(crate) value: f32,
}

/// One class of requests in flight: its TPOT limit and what a miss is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SloClass {
    /// Milliseconds per token; infinite when there is no limit.
    pub tpot_limit: f32,
    /// Milliseconds of delay that one would accept to avoid a miss.
    pub value: f32,
}

/// Eight candidates. Constants are those of the endpoint as learned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Block {
    /// Cached tokens of the prompt.
    pub(crate) held: Lanes,
    /// Prefill milliseconds owed there, at the endpoint's speed.
    pub(crate) owed: Lanes,
    /// Requests in flight.
    pub(crate) requests: Lanes,
    /// Streams past their first token.
    pub(crate) streams: Lanes,
    /// Thousands of prompt tokens in flight as they usually are.
    pub(crate) usual: Lanes,
    /// Prompt tokens of the requests in flight.
    pub(crate) context: Lanes,
    /// Distinct tokens of KV memory that they hold.
    pub(crate) pinned: Lanes,
    /// Share of the time spent in prefill lately.
    pub(crate) prefill_share: Lanes,
    /// Network and adapter load, in milliseconds.
    pub(crate) fixed: Lanes,
    /// What the operator's own rule adds, and what is lost with an adapter that
    /// is driven out: milliseconds of price that nobody waits for.
    pub(crate) extra: Lanes,
    /// Milliseconds of a decode step.
    pub(crate) step: Lanes,
    /// … for each sequence in it.
    pub(crate) per_stream: Lanes,
    /// … for each token of context.
    pub(crate) per_context: Lanes,
    /// Milliseconds for each prefill token.
    pub(crate) per_token: Lanes,
    /// … for each pair of prefill token and token it attends to.
    pub(crate) per_pair: Lanes,
    /// Tokens computed in one step at most.
    pub(crate) budget: Lanes,
    /// 1 over the KV memory in tokens.
    pub(crate) inverse_memory: Lanes,
    /// Requests in flight by SLO class.
    pub(crate) classes: [Lanes; SLO_CLASSES],
}

/// The terms of a price, in milliseconds unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Cached tokens of the prompt there.
    pub held_tokens: f32,
    /// Wait behind the prefill already owed and for KV memory.
    pub wait_ms: f32,
    /// The request's own prefill.
    pub prefill_ms: f32,
    /// Network and adapter load.
    pub fixed_ms: f32,
    /// Predicted time to the first token: the three above.
    pub ttft_ms: f32,
    /// The operator's own cost, and that of driving out an adapter. Counts as
    /// much as the time to the first token, and is no part of what is predicted.
    pub extra_ms: f32,
    /// Its own decoding.
    pub decode_ms: f32,
    /// Delay of the streams already there, all together.
    pub harm_ms: f32,
    /// Capacity consumed, in milliseconds of the pool's fastest endpoint.
    pub capacity_ms: f32,
    /// What that capacity costs now.
    pub price_ms: f32,
    /// Cost of keeping an endpoint busier than its fair share, because prefixes
    /// that many share lie there.
    pub crowding_ms: f32,
    /// Predicted time per output token after it has joined.
    pub tpot_ms: f32,
    /// Chance of missing its own limits, 0 to 1.
    pub miss: f32,
    /// Cost of that and of the misses it causes others.
    pub miss_ms: f32,
    /// The weighted sum: what is minimised.
    pub total_ms: f32,
}

/// The terms of eight candidates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Priced {
    pub(crate) total: Lanes,
    /// Wait without own prefill and without the tax of decoding: what admission looks at.
    pub(crate) backlog: Lanes,
    pub(crate) tpot: Lanes,
    /// Own prefill without the tax of decoding.
    pub(crate) own: Lanes,
    pub(crate) ttft: Lanes,
    wait: Lanes,
    prefill: Lanes,
    decode: Lanes,
    harm: Lanes,
    capacity: Lanes,
    crowding: Lanes,
    miss: Lanes,
    miss_cost: Lanes,
}

impl Priced {
    /// Capacity consumed, in milliseconds of the endpoint's own time.
    pub(crate) fn capacity_own(&self, lane: usize, block: &Block, common: &Common) -> f32 {
        self.capacity[lane] * block.per_token[lane] / common.fastest.max(1e-9)
    }

    /// The terms of one lane.
    pub(crate) fn terms(&self, lane: usize, block: &Block, common: &Common) -> Terms {
        Terms {
            held_tokens: block.held[lane],
            wait_ms: self.wait[lane],
            prefill_ms: self.prefill[lane],
            fixed_ms: block.fixed[lane],
            ttft_ms: self.ttft[lane],
            extra_ms: block.extra[lane],
            decode_ms: self.decode[lane],
            harm_ms: self.harm[lane],
            capacity_ms: self.capacity[lane],
            price_ms: self.capacity[lane] * common.price,
            tpot_ms: self.tpot[lane],
            crowding_ms: self.crowding[lane],
            miss: self.miss[lane],
            miss_ms: self.miss_cost[lane],
            total_ms: self.total[lane],
        }
    }
}

/// Prices a block of candidates.
#[inline]
pub(crate) fn price(block: &Block, common: &Common, classes: &[SloClass], weights: &Weights) -> Priced {
    let mut out = Priced::default();
    let Common { prompt, output, usual_output, price, follow, usual_mean_inverse, gamma, fastest, .. } =
        *common;
    let Common { ttft_limit, tpot_limit, value, .. } = *common;
    let inverse_width = 1.0 / weights.width.max(1e-3);
    let (inverse_ttft, inverse_tpot) = (1.0 / ttft_limit, 1.0 / tpot_limit);
    let mut g0: Lanes = [0.0; LANES];
    #[expect(clippy::needless_range_loop, reason = "a lane of many arrays at once")]
    for l in 0..LANES {
        let held = block.held[l].min(prompt);
        let uncached = prompt - held;
        let own = uncached * (block.per_token[l] + block.per_pair[l] * (held + uncached * 0.5));
        let (streams, context) = (block.streams[l], block.context[l]);
        let step = block.step[l] + streams * block.per_stream[l] + block.per_context[l] * context;
        let chunk = (block.budget[l] - streams).max(MIN_CHUNK);
        let tax = 1.0 + step / (block.per_token[l] * chunk);
        let over = |extra: f32| {
            let inverse = block.inverse_memory[l];
            let full = (block.pinned[l] + block.requests[l] * usual_output + extra) * inverse - 1.0;
            full.max(0.0) * usual_output * step
        };
        let memory = over(uncached + output);
        let wait = block.owed[l] * tax + memory;
        // Each chunk goes with a decode step, and so does the least of prompts,
        // after what is left of the step that runs when it comes.
        let running = 0.5 * step * streams.min(1.0);
        let prefill = own + step * (uncached / chunk).max(1.0) + running;
        let ttft = wait + prefill + block.fixed[l];
        // Those who share a prefix keep an endpoint busier than its peers long
        // after any queue that a single request could see: beyond a slack it
        // is worth computing the prefix once more elsewhere.
        let whole = prompt * (block.per_token[l] + block.per_pair[l] * prompt * 0.5);
        let share = block.usual[l] * block.per_token[l] * usual_mean_inverse;
        let crowded = (share - 1.0 - CROWDING_SLACK).max(0.0);
        let crowding = follow * follow * CROWDING * whole * crowded;
        let decode = output
            * (block.per_context[l] * (context + prompt)
                + (streams + 1.0) * block.per_stream[l]
                + block.step[l]);
        let harm = streams * (own + block.per_context[l] * prompt * output.min(HARM_HORIZON));
        let compute = own + output * (block.per_stream[l] + block.per_context[l] * prompt);
        let space = (uncached + output) * block.inverse_memory[l] * output * step;
        let capacity = compute.max(space) * fastest / block.per_token[l];
        let share0 = block.prefill_share[l].min(MAX_PREFILL_SHARE);
        let share1 = (block.prefill_share[l] + own * (1.0 / PREFILL_WINDOW_MS)).min(MAX_PREFILL_SHARE);
        let requests = block.requests[l];
        let before = block.step[l] + requests * block.per_stream[l] + block.per_context[l] * context;
        let after = block.step[l]
            + (requests + 1.0) * block.per_stream[l]
            + block.per_context[l] * (context + prompt + output * 0.5);
        g0[l] = gamma * before / (1.0 - share0);
        out.tpot[l] = gamma * after / (1.0 - share1);
        out.backlog[l] = block.owed[l] + memory;
        out.own[l] = own;
        out.wait[l] = wait;
        out.prefill[l] = prefill;
        out.ttft[l] = ttft;
        out.decode[l] = decode;
        out.harm[l] = harm;
        out.capacity[l] = capacity;
        out.crowding[l] = crowding;
    }
    for l in 0..LANES {
        let met_ttft = 1.0 - missed(out.ttft[l] * inverse_ttft, inverse_width);
        let met_tpot = 1.0 - missed(out.tpot[l] * inverse_tpot, inverse_width);
        out.miss[l] = 1.0 - met_ttft * met_tpot;
        out.miss_cost[l] = value * out.miss[l];
    }
    for (class, count) in classes.iter().zip(&block.classes) {
        let inverse = 1.0 / class.tpot_limit;
        for l in 0..LANES {
            let more = missed(out.tpot[l] * inverse, inverse_width) - missed(g0[l] * inverse, inverse_width);
            out.miss_cost[l] += class.value * count[l] * more.max(0.0);
        }
    }
    for l in 0..LANES {
        out.total[l] = weights.ttft * (out.ttft[l] + block.extra[l])
            + weights.decode * out.decode[l]
            + weights.harm * out.harm[l]
            + price * out.capacity[l]
            + out.miss_cost[l]
            + out.crowding[l]
            + weights.overtime * (out.ttft[l] - ttft_limit).max(0.0);
    }
    out
}

/// How likely a limit is missed, from the predicted share of it: a logistic
/// curve, because an endpoint that is lost anyway should not cost more and more.
#[inline(always)]
fn missed(share: f32, inverse_width: f32) -> f32 {
    1.0 / (1.0 + exp((1.0 - share) * inverse_width))
}

/// e to the power of x, to one part in a million over ±87, without branches.
///
/// 2^n by writing the exponent's bits, 2^f by a polynomial (Taylor series of
/// 2^f around 0 on ±½, degree 6).
#[inline(always)]
fn exp(x: f32) -> f32 {
    let t = (x * std::f32::consts::LOG2_E).clamp(-126.0, 126.0);
    // Adding and taking away 1.5·2^23 rounds to the nearest whole number.
    let n = (t + 12_582_912.0) - 12_582_912.0;
    let f = t - n;
    let p = 1.0
        + f * (std::f32::consts::LN_2
            + f * (0.240_226_5
                + f * (0.055_504_11 + f * (0.009_618_13 + f * (0.001_333_36 + f * 0.000_154_04)))));
    let bits = ((n as i32 + 127) as u32) << 23;
    f32::from_bits(bits) * p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_exp() {
        for i in -8700..=8700 {
            let x = i as f32 / 100.0;
            let (got, want) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got / want - 1.0).abs() < 2e-5, "{x}: {got} {want}");
        }
        assert!(exp(f32::MAX) > 1e37 && exp(f32::MIN) < 1e-37);
    }

    fn block() -> Block {
        let all = |x: f32| [x; LANES];
        Block {
            held: [0.0, 1024.0, 2048.0, 4096.0, 0.0, 0.0, 0.0, 0.0],
            owed: [0.0, 0.0, 0.0, 0.0, 50.0, 0.0, 0.0, 0.0],
            requests: [0.0, 0.0, 0.0, 0.0, 2.0, 10.0, 0.0, 60.0],
            streams: [0.0, 0.0, 0.0, 0.0, 1.0, 10.0, 0.0, 60.0],
            usual: [0.0; LANES],
            context: [0.0, 0.0, 0.0, 0.0, 6e3, 2e4, 0.0, 4.2e5],
            pinned: [0.0, 0.0, 0.0, 0.0, 6e3, 2e4, 0.0, 4.2e5],
            prefill_share: all(0.0),
            fixed: [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 30.0, 0.0],
            extra: all(0.0),
            step: all(8.0),
            per_stream: all(0.0235 + 0.02),
            per_context: all(0.049e-3),
            per_token: all(0.0235),
            per_pair: all(0.87e-6),
            budget: all(2048.0),
            inverse_memory: all(1.0 / 427e3),
            classes: [[0.0; LANES]; SLO_CLASSES],
        }
    }

    fn common() -> Common {
        Common {
            prompt: 4096.0,
            output: 200.0,
            usual_output: 200.0,
            price: 1.0,
            follow: 0.0,
            usual_mean_inverse: 0.0,
            gamma: 1.0,
            fastest: 0.0235,
            ttft_limit: 2000.0,
            tpot_limit: 50.0,
            value: 5000.0,
        }
    }

    const BALANCED: Weights =
        Weights { ttft: 3.0, decode: 1.0, harm: 0.6, miss: 2.5, overtime: 0.0, width: 0.15, max_price: 20.0 };

    #[test]
    fn the_terms_are_those_of_the_formula() {
        let priced = price(&block(), &common(), &[], &BALANCED);
        let terms = priced.terms(0, &block(), &common());
        // By hand: P = .0235·4096 + .87e-6·4096·2048 = 96.256 + 7.298 = 103.554;
        // τ = 8 in each of two chunks: T = 103.554 + 2·8 = 119.554; D = 200·(.049e-3·4096 + .0435 + 8) = 1648.8.
        let near = |got: f32, want: f32| assert!((got / want - 1.0).abs() < 1e-3, "{got} {want}");
        near(terms.prefill_ms, 119.554);
        near(terms.ttft_ms, 119.554);
        near(terms.decode_ms, 1648.84);
        // ω = 103.554 + 200·(.0435 + .2007) = 152.39, dearer than its memory.
        near(terms.capacity_ms, 152.39);
        near(terms.total_ms, 3.0 * 119.554 + 1648.84 + 152.39 + terms.miss_ms);
        // What is held need not be computed; at most the whole prompt is held.
        assert!(priced.ttft[1] < priced.ttft[0] && priced.ttft[2] < priced.ttft[1]);
        assert!((priced.prefill[3] - 8.0).abs() < 1e-3, "one step for a prompt that is held whole");
        // What is owed there, a longer way, streams to be slowed: all cost.
        for lane in 4..7 {
            assert!(priced.total[lane] > priced.total[0], "lane {lane}");
        }
        // Full memory makes it wait.
        assert!(priced.backlog[7] > 100.0, "{:?}", priced.backlog);
    }

    #[test]
    fn residents_who_would_miss_cost_and_those_already_lost_do_not() {
        let mut block = block();
        block.requests = [1.0; LANES];
        block.classes[0] = [100.0; LANES];
        // Before: far below, near, far above the limit.
        block.context = [0.0, 7.5e5, 4e6, 0.0, 0.0, 0.0, 0.0, 0.0];
        let class = SloClass { tpot_limit: 50.0, value: 5000.0 };
        let own_free = Common { value: 0.0, ..common() };
        let priced = price(&block, &own_free, &[class], &BALANCED);
        assert!(priced.miss_cost[1] > 10.0 * priced.miss_cost[0].max(1.0), "{:?}", priced.miss_cost);
        assert!(priced.miss_cost[1] > 100.0 * priced.miss_cost[2], "{:?}", priced.miss_cost);
    }

    #[test]
    fn an_operators_cost_is_a_price_and_no_prediction() {
        let mut dear = block();
        dear.extra = [0.0, 1000.0, -20.0, 1e6, 1000.0, 1000.0, 1000.0, 1000.0];
        let (plain, priced) =
            (price(&block(), &common(), &[], &BALANCED), price(&dear, &common(), &[], &BALANCED));
        for lane in 0..LANES {
            let more = priced.total[lane] - plain.total[lane];
            assert!((more - 3.0 * dear.extra[lane]).abs() < 1.0, "lane {lane}: {more}");
            let (a, b) = (plain.terms(lane, &block(), &common()), priced.terms(lane, &dear, &common()));
            assert_eq!((a.ttft_ms, a.fixed_ms, a.miss_ms), (b.ttft_ms, b.fixed_ms, b.miss_ms));
            assert_eq!(b.extra_ms, dear.extra[lane]);
        }
    }

    #[test]
    fn absent_limits_cannot_be_missed() {
        let common = Common { ttft_limit: f32::INFINITY, tpot_limit: f32::INFINITY, ..common() };
        let priced = price(&block(), &common, &[], &BALANCED);
        assert!(priced.miss.iter().all(|m| *m < 3e-3), "{:?}", priced.miss);
        assert!(priced.total.iter().all(|t| t.is_finite()));
    }
}
