//! What a real vLLM server sent, all the way into the index.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use forebay_core::EndpointId;
use forebay_fleet::kv::engine_event;
use forebay_prefix::engine_map::{EngineMap, Sequence, Step, lead};
use forebay_prefix::{IndexConfig, Kind, Matches, PrefixIndex, chain, seed, token_blocks};
use forebay_wire::kv_events::{Batch, KvEvent, Message, Stored, decode_batch, parse_message};
use xxhash_rust::xxh3::xxh3_64;

const ENDPOINT: EndpointId = EndpointId { slot: 0, generation: 0 };

/// Of the recordings: two engine blocks make one of the index.
const ENGINE_BLOCK: usize = 32;
const INDEX_BLOCK: usize = 64;

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../forebay-wire/tests/kv").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn batches(name: &str) -> Vec<(u64, Batch)> {
    let read = |line: &str| {
        let frames: Vec<Vec<u8>> = line.split(' ').map(unhex).collect();
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        match parse_message(&frames) {
            Ok(Message::Batch { seq, payload, .. }) => (seq, decode_batch(payload).unwrap()),
            other => panic!("{other:?}"),
        }
    };
    data(name).lines().filter(|line| !line.starts_with('#')).map(read).collect()
}

/// Whose prompt it is.
type Owner = (Option<String>, Option<String>);

/// The plainest account: every block with its whole prompt, and who has it.
#[derive(Default)]
struct Account {
    prompts: BTreeMap<(u32, u64), (Owner, Vec<u32>)>,
    held: BTreeSet<(u32, u64)>,
}

impl Account {
    fn apply(&mut self, rank: u32, event: &KvEvent) {
        match event {
            KvEvent::Stored(stored) => self.store(rank, stored),
            KvEvent::Removed(removed) => removed.hashes.iter().for_each(|&hash| {
                self.held.remove(&(rank, hash));
            }),
            KvEvent::Cleared => self.held.retain(|&(other, _)| other != rank),
        }
    }

    fn store(&mut self, rank: u32, stored: &Stored) {
        let (owner, mut prompt) = match stored.parent {
            None => ((stored.adapter.clone(), stored.salt.clone()), Vec::new()),
            Some(parent) => match self.prompts.get(&(rank, parent)) {
                Some(prompt) => prompt.clone(),
                // Stored before the recording began.
                None => return,
            },
        };
        for (&hash, tokens) in stored.hashes.iter().zip(stored.tokens.chunks(ENGINE_BLOCK)) {
            prompt.extend_from_slice(tokens);
            self.prompts.insert((rank, hash), (owner.clone(), prompt.clone()));
            self.held.insert((rank, hash));
        }
    }

    /// How many index blocks of a prompt some rank holds, from its start on.
    fn expected(&self, owner: &Owner, prompt: &[u32]) -> usize {
        let whole = |rank, end: usize| {
            [end - ENGINE_BLOCK, end].iter().all(|&end| {
                let mut held = self.held.iter().filter(|(r, _)| *r == rank);
                held.any(|key| {
                    let (other, tokens) = &self.prompts[key];
                    other == owner && *tokens == prompt[..end]
                })
            })
        };
        let ends = (1..=prompt.len() / INDEX_BLOCK).map(|n| n * INDEX_BLOCK);
        ends.take_while(|&end| whole(0, end) || whole(1, end)).count()
    }
}

struct Bench {
    sequences: BTreeMap<u32, Sequence>,
    map: EngineMap,
    index: PrefixIndex,
    account: Account,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            sequences: BTreeMap::new(),
            map: EngineMap::new("tiny", 1 << 20),
            index: PrefixIndex::new(IndexConfig::default()),
            account: Account::default(),
        }
    }

    /// One batch, and what it should have done to every prompt there ever was.
    fn take(&mut self, seq: u64, batch: &Batch) {
        let rank = batch.dp_rank.unwrap_or_default();
        let sequence = self.sequences.entry(rank).or_default();
        if let Step::Gap { from } = sequence.published(seq) {
            assert_eq!(from, 0, "only where a recording began late");
            sequence.skip_to(seq);
            assert_eq!(sequence.published(seq), Step::Apply);
        }
        self.apply(rank, &batch.events);
    }

    fn apply(&mut self, rank: u32, events: &[KvEvent]) {
        let mut ops = Vec::new();
        for event in events {
            self.map.apply(rank, &engine_event(event).unwrap(), &mut ops);
            self.account.apply(rank, event);
        }
        lead(&self.index, ENDPOINT, &ops);
        for (owner, prompt) in self.account.prompts.values() {
            let expected = self.account.expected(owner, prompt);
            assert_eq!(self.found(prompt, owner), expected, "{owner:?} {prompt:?}");
        }
    }

    fn found(&self, prompt: &[u32], (adapter, salt): &Owner) -> usize {
        let salt = salt.as_deref().map(|salt| xxh3_64(salt.as_bytes()));
        let seed = seed("tiny", adapter.as_deref(), salt, Kind::Tokens);
        let chain = chain(seed, &token_blocks(prompt, INDEX_BLOCK));
        let mut matches = Matches::new();
        self.index.lookup(&chain, &mut matches);
        matches.get(ENDPOINT).map_or(0, |found| found.blocks as usize)
    }

    fn plain(&self, prompt: &[u32]) -> usize {
        self.found(prompt, &(None, None))
    }
}

