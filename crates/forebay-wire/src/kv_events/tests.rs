//! The shapes of other versions and engines, and bytes that are none.

use proptest::prelude::*;

use super::capture_tests::unhex;
use super::*;

fn decode(hex: &str) -> Batch {
    decode_batch(&unhex(hex)).unwrap_or_else(|e| panic!("{e}"))
}

/// msgpack of a few values, for events that no recording has.
enum Mp<'a> {
    Nil,
    I(i64),
    S(&'a str),
    B(&'a [u8]),
    A(Vec<Mp<'a>>),
    M(Vec<(&'a str, Mp<'a>)>),
}

use Mp::{A, B, I, M, Nil, S};

fn write(value: &Mp<'_>, out: &mut Vec<u8>) {
    match value {
        Nil => out.push(0xc0),
        I(n) => {
            out.push(0xd3);
            out.extend(n.to_be_bytes());
        }
        S(text) => {
            out.extend([0xd9, text.len() as u8]);
            out.extend(text.as_bytes());
        }
        B(bytes) => {
            out.extend([0xc4, bytes.len() as u8]);
            out.extend(*bytes);
        }
        A(values) => {
            out.push(0xdc);
            out.extend((values.len() as u16).to_be_bytes());
            values.iter().for_each(|value| write(value, out));
        }
        M(pairs) => {
            out.push(0xde);
            out.extend((pairs.len() as u16).to_be_bytes());
            for (key, value) in pairs {
                write(&S(key), out);
                write(value, out);
            }
        }
    }
}

fn batch_of(events: Vec<Mp<'_>>) -> Result<Batch, KvEventError> {
    let mut out = Vec::new();
    write(&A(vec![I(1), A(events)]), &mut out);
    decode_batch(&out)
}

fn ints(range: std::ops::Range<i64>) -> Mp<'static> {
    A(range.map(I).collect())
}

fn stored_of(events: Vec<Mp<'_>>) -> Stored {
    match batch_of(events).map(|batch| batch.events.into_iter().next()) {
        Ok(Some(KvEvent::Stored(stored))) => stored,
        other => panic!("{other:?}"),
    }
}

/// A stored event in map form: two blocks of two tokens, and `more`.
fn map_event<'a>(more: Vec<(&'a str, Mp<'a>)>) -> Vec<Mp<'a>> {
    let mut pairs = vec![
        ("type", S("BlockStored")),
        ("block_hashes", ints(7..9)),
        ("parent_block_hash", Nil),
        ("token_ids", ints(1..5)),
        ("block_size", I(2)),
    ];
    pairs.extend(more);
    vec![M(pairs)]
}

fn plain(hashes: &[u64], parent: Option<u64>, tokens: &[u32], size: u32) -> Stored {
    Stored {
        hashes: hashes.to_vec(),
        parent,
        tokens: tokens.to_vec(),
        block_size: size,
        declared: true,
        adapter: None,
        salt: None,
        tier: Tier::Gpu,
        group: None,
        attention: Attention::Unknown,
        identified: hashes.len(),
    }
}

#[test]
fn arrays_of_old_versions() {
    let batch = decode(
        "93cb3ff80000000000009298ab426c6f636b53746f726564920708c0940102030402c0a3475055c091b0416c6c426c6f636b73436c656172656400",
    );
    assert_eq!((batch.ts, batch.dp_rank, batch.skipped), (1.5, Some(0), 0));
    assert_eq!(batch.events, [KvEvent::Stored(plain(&[7, 8], None, &[1, 2, 3, 4], 2)), KvEvent::Cleared]);
}

#[test]
fn maps_of_new_versions() {
    let batch = decode(
        "93cb3ff80000000000009388a474797065ab426c6f636b53746f726564ac626c6f636b5f686173686573920708b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c083a474797065ac426c6f636b52656d6f766564ac626c6f636b5f6861736865739107a66d656469756da347505581a474797065b0416c6c426c6f636b73436c656172656400",
    );
    let removed = Removed { hashes: vec![7], tier: Some(Tier::Gpu), group: None };
    let stored = plain(&[7, 8], None, &[1, 2, 3, 4], 2);
    assert_eq!(batch.events, [KvEvent::Stored(stored), KvEvent::Removed(removed), KvEvent::Cleared]);
}

#[test]
fn fields_may_be_missing_or_too_many() {
    // vLLM 0.10 ends at lora_id; a version to come may go on.
    let short = vec![S("BlockStored"), ints(7..9), Nil, ints(1..5), I(2), Nil];
    assert_eq!(stored_of(vec![A(short)]), plain(&[7, 8], None, &[1, 2, 3, 4], 2));
    let mut long = vec![S("BlockStored"), ints(7..9), I(6), ints(1..5), I(2), Nil, S("CPU")];
    long.extend([Nil, Nil, I(3), A(vec![M(vec![])]), S("more")]);
    let expect = Stored { tier: Tier::Host, group: Some(3), ..plain(&[7, 8], Some(6), &[1, 2, 3, 4], 2) };
    assert_eq!(stored_of(vec![A(long)]), expect);
    let unknown = map_event(vec![("session_id", S("x")), ("lookahead_token_ids", ints(0..9))]);
    assert_eq!(stored_of(unknown), plain(&[7, 8], None, &[1, 2, 3, 4], 2));
}

#[test]
fn event_types_to_come_are_counted_and_left_out() {
    let batch = batch_of(vec![
        M(vec![("type", S("BlockMoved")), ("block_hashes", S("something else"))]),
        A(vec![S("BlockMoved"), I(1)]),
        M(vec![("a", A(vec![I(1)])), ("type", S("AllBlocksCleared"))]),
    ]);
    let batch = batch.unwrap();
    assert_eq!((batch.skipped, batch.events), (2, vec![KvEvent::Cleared]));
}

#[test]
fn hashes_are_sixty_four_bits_however_they_are_written() {
    let digest: Vec<u8> = (0..32).collect();
    let event = vec![S("BlockRemoved"), A(vec![I(-2), B(&digest), B(&digest[..3]), I(5)]), S("CPU_PINNED")];
    let batch = batch_of(vec![A(event)]).unwrap();
    let hashes = vec![u64::MAX - 1, 0x1819_1a1b_1c1d_1e1f, 0x0102, 5];
    assert_eq!(batch.events, [KvEvent::Removed(Removed { hashes, tier: Some(Tier::Host), group: None })]);
}

#[test]
fn mediums_are_tiers() {
    for (medium, tier) in [
        ("GPU", Tier::Gpu),
        ("CPU", Tier::Host),
        ("CPU_PINNED", Tier::Host),
        ("DISK", Tier::Other),
        ("STORAGE", Tier::Other),
        ("EXTERNAL", Tier::Other),
    ] {
        assert_eq!(stored_of(map_event(vec![("medium", S(medium))])).tier, tier, "{medium}");
    }
    let remote = map_event(vec![("medium", S("CPU")), ("locality", S("REMOTE"))]);
    assert_eq!(stored_of(remote).tier, Tier::Other);
}

#[test]
fn kinds_of_attention() {
    for (kind, attention) in [
        ("full_attention", Attention::Full),
        ("mla_attention", Attention::Full),
        ("sink_full_attention", Attention::Full),
        ("sliding_window", Attention::Other),
        ("mamba", Attention::Other),
        ("unknown", Attention::Unknown),
    ] {
        assert_eq!(stored_of(map_event(vec![("kv_cache_spec_kind", S(kind))])).attention, attention);
    }
}

#[test]
fn extra_keys_tell_what_tokens_do_not() {
    let extra = |more: Vec<(&'static str, Mp<'static>)>| {
        let stored = stored_of(map_event(more));
        (stored.salt, stored.identified)
    };
    let salt = |text: &str| Some(text.to_owned());
    let keys = |blocks: Vec<Mp<'static>>| ("extra_keys", A(blocks));
    assert_eq!(extra(vec![keys(vec![Nil, Nil])]), (None, 2));
    assert_eq!(extra(vec![keys(vec![A(vec![S("t")]), Nil])]), (salt("t"), 2));
    // An image in the second block, then in the first beside a salt.
    let image = || A(vec![S("0a1b"), I(-3)]);
    assert_eq!(extra(vec![keys(vec![A(vec![S("t")]), A(vec![image()])])]), (salt("t"), 1));
    assert_eq!(extra(vec![keys(vec![A(vec![image(), S("t")]), Nil])]), (None, 0));
    // Prompt embeddings: a digest after the salt, as bytes or as text.
    assert_eq!(extra(vec![keys(vec![A(vec![S("t"), B(&[1, 2])]), Nil])]), (None, 0));
    assert_eq!(extra(vec![keys(vec![A(vec![S("t"), S("digest")]), Nil])]), (None, 0));
    // A bare text in a later block is no salt.
    assert_eq!(extra(vec![keys(vec![Nil, A(vec![S("0a1b")])])]), (None, 1));
    let adapter = |name: &'static str| ("lora_name", S(name));
    // The adapter's name leads, whichever field comes first.
    let named = keys(vec![A(vec![S("ad"), S("t")]), A(vec![S("ad")])]);
    assert_eq!(extra(vec![named, adapter("ad")]), (salt("t"), 2));
    // The tagged form of the hash itself.
    let tagged = keys(vec![
        A(vec![A(vec![S("lora"), S("ad"), S("/p")]), A(vec![S("cache_salt"), S("t")])]),
        A(vec![A(vec![S("lora"), S("ad"), S("/p")])]),
    ]);
    assert_eq!(extra(vec![tagged, adapter("ad")]), (salt("t"), 2));
    // SGLang names the salt in a field of its own.
    assert_eq!(extra(vec![("cache_salt", S("t"))]), (salt("t"), 2));
    // An adapter without a name (vLLM up to 0.13) could be any.
    assert_eq!(extra(vec![("lora_id", I(1))]), (None, 0));
}

#[test]
fn pairs_and_odd_numbers_in_place_of_tokens() {
    let pairs = A(vec![A(vec![I(1), I(2)]), A(vec![I(2), I(3)]), I(3), I(4)]);
    let event = vec![S("BlockStored"), ints(7..9), Nil, pairs, I(2)];
    assert_eq!(stored_of(vec![A(event)]).tokens, [1, 2, 3, 4]);
    // What stands for an image is no token id.
    let odd = A(vec![I(1), I(2), I(-7), I(4)]);
    let event = vec![S("BlockStored"), ints(7..9), Nil, odd, I(2)];
    assert_eq!(stored_of(vec![A(event)]).identified, 1);
}

#[test]
fn a_copy_in_a_lower_tier_has_no_tokens() {
    let event = vec![S("BlockStored"), ints(7..9), Nil, ints(0..0), I(2), Nil, S("CPU")];
    assert_eq!(stored_of(vec![A(event)]).tokens, [0; 0]);
}

#[test]
fn wrong_types_are_named_with_their_place() {
    let wrong = |field: &'static str, value: Mp<'static>| {
        let error = batch_of(map_event(vec![(field, value)])).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("byte "), "{error}");
    };
    wrong("block_size", S("two"));
    wrong("block_size", I(0));
    wrong("block_size", I(1 << 20));
    wrong("block_hashes", I(1));
    wrong("token_ids", S("x"));
    wrong("medium", I(1));
    wrong("extra_keys", I(1));
    for event in [I(1), A(vec![]), M(vec![("block_size", I(1))]), A(vec![I(1)])] {
        assert!(batch_of(vec![event]).is_err());
    }
    for hex in ["", "c0", "91cb3ff8000000000000", "9201", "920190c0", "9301909190", "930190ff"] {
        assert!(decode_batch(&unhex(hex)).is_err(), "{hex}");
    }
    // A fourth part of a batch is one to come.
    assert_eq!(decode("94019003c0").dp_rank, Some(3));
}

