//! The requests of the comparison: one trace, for both sides.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Slo, Time};
use forebay_load::{ReplayOptions, prompt_ids, trace};
use forebay_sim::workload::{SimRequest, Workload};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Tokens of a block that a trace identifies.
const TRACE_BLOCK: u32 = 512;
/// Tokens of a block in the gateway's prefix index: 256 bytes, and a token id is four of them.
const INDEX_BLOCK: usize = 64;
/// Bytes of a prompt's beginning that a gateway hashes for affinity.
const HEAD_BYTES: usize = 1024;

/// Tenants, each with a system prompt that its requests share.
const TENANTS: usize = 40;

/// What is drawn, all of it fixed by the seed.
#[derive(Clone, Copy)]
pub struct Traffic {
    /// Requests in all.
    pub requests: usize,
    /// Requests per second of engine time.
    pub rate: f64,
    pub seed: u64,
}

/// The lines of a Mooncake trace: two of three requests begin with their
/// tenant's system prompt of 2,048 to 6,144 tokens and go on for some hundred;
/// of the rest most are short and every other one is a document of 6,000 to
/// 14,000 tokens. Arrivals are a Poisson process.
pub fn trace_lines(traffic: &Traffic) -> String {
    let mut rng = Pcg64Mcg::seed_from_u64(traffic.seed);
    let systems: Vec<u64> = (0..TENANTS).map(|_| rng.random_range(4..=12)).collect();
    let (mut lines, mut at_ms) = (String::new(), 0.0);
    for number in 0..traffic.requests {
        at_ms += -(1.0 - rng.random::<f64>()).ln() / traffic.rate * 1e3;
        let (mut blocks, own) = match rng.random::<f64>() {
            x if x < 0.66 => {
                // The square makes some tenants busier than others.
                let tenant = (rng.random::<f64>().powi(2) * TENANTS as f64) as usize;
                let first = tenant as u64 * 100;
                let shared: Vec<u64> = (first..first + systems[tenant]).collect();
                (shared, rng.random_range(150..=600))
            }
            x if x < 0.83 => (Vec::new(), rng.random_range(6_000..=14_000)),
            _ => (Vec::new(), rng.random_range(100..=500)),
        };
        let prompt = blocks.len() as u32 * TRACE_BLOCK + own;
        let fresh = 1_000_000 + number as u64 * 100;
        blocks.extend(fresh..fresh + u64::from(own.div_ceil(TRACE_BLOCK)));
        let output = rng.random_range(60..=200);
        let _ = writeln!(
            lines,
            r#"{{"timestamp": {at_ms:.3}, "input_length": {prompt}, "output_length": {output}, "hash_ids": {blocks:?}}}"#
        );
    }
    lines
}

/// One short prompt after another, each when the one before is long done.
pub fn lone_lines(requests: usize) -> String {
    let line = |number| {
        let at = number * 500;
        format!(
            "{{\"timestamp\": {at}, \"input_length\": 600, \"output_length\": 2, \"hash_ids\": [{}, {}]}}\n",
            2 * number,
            2 * number + 1
        )
    };
    (0..requests).map(line).collect()
}

/// What the simulator plays: the very prompts that a replay with these options
/// sends, as a gateway and an engine find them, in wall time.
pub fn simulated(options: &ReplayOptions, slo: Slo) -> Vec<SimRequest> {
    let requests = trace::read(&options.trace, None).unwrap().requests;
    let each = requests.iter().enumerate().map(|(index, request)| {
        let ids = prompt_ids(options, index, request).unwrap();
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let mut before = 0;
        let chain: Vec<u64> = bytes
            .chunks_exact(INDEX_BLOCK * 4)
            .map(|block| {
                before = xxh3_64_with_seed(block, before);
                before
            })
            .collect();
        let wall = request.arrival.as_secs_f64() / options.time_scale;
        let arrival = Time::ZERO + Duration::from_secs_f64(wall);
        let mut sim = SimRequest::new(arrival, Arc::from(chain), request.input_tokens, request.output_tokens);
        sim.max_output_tokens = Some(request.output_tokens);
        sim.affinity = xxh3_64(&bytes[..bytes.len().min(HEAD_BYTES)]);
        sim.slo = slo;
        sim
    });
    each.collect()
}

/// These requests and no others, at their own times.
pub struct Once<'a>(pub std::slice::Iter<'a, SimRequest>);

impl Workload for Once<'_> {
    fn block_tokens(&self) -> u32 {
        INDEX_BLOCK as u32
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        self.0.next().cloned()
    }
}