#[test]
fn the_steps_of_a_server() {
    let a: Vec<u32> = (100..180).collect();
    let b: Vec<u32> = (100..164).chain(300..340).collect();
    for name in ["steps.hex", "steps_seed0.hex", "steps_default_seed.hex"] {
        let mut bench = Bench::new();
        let lora = (Some("lora1".to_owned()), None);
        let salted = (None, Some("tenant-a".to_owned()));
        for (seq, batch) in batches(name) {
            bench.take(seq, &batch);
            // 64 of the 80 tokens of A and of the 104 of B are cached from the
            // first message on, as the server's `cached_tokens` said.
            assert_eq!((bench.plain(&a), bench.plain(&b)), (1, 1), "{name} {seq}");
            assert_eq!(bench.found(&a, &lora), usize::from((3..6).contains(&seq)), "{name} {seq}");
            assert_eq!(bench.found(&a, &salted), usize::from((4..6).contains(&seq)), "{name} {seq}");
        }
        assert_eq!(bench.map.index_block(), Some(64));
        assert_eq!((bench.map.blocks(), bench.map.index_blocks()), (2, 1), "after the reset");
        let counters = bench.map.counters();
        assert_eq!((counters.stored, counters.cleared, counters.unplaced), (11, 1, 0));
    }
}

#[test]
fn evictions_from_a_small_cache() {
    let mut bench = Bench::new();
    for (seq, batch) in batches("evictions.hex") {
        bench.take(seq, &batch);
    }
    let counters = bench.map.counters();
    assert_eq!((counters.stored, counters.removed, counters.unknown_removed), (112, 52, 2));
    assert_eq!(bench.map.blocks(), 60);
}

#[test]
fn two_ranks_behind_one_address() {
    let mut bench = Bench::new();
    let mut all: Vec<_> = ["rank0.hex", "rank1.hex"].into_iter().flat_map(batches).collect();
    all.sort_by(|a, b| a.1.ts.total_cmp(&b.1.ts));
    for (seq, batch) in all {
        bench.take(seq, &batch);
    }
    assert_eq!(bench.map.counters().stored, 49 + 50);
    let with_one = bench.map.index_blocks();
    let mut ops = Vec::new();
    bench.map.reset(1, &mut ops);
    lead(&bench.index, ENDPOINT, &ops);
    bench.account.apply(1, &KvEvent::Cleared);
    bench.apply(0, &[]);
    assert!(bench.map.index_blocks() < with_one && bench.map.blocks() >= 49);
}

/// The blocks of the recordings with full digests in place of 64 bits: what
/// their names are makes no difference.
#[test]
fn whole_digests_name_blocks_as_well() {
    for seed in ["0", "vllm-none-hash"] {
        let mut bench = Bench::new();
        let text = data("block_hashes.tsv");
        let rows = text.lines().map(|line| line.split('\t').collect::<Vec<_>>()).filter(|row| row[0] == seed);
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows.len(), 11);
        let roots = &rows[0][1];
        let (mut names, mut prompts) = (BTreeSet::new(), 0);
        for row in &rows {
            let (parent, own) = (unhex(row[1]), unhex(row[2]));
            let mut event = vec![0x91, 0x98, 0xab];
            event.extend(b"BlockStored");
            event.push(0x91);
            bin(&own, &mut event);
            if row[1] == *roots {
                event.push(0xc0)
            } else {
                bin(&parent, &mut event)
            }
            let tokens: Vec<u16> = row[5].split(',').map(|id| id.parse().unwrap()).collect();
            event.extend([0xdc, 0, tokens.len() as u8]);
            tokens.iter().for_each(|id| event.extend([&[0xcd], &id.to_be_bytes()[..]].concat()));
            let adapter = row[4].contains("lora1");
            event.extend([32, if adapter { 1 } else { 0xc0 }, 0xa3]);
            event.extend(b"GPU");
            event.extend(if adapter { b"\xa5lora1".as_slice() } else { b"\xc0" });
            if row[4].contains("tenant-a") {
                event[1] = 0x99;
                event.extend(b"\x91\x91\xa8tenant-a");
            }
            let mut payload = vec![0x93, 0x00];
            payload.extend(event);
            payload.push(0);
            let batch = decode_batch(&payload).unwrap();
            let KvEvent::Stored(stored) = &batch.events[0] else { panic!("{batch:?}") };
            assert_eq!(stored.hashes[0].to_string(), row[3], "the name on the wire");
            names.insert(stored.hashes[0]);
            prompts += usize::from(stored.parent.is_none());
            bench.apply(0, &batch.events);
        }
        let counters = *bench.map.counters();
        assert_eq!((counters.stored + counters.repeated, counters.unplaced), (11, 0));
        assert_eq!(bench.map.blocks(), names.len());
        assert!(prompts >= 4 && bench.map.index_blocks() >= 3);
    }
}

fn bin(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend([0xc4, bytes.len() as u8]);
    out.extend(bytes);
}