#[test]
fn messages_published_and_replayed() {
    let seq = 9u64.to_be_bytes();
    let batch = |topic| Ok(Message::Batch { topic, seq: 9, payload: &b"p"[..] });
    assert_eq!(parse_message(&[b"kv", &seq, b"p"]), batch(b"kv"));
    assert_eq!(parse_message(&[b"", b"kv", &seq, b"p"]), batch(b"kv"));
    assert_eq!(parse_message(&[b"", &seq, b"p"]), batch(b""));
    assert_eq!(parse_message(&[&seq, b"p"]), batch(b""));
    let end = [0xff; 8];
    assert_eq!(parse_message(&[b"", b"", &end, b""]), Ok(Message::ReplayEnd));
    assert_eq!(parse_message(&[b"", &end, b""]), Ok(Message::ReplayEnd));
    for frames in [&[][..], &[&b"kv"[..]], &[b"kv", b"9", b"p"], &[b"x", b"kv", &seq, b"p"]] {
        let error = parse_message(frames).unwrap_err().to_string();
        assert!(error.contains(&format!("of {} frames", frames.len())), "{error}");
    }
    assert_eq!(replay_request(3), [0, 0, 0, 0, 0, 0, 0, 3]);
}

const TRTLLM: &str = r#"[
 {"event_id":0,"data":{"type":"created","num_blocks_per_cache_level":[101,230]},"window_size":256},
 {"event_id":1,"data":{"type":"stored","parent_hash":null,"blocks":[
   {"type":"stored_block","block_hash":4203099703668305365,"tokens":[{"type":"unique_token","token_id":1,"token_extra_id":0},{"type":"unique_token","token_id":2,"token_extra_id":0}],"cache_level":0,"priority":35},
   {"type":"stored_block","block_hash":17364321298311374107,"tokens":[{"type":"unique_token","token_id":3,"token_extra_id":0}],"cache_level":1,"priority":35}]},"window_size":256,"attention_dp_rank":1},
 {"event_id":2,"data":{"type":"updated","block_hash":4203099703668305365,"cache_level":{"type":"event_diff","new_value":1,"old_value":0},"priority":null}},
 {"event_id":3,"data":{"type":"updated","block_hash":4203099703668305365}},
 {"event_id":4,"data":{"type":"stored","parent_hash":7,"blocks":[{"block_hash":8,"tokens":[{"token_id":1,"token_extra_id":5}]}]}},
 {"event_id":5,"data":{"type":"removed","block_hashes":[17364321298311374107]}}
]"#;

