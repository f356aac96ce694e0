//! Compares the prefix index with two published ones, on the same operations in
//! the same process: `cargo run --release` from this folder.
//!
//! Every endpoint holds the first half of all prompts; each prompt's second
//! half is held by two endpoints. Nanoseconds of one call, median and 99th
//! percentile; all are given what they want to be given, and what it costs to
//! make that is left out, except for Forebay's chain, which has a line of its
//! own: the others hash within the look-up, or compare what is not chained.

mod dynamo;
mod forebay;
mod smg;
mod workload;

use std::hint::black_box;
use std::time::Instant;

use workload::{Prompt, Workload};

/// One index under test. `lookup` gives the number of endpoints found.
trait Index {
    fn name(&self) -> &'static str;
    /// What the endpoint stores: the prompt from its start on.
    fn prepare(&mut self, prompts: &[Prompt]);
    fn confirm(&mut self, endpoint: usize, prompt: usize, blocks: usize);
    /// Called untimed when all of a phase has been handed over.
    fn settle(&mut self) {}
    fn lookup(&mut self, prompt: usize) -> usize;
    fn remove(&mut self, endpoint: usize, prompt: usize, from: usize);
    fn forget(&mut self, endpoint: usize);
}

/// Median and 99th percentile.
fn measure(count: usize, mut f: impl FnMut(usize)) -> (u64, u64) {
    let mut times: Vec<u64> = (0..count)
        .map(|i| {
            let start = Instant::now();
            f(i);
            start.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    (times[count / 2], times[count * 99 / 100])
}

/// Per call, over all calls and until the last has taken effect.
fn throughput(index: &mut dyn Index, count: usize, mut f: impl FnMut(&mut dyn Index, usize)) -> u64 {
    let start = Instant::now();
    (0..count).for_each(|i| f(index, i));
    index.settle();
    start.elapsed().as_nanos() as u64 / count as u64
}

fn bench(index: &mut dyn Index, load: &Workload) {
    let (endpoints, prompts, blocks) = (load.endpoints, load.prompts.len(), load.blocks);
    index.prepare(&load.prompts);
    (0..endpoints).for_each(|e| index.confirm(e, 0, blocks / 2));
    index.settle();
    let new = throughput(index, prompts, |index, n| index.confirm(n % endpoints, n, blocks));
    let known = throughput(index, prompts, |index, n| index.confirm((n + 1) % endpoints, n, blocks));
    let mut found = 0;
    let cold = measure(10_000, |i| found += index.lookup(black_box(load.order[i % load.order.len()])));
    let hot = measure(10_000, |_| found += index.lookup(black_box(0)));
    assert_eq!(found, 20_000 * endpoints, "{} misses endpoints", index.name());
    let remove = throughput(index, prompts, |index, n| index.remove((n + 1) % endpoints, n, blocks / 2));
    let forget = throughput(index, endpoints, |index, e| index.forget(e));
    println!(
        "{endpoints:>6} {blocks:>6}  {:<28} {new:>8} {known:>8} {:>8} {:>8} {:>8} {:>8} {remove:>8} {forget:>8}",
        index.name(),
        cold.0,
        cold.1,
        hot.0,
        hot.1,
    );
}

fn main() {
    println!(
        "{:>6} {:>6}  {:<28} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "fleet", "blocks", "ns", "new", "known", "lookup", "p99", "hot", "p99", "remove", "forget"
    );
    for endpoints in [8, 100, 1_000] {
        for blocks in [16, 64, 1_600] {
            let load = Workload::new(endpoints, blocks);
            bench(&mut forebay::Forebay::new(false), &load);
            bench(&mut forebay::Forebay::new(true), &load);
            bench(&mut smg::ChainIndex::new(endpoints), &load);
            bench(&mut dynamo::Radix::new(), &load);
            bench(&mut dynamo::Positional::new(), &load);
            bench(&mut dynamo::Compressed::new(), &load);
        }
    }
}
