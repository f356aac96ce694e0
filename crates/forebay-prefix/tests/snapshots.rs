//! Snapshots: there and back, damage, and what restored entries are worth.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{EndpointId, Time};
use forebay_prefix::{IndexConfig, Matches, PrefixIndex, Restored, SnapshotError, Tier, chain, next};
use proptest::prelude::*;

fn endpoint(slot: u32) -> EndpointId {
    EndpointId { slot, generation: 0 }
}

fn prompt(shared: u64, own: u64, n: u64) -> Arc<[u64]> {
    chain(5, &(0..shared).chain((0..own).map(|i| next(n + 1, i))).collect::<Vec<_>>())
}

fn name(id: EndpointId) -> Option<String> {
    (id.slot < 100).then(|| format!("http://10.0.0.{}:8000", id.slot))
}

fn resolve(name: &str) -> Option<EndpointId> {
    let slot: u32 = name.strip_prefix("http://10.0.0.")?.strip_suffix(":8000")?.parse().ok()?;
    (slot != 7).then(|| EndpointId { slot: slot + 1000, generation: 3 })
}

fn blocks(index: &PrefixIndex, chain: &[u64], endpoint: EndpointId) -> u32 {
    let mut out = Matches::new();
    index.lookup(chain, &mut out);
    out.get(endpoint).map_or(0, |m| m.blocks)
}

/// Ten endpoints with common and own prompts, in all three ways.
fn filled() -> PrefixIndex {
    let index = PrefixIndex::new(IndexConfig::default());
    for slot in 0..10u32 {
        for n in 0..5 {
            let prompt = prompt(70, 30, u64::from(slot) * 10 + n);
            index.commit(endpoint(slot), &prompt, Time::from_nanos(n * 1_000_000_000));
        }
        index.insert_confirmed(endpoint(slot), &prompt(0, 20, 900 + u64::from(slot)));
        index.insert_confirmed_after(endpoint(slot), Tier::Host, None, &prompt(0, 20, 950));
        index.begin(endpoint(slot), &prompt(0, 9, 970));
    }
    index.commit(endpoint(200), &prompt(0, 5, 5), Time::ZERO);
    index
}

fn sure() -> IndexConfig {
    IndexConfig { restored_confidence: 1.0, ..IndexConfig::default() }
}

#[test]
fn what_was_ready_comes_back() {
    let old = filled();
    let bytes = old.snapshot(name);
    let index = PrefixIndex::new(sure());
    let restored = index.restore(&bytes, resolve).unwrap();
    // Each: 70 common blocks, 5 × 30 of its own, 20 confirmed.
    assert_eq!(restored, Restored { endpoints: 9, unknown: 1, blocks: 9 * 240 });
    for slot in (0..10).filter(|slot| *slot != 7) {
        let id = EndpointId { slot: slot + 1000, generation: 3 };
        for n in 0..5 {
            assert_eq!(blocks(&index, &prompt(70, 30, u64::from(slot) * 10 + n), id), 100);
        }
        assert_eq!(blocks(&index, &prompt(0, 20, 900 + u64::from(slot)), id), 20);
        assert_eq!(blocks(&index, &prompt(0, 20, 950), id), 0, "what was only in host memory is not kept");
        assert_eq!(blocks(&index, &prompt(0, 9, 970), id), 0, "nor what was only in flight");
    }
    // What it was ordered by comes back, too: the oldest leaf goes first.
    let id = EndpointId { slot: 1000, generation: 3 };
    index.set_capacity(id, Some(220));
    assert_eq!(blocks(&index, &prompt(70, 30, 4), id), 100);
    index.set_capacity(id, Some(160));
    assert_eq!(blocks(&index, &prompt(70, 30, 4), id), 100);
    assert_eq!(blocks(&index, &prompt(70, 30, 1), id), 70);
    // And so does what follows what: one lost block takes its followers along.
    let id = EndpointId { slot: 1001, generation: 3 };
    index.correct(id, &prompt(70, 30, 10), 20, 100, Time::ZERO);
    let worth = index.confidence(id);
    assert!(worth < 1.0, "an answer that contradicts counts whatever they were worth");
    assert_eq!(blocks(&index, &prompt(70, 30, 12), id), (20.0 * worth).round() as u32);
    assert_eq!(index.snapshot(|_| None).len(), PrefixIndex::new(sure()).snapshot(name).len());
}