#[test]
fn tensorrt_llm_says_the_same_in_json() {
    let events = decode_trtllm(TRTLLM.as_bytes()).unwrap();
    assert_eq!(events.iter().map(|e| e.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(events[0].events, []);
    let (first, second) = (4_203_099_703_668_305_365, 17_364_321_298_311_374_107);
    let group = Some(256);
    // What a block of it has is not said: the last of a prompt may have fewer tokens.
    let plain = |hashes: &[u64], parent, tokens: &[u32], size| Stored {
        declared: false,
        ..plain(hashes, parent, tokens, size)
    };
    assert_eq!(
        events[1].events,
        [
            KvEvent::Stored(Stored { group, ..plain(&[first], None, &[1, 2], 2) }),
            KvEvent::Stored(Stored { group, tier: Tier::Host, ..plain(&[second], Some(first), &[3], 1) }),
        ]
    );
    assert_eq!(events[1].rank, Some(1));
    assert_eq!(
        events[2].events,
        [
            KvEvent::Stored(Stored { tier: Tier::Host, ..plain(&[first], None, &[], 1) }),
            KvEvent::Removed(Removed { hashes: vec![first], tier: Some(Tier::Gpu), group: None }),
        ]
    );
    assert_eq!(events[3].events, []);
    assert_eq!(
        events[4].events,
        [KvEvent::Stored(Stored { identified: 0, ..plain(&[8], Some(7), &[1], 1) })]
    );
    assert_eq!(
        events[5].events,
        [KvEvent::Removed(Removed { hashes: vec![second], tier: None, group: None })]
    );
    for bad in ["", "{}", r#"[{"event_id":"x"}]"#, r#"[{"event_id":1,"data":{"type":"removed"}}]"#] {
        assert!(matches!(decode_trtllm(bad.as_bytes()), Err(KvEventError::Json(_))), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_grow(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(batch) = decode_batch(&bytes) {
            prop_assert!(batch.events.len() + batch.skipped as usize <= bytes.len());
        }
        drop(decode_sources(&bytes));
        drop(decode_trtllm(&bytes));
    }
}
