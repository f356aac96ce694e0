//! Bytes that a real vLLM 0.32 sent.

use std::fs;
use std::path::Path;

use super::*;

/// The messages of one recording: topic, sequence number, payload.
fn recording(name: &str) -> Vec<[Vec<u8>; 3]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kv").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let messages: Vec<[Vec<u8>; 3]> = lines
        .map(|line| line.split(' ').map(unhex).collect::<Vec<_>>().try_into().expect("three frames"))
        .collect();
    assert!(!messages.is_empty(), "{name}");
    messages
}

pub(super) fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn batches(name: &str) -> Vec<(u64, Batch)> {
    let messages = recording(name);
    let read = messages.iter().map(|[topic, seq, payload]| match parse_message(&[topic, seq, payload]) {
        Ok(Message::Batch { topic, seq, payload }) => {
            assert!(topic.starts_with(b"kv@127.0.0.1:"));
            (seq, decode_batch(payload).unwrap_or_else(|e| panic!("{name} {seq}: {e}")))
        }
        other => panic!("{name}: {other:?}"),
    });
    read.collect()
}

fn stored(event: &KvEvent) -> &Stored {
    match event {
        KvEvent::Stored(stored) => stored,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_steps_of_one_server() {
    let steps = batches("steps.hex");
    assert_eq!(steps.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    assert!(steps.iter().all(|(_, batch)| batch.dp_rank == Some(0) && batch.skipped == 0));

    let a = stored(&steps[0].1.events[0]);
    assert_eq!(a.hashes, [702_757_842_669_265_042, 12_727_516_518_541_667_169]);
    assert_eq!(a.tokens, (100..164).collect::<Vec<_>>());
    assert_eq!((a.parent, a.block_size, a.tier, a.group), (None, 32, Tier::Gpu, Some(0)));
    assert_eq!((a.attention, a.identified), (Attention::Full, 2));
    assert_eq!((&a.adapter, &a.salt), (&None, &None));
    assert!((steps[0].1.ts - 1_795_970_116.0).abs() < 1.0);

    let b = stored(&steps[1].1.events[0]);
    assert_eq!(b.parent, Some(12_727_516_518_541_667_169));
    assert_eq!(b.tokens, (300..332).collect::<Vec<_>>());

    let lora = stored(&steps[3].1.events[0]);
    assert_eq!((lora.adapter.as_deref(), lora.identified), (Some("lora1"), 2));
    assert_eq!(lora.salt, None, "the adapter's name among the extra keys is no salt");

    let salted = stored(&steps[4].1.events[0]);
    assert_eq!((salted.salt.as_deref(), salted.identified), (Some("tenant-a"), 2));

    assert_eq!(steps[6].1.events[0], KvEvent::Cleared, "a reset comes with the next step");
    assert_eq!(stored(&steps[6].1.events[1]).hashes, a.hashes);
}

#[test]
fn two_ranks_say_which_they_are() {
    for (name, rank) in [("rank0.hex", 0), ("rank1.hex", 1)] {
        assert!(batches(name).iter().all(|(_, batch)| batch.dp_rank == Some(rank)), "{name}");
    }
}

#[test]
fn evictions() {
    let batches = batches("evictions.hex");
    assert_eq!((batches[0].0, batches.len()), (7, 45));
    let removed = batches.iter().flat_map(|(_, batch)| &batch.events).filter_map(|event| match event {
        KvEvent::Removed(removed) => Some(removed),
        _ => None,
    });
    let removed: Vec<_> = removed.collect();
    assert!(removed.iter().all(|r| r.tier == Some(Tier::Gpu) && r.group == Some(0)));
    assert_eq!(removed.iter().map(|r| r.hashes.len()).sum::<usize>(), 54);
}

#[test]
fn damaged_batches_are_errors_and_never_more() {
    for name in ["steps.hex", "evictions.hex"] {
        for [_, _, payload] in recording(name).into_iter().take(8) {
            for cut in 0..payload.len() {
                assert!(decode_batch(&payload[..cut]).is_err());
            }
            for at in 0..payload.len() {
                for value in [0x00, 0x90, 0x9f, 0xc0, 0xc1, 0xdd, 0xdf, 0xff] {
                    let mut damaged = payload.clone();
                    damaged[at] = value;
                    drop(decode_batch(&damaged));
                }
            }
        }
    }
}

#[test]
fn the_sources_of_servers() {
    let two = br#"{"1":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://127.0.0.1:15558","replay_endpoint":"tcp://127.0.0.1:15658","buffer_steps":10000,"hwm":100000,"max_queue_size":100000,"topic":"kv@127.0.0.1:18003@tiny"},"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://127.0.0.1:15557","replay_endpoint":"tcp://127.0.0.1:15657","buffer_steps":10000,"hwm":100000,"max_queue_size":100000,"topic":"kv@127.0.0.1:18003@tiny"}}"#;
    let sources = decode_sources(two).unwrap();
    let seen: Vec<_> = sources.iter().map(|s| (s.rank, s.endpoint.as_str(), s.replay.as_deref())).collect();
    assert_eq!(
        seen,
        [
            (0, "tcp://127.0.0.1:15557", Some("tcp://127.0.0.1:15657")),
            (1, "tcp://127.0.0.1:15558", Some("tcp://127.0.0.1:15658")),
        ]
    );
    assert_eq!(sources[0].topic, "kv@127.0.0.1:18003@tiny");

    let off = br#"{"0":{"enable_kv_cache_events":false,"publisher":"null","endpoint":"tcp://*:5557","replay_endpoint":null,"topic":""},"1":{"enable_kv_cache_events":true,"publisher":"null","endpoint":"x"}}"#;
    assert_eq!(decode_sources(off), Ok(Vec::new()));
    assert!(decode_sources(b"[]").is_err());
}