#[test]
fn confidence_returns_with_answers_that_confirm_and_goes_with_those_that_do_not() {
    let bytes = filled().snapshot(name);
    let index = PrefixIndex::new(IndexConfig::default());
    index.restore(&bytes, resolve).unwrap();
    let id = |slot: u32| EndpointId { slot: slot + 1000, generation: 3 };
    let known = prompt(70, 30, 0);
    assert_eq!(blocks(&index, &known, id(0)), 50, "half of what it was");
    index.correct(id(0), &known, 100, 50, Time::ZERO);
    assert!(index.confidence(id(0)) > 0.8, "{}", index.confidence(id(0)));
    (0..4).for_each(|_| index.correct(id(0), &known, 100, 90, Time::ZERO));
    assert_eq!((index.confidence(id(0)), blocks(&index, &prompt(70, 30, 3), id(0))), (1.0, 100));

    let known = prompt(70, 30, 10);
    index.correct(id(1), &known, 0, 50, Time::ZERO);
    assert!(index.confidence(id(1)) <= 0.25);
    assert_eq!(blocks(&index, &prompt(70, 30, 11), id(1)), 0, "its common start is lost");

    // Nothing is heard of the third: it fades, and is dropped in the end.
    index.tick(Time::ZERO);
    let mut last = index.confidence(id(2));
    for minutes in 1..=30 {
        index.tick(Time::ZERO + Duration::from_secs(60 * minutes));
        let now = index.confidence(id(2));
        assert!(now < last || now == 1.0, "{last} {now} after {minutes} minutes");
        last = now;
    }
    assert_eq!(blocks(&index, &prompt(70, 30, 20), id(2)), 0);

    // What was served since is worth all of it.
    index.commit(id(2), &prompt(0, 10, 5), Time::ZERO);
    assert_eq!(blocks(&index, &prompt(0, 10, 5), id(2)), 10);
}

#[test]
fn damage_is_named_and_changes_nothing() {
    let bytes = filled().snapshot(name);
    let index = PrefixIndex::new(IndexConfig::default());
    let refused = |bytes: &[u8]| {
        let error = index.restore(bytes, resolve).unwrap_err();
        assert_eq!(index.stats().holds, 0);
        error
    };
    assert_eq!(refused(b""), SnapshotError::NotASnapshot);
    assert_eq!(refused(b"GIF89a"), SnapshotError::NotASnapshot);
    let need = bytes.len() as u64;
    for cut in [4, 10, 20, bytes.len() / 2, bytes.len() - 1] {
        assert!(matches!(refused(&bytes[..cut]), SnapshotError::Length { have, .. } if have == cut as u64));
    }
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(refused(&longer), SnapshotError::Length { have: need + 1, need });
    let mut other = bytes.clone();
    other[4] = 9;
    assert_eq!(refused(&other), SnapshotError::Version { found: 9, expected: 1 });
    assert_eq!(refused(&other).to_string(), "snapshot version 9; this build reads version 1");
    for at in [16, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        assert_eq!(refused(&damaged), SnapshotError::Checksum);
    }
}

/// With a checksum that fits, so that the content itself is looked at.
fn sealed(mut content: Vec<u8>) -> Vec<u8> {
    let len = content.len() as u64 + 8;
    content[8..16].copy_from_slice(&len.to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&content);
    content.extend_from_slice(&sum.to_le_bytes());
    content
}

#[test]
fn content_that_makes_no_sense_is_refused() {
    let head = |parts: &[&[u8]]| {
        let mut content = b"FBPX\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        parts.iter().for_each(|part| content.extend_from_slice(part));
        sealed(content)
    };
    let index = PrefixIndex::new(IndexConfig::default());
    let what = |bytes: Vec<u8>| match index.restore(&bytes, resolve).unwrap_err() {
        SnapshotError::Malformed { what, .. } => what,
        other => panic!("{other}"),
    };
    let (zero, one, none) = (0u32.to_le_bytes(), 1u32.to_le_bytes(), 9u64.to_le_bytes());
    assert_eq!(what(head(&[&one, &[0], &zero])), "a run of an impossible length");
    assert_eq!(what(head(&[&one, &[65], &zero])), "a run of an impossible length");
    assert_eq!(what(head(&[&one, &[2], &none])), "the content ends early");
    assert_eq!(what(head(&[&zero, &one, &[1, 0, 0xFF], &zero])), "a name that is not UTF-8");
    assert_eq!(what(head(&[&zero, &one, &[1, 0, b'a'], &one, &one, &zero])), "a run that is not there");
    let run: &[&[u8]] = &[&one, &[1], &none, &one, &[1, 0, b'a'], &one, &zero, &one];
    assert_eq!(what(head(run)), "a parent that comes later");
    assert_eq!(what(head(&[&zero, &zero, &[7]])), "bytes after the last endpoint");
    assert_eq!(what(head(&[&zero, &u32::MAX.to_le_bytes()])), "the content ends early");
}

proptest! {
    #[test]
    fn any_damage_is_refused_or_harmless(at in any::<prop::sample::Index>(), with in any::<u8>(), seal in any::<bool>()) {
        let mut bytes = filled().snapshot(name);
        let at = at.index(bytes.len() - 8);
        bytes[at] ^= with;
        if seal {
            bytes.truncate(bytes.len() - 8);
            bytes = sealed(bytes);
        }
        let index = PrefixIndex::new(IndexConfig::default());
        if index.restore(&bytes, resolve).is_ok() {
            for slot in 0..3000 {
                index.retire(EndpointId { slot, generation: 3 });
            }
            (0..50).for_each(|_| index.tick(Time::ZERO));
            prop_assert_eq!(index.stats().blocks, 0);
        } else {
            prop_assert_eq!(index.stats().blocks, 0);
        }
    }
}
