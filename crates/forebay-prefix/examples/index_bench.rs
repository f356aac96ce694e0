//! Prints what the prefix index costs:
//! `cargo run --release -p forebay-prefix --example index_bench [FLEET [BLOCKS]]`.
//!
//! Nanoseconds of one operation, median and 99th percentile, at several fleet
//! sizes and chain lengths. Look-ups are of prompts whose first half every
//! endpoint holds, the second half two of them, in an index with 2,000 such
//! prompts: shared by all, cold in the processor's caches, most of them.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use forebay_core::{EndpointId, Time};
use forebay_prefix::{IndexConfig, Matches, PrefixIndex, chain, next};

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn endpoint(slot: u64) -> EndpointId {
    EndpointId { slot: slot as u32, generation: 0 }
}

/// Prompt `n` of `blocks` blocks; the first half is in common with all.
fn prompt(blocks: u64, n: u64) -> Arc<[u64]> {
    let own = (blocks / 2..blocks).map(|i| next(n + 1, i));
    chain(blocks, &(0..blocks / 2).chain(own).collect::<Vec<_>>())
}

/// Median and 99th percentile of what `f` takes for each of `items`.
fn measure<T>(items: &[T], mut f: impl FnMut(&T)) -> (u64, u64) {
    let mut times: Vec<u64> = items
        .iter()
        .map(|item| {
            let start = now();
            f(item);
            start.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn show(name: &str, (median, p99): (u64, u64)) {
    print!("  {name} {median:>7} {p99:>8}");
}

fn bench(endpoints: u64, blocks: u64) {
    let index = PrefixIndex::new(IndexConfig {
        max_bytes: 2 << 30,
        default_capacity_blocks: u32::MAX,
        ..IndexConfig::default()
    });
    let prompts: Vec<_> = (0..2_000).map(|n| prompt(blocks, n)).collect();
    let shared = &prompts[0][..blocks as usize / 2];
    (0..endpoints).for_each(|e| index.commit(endpoint(e), shared, Time::ZERO));
    let numbered: Vec<_> = prompts.iter().enumerate().map(|(n, p)| (n as u64, p)).collect();
    print!("{endpoints:>6} {blocks:>6}");
    show("begin new", measure(&numbered, |(n, p)| index.begin(endpoint(n % endpoints), p)));
    show("end", measure(&numbered, |(n, p)| index.end(endpoint(n % endpoints), p, true, Time::ZERO)));
    let confirm = |(n, p): &(u64, &Arc<[u64]>)| index.insert_confirmed(endpoint((n + 1) % endpoints), p);
    show("confirm", measure(&numbered, confirm));
    let mut out = Matches::new();
    let mut looked = 0;
    let mut order: Vec<_> = (0..20_000u64).map(|i| &prompts[(next(1, i) % 2_000) as usize]).collect();
    let look = |p: &&Arc<[u64]>| {
        index.lookup(black_box(p), &mut out);
        looked += out.len();
    };
    show("lookup", measure(&order, look));
    order.truncate(1);
    let hot: Vec<_> = (0..20_000).map(|_| order[0]).collect();
    let look = |p: &&Arc<[u64]>| {
        index.lookup(black_box(p), &mut out);
        looked += out.len();
    };
    show("hot", measure(&hot, look));
    assert_eq!(looked as u64, 40_000 * endpoints);
    let bytes = index.bytes() >> 20;
    let remove = |(n, p): &(u64, &Arc<[u64]>)| {
        index.remove_confirmed(endpoint((n + 1) % endpoints), &p[blocks as usize / 2..]);
    };
    show("remove", measure(&numbered, remove));
    let all: Vec<u64> = (0..endpoints).collect();
    show("forget", measure(&all, |e| index.forget(endpoint(*e))));
    println!("  {bytes} MiB");
}

fn main() {
    let given: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let chosen = |at: usize, all: &[u64]| given.get(at).map_or(all.to_vec(), |&one| vec![one]);
    println!("fleet blocks: ns, median and p99");
    for endpoints in chosen(0, &[8, 100, 1_000, 10_000]) {
        for blocks in chosen(1, &[16, 64, 1_600]) {
            bench(endpoints, blocks);
        }
    }
}
