//! Random histories of everything that can happen, compared with the oracle.

mod oracle;

use std::sync::Arc;

use forebay_core::{EndpointId, Time};
use forebay_prefix::{IndexConfig, Match, Matches, PrefixIndex, Tier, chain};
use oracle::Oracle;
use proptest::prelude::*;

/// A prompt, as the lengths of shared parts: equal starts share a prefix.
type Prompt = Vec<(u8, u8)>;

#[derive(Clone, Debug)]
enum Op {
    Begin(u8, Prompt),
    /// Of the requests in flight, one is over: which, and whether it was served.
    End(u16, bool),
    Stray(u8, Prompt),
    Commit(u8, Prompt),
    Insert(u8, bool, Prompt, u8, u8, bool),
    Remove(u8, bool, Prompt, u8, u8),
    RemoveOne(u8, bool, Prompt, u8),
    Correct(u8, Prompt, u8, u8),
    Forget(u8),
    Retire(u8),
    Tick,
}

fn prompt() -> impl Strategy<Value = Prompt> {
    prop::collection::vec((0..3u8, prop_oneof![3 => 1..9u8, 1 => 30..90u8]), 1..5)
}

fn op(endpoints: u8) -> impl Strategy<Value = Op> {
    let e = move || 0..endpoints;
    prop_oneof![
        6 => (e(), prompt()).prop_map(|(e, p)| Op::Begin(e, p)),
        6 => (any::<u16>(), prop::bool::weighted(0.7)).prop_map(|(n, keep)| Op::End(n, keep)),
        1 => (e(), prompt()).prop_map(|(e, p)| Op::Stray(e, p)),
        2 => (e(), prompt()).prop_map(|(e, p)| Op::Commit(e, p)),
        6 => (e(), prop::bool::weighted(0.8), prompt(), any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(e, gpu, p, from, len, parent)| Op::Insert(e, gpu, p, from, len, parent)),
        3 => (e(), prop::bool::weighted(0.8), prompt(), any::<u8>(), any::<u8>())
            .prop_map(|(e, gpu, p, from, len)| Op::Remove(e, gpu, p, from, len)),
        2 => (e(), any::<bool>(), prompt(), any::<u8>()).prop_map(|(e, gpu, p, at)| Op::RemoveOne(e, gpu, p, at)),
        3 => (e(), prompt(), any::<u8>(), any::<u8>()).prop_map(|(e, p, c, x)| Op::Correct(e, p, c, x)),
        1 => e().prop_map(Op::Forget),
        1 => e().prop_map(Op::Retire),
        1 => Just(Op::Tick),
    ]
}

fn hashes(prompt: &Prompt) -> Arc<[u64]> {
    let blocks =
        prompt.iter().flat_map(|&(part, len)| (0..len).map(move |i| u64::from(part) << 8 | u64::from(i)));
    chain(1, &blocks.collect::<Vec<_>>())
}

/// The index and the oracle, side by side.
struct Pair {
    index: PrefixIndex,
    oracle: Oracle,
    generations: Vec<u32>,
    in_flight: Vec<(EndpointId, Arc<[u64]>)>,
    seen: Vec<Arc<[u64]>>,
    now: Time,
    out: Matches,
}

impl Pair {
    fn new(endpoints: u8) -> Pair {
        Pair {
            index: PrefixIndex::new(IndexConfig {
                default_capacity_blocks: u32::MAX,
                ..IndexConfig::default()
            }),
            oracle: Oracle::default(),
            generations: vec![0; endpoints.into()],
            in_flight: Vec::new(),
            seen: Vec::new(),
            now: Time::ZERO,
            out: Matches::new(),
        }
    }

    fn id(&self, e: u8) -> EndpointId {
        EndpointId { slot: e.into(), generation: self.generations[usize::from(e)] }
    }

    fn chain(&mut self, prompt: &Prompt) -> Arc<[u64]> {
        let chain = hashes(prompt);
        self.seen.push(chain.clone());
        chain
    }

    fn apply(&mut self, op: &Op) {
        self.now += std::time::Duration::from_millis(37);
        let now = self.now;
        match op {
            Op::Begin(e, prompt) => {
                let (id, chain) = (self.id(*e), self.chain(prompt));
                self.index.begin(id, &chain);
                self.oracle.begin(id, &chain);
                self.in_flight.push((id, chain));
            }
            Op::End(n, keep) if !self.in_flight.is_empty() => {
                let (id, chain) = self.in_flight.swap_remove(usize::from(*n) % self.in_flight.len());
                self.index.end(id, &chain, *keep, now);
                self.oracle.end(id, &chain, *keep);
            }
            Op::End(..) => {}
            Op::Stray(e, prompt) => {
                // An end without a beginning does nothing, unless an equal
                // request is in flight: then it takes that one's place.
                let (id, chain) = (self.id(*e), self.chain(prompt));
                if !self.in_flight.iter().any(|(i, c)| *i == id && c.last() == chain.last()) {
                    self.index.end(id, &chain, true, now);
                    self.oracle.end(id, &chain, true);
                }
            }
            Op::Commit(e, prompt) => {
                let (id, chain) = (self.id(*e), self.chain(prompt));
                self.index.commit(id, &chain, now);
                self.oracle.commit(id, &chain);
            }
            Op::Insert(e, gpu, prompt, from, len, with_parent) => {
                let (id, chain) = (self.id(*e), self.chain(prompt));
                let from = usize::from(*from) % chain.len();
                let part = &chain[from..(from + 1 + usize::from(*len) / 2).min(chain.len())];
                let parent = (*with_parent && from > 0).then(|| chain[from - 1]);
                self.index.insert_confirmed_after(id, tier(*gpu), parent, part);
                self.oracle.insert_confirmed(id, tier(*gpu), part);
            }
            Op::Remove(e, gpu, prompt, from, len) => {
                let (id, chain) = (self.id(*e), self.chain(prompt));
                let from = usize::from(*from) % chain.len();
                let mut part = chain[from..(from + 1 + usize::from(*len) / 2).min(chain.len())].to_vec();
                if len % 2 == 1 {
                    part.reverse();
                }
                self.index.remove_confirmed_in(id, tier(*gpu), &part);
                self.oracle.remove_confirmed(id, tier(*gpu), &part);
            }
            Op::RemoveOne(e, gpu, prompt, at) => {
                let (id, chain) = (self.id(*e), self.chain(prompt));
                let hash = chain[usize::from(*at) % chain.len()];
                self.index.remove_confirmed_in(id, tier(*gpu), &[hash]);
                self.oracle.remove_confirmed(id, tier(*gpu), &[hash]);
            }
            Op::Correct(e, prompt, cached, predicted) => {
                let (id, chain) = (self.id(*e), self.chain(prompt));
                let (cached, predicted) =
                    (usize::from(*cached) % (chain.len() + 2), usize::from(*predicted) % (chain.len() + 2));
                self.index.correct(id, &chain, cached as u32, predicted as u32, now);
                self.oracle.correct(id, &chain, cached, predicted);
            }
            Op::Forget(e) => {
                self.index.forget(self.id(*e));
                self.oracle.forget(self.id(*e));
            }
            Op::Retire(e) => {
                self.index.retire(self.id(*e));
                self.oracle.retire(self.id(*e));
                // Late calls for the old one still come; the new one has its slot.
                if e % 2 == 0 {
                    self.generations[usize::from(*e)] += 1;
                }
            }
            Op::Tick => self.index.tick(now),
        }
    }

    fn check(&mut self, chain: &[u64]) -> Result<(), TestCaseError> {
        self.index.lookup(chain, &mut self.out);
        let mut found: Vec<Match> = self.out.as_slice().to_vec();
        found.sort_by_key(|m| m.endpoint);
        prop_assert_eq!(&found, &self.oracle.lookup(chain));
        Ok(())
    }

    fn run(&mut self, ops: &[Op], probe: &[Prompt]) -> Result<(), TestCaseError> {
        for op in ops {
            self.apply(op);
            if let Some(chain) = self.seen.last().cloned() {
                self.check(&chain)?;
            }
        }
        for chain in std::mem::take(&mut self.seen) {
            self.check(&chain)?;
        }
        probe.iter().try_for_each(|prompt| self.check(&hashes(prompt)))?;
        // Whole runs are kept while a part of them is held, so there may be more.
        prop_assert!(self.index.stats().blocks >= self.oracle.distinct_blocks() as u64);
        // What nobody holds is taken out, all of it.
        for (e, _) in self.generations.clone().iter().enumerate() {
            self.index.retire(self.id(e as u8));
        }
        (0..100).for_each(|_| self.index.tick(self.now));
        let stats = self.index.stats();
        prop_assert_eq!((stats.blocks, stats.runs, stats.holds, stats.committed), (0, 0, 0, 0));
        Ok(())
    }
}

fn tier(gpu: bool) -> Tier {
    if gpu { Tier::Gpu } else { Tier::Host }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn few_endpoints_agree_with_the_oracle(
        ops in prop::collection::vec(op(4), 1..120),
        probe in prop::collection::vec(prompt(), 10),
    ) {
        Pair::new(4).run(&ops, &probe)?;
    }

    #[test]
    fn many_endpoints_agree_with_the_oracle(
        ops in prop::collection::vec(op(60), 1..400),
        probe in prop::collection::vec(prompt(), 10),
    ) {
        Pair::new(60).run(&ops, &probe)?;
    }
}
