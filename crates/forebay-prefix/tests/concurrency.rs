//! Readers and writers at once: no reader sees more than was ever held, and
//! what is held all the time is seen all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use forebay_core::{EndpointId, Time};
use forebay_prefix::{IndexConfig, Matches, PrefixIndex, chain, next};

fn endpoint(slot: u32) -> EndpointId {
    EndpointId { slot, generation: 0 }
}

/// `shared` blocks in common with all, then `own` of prompt `n`.
fn prompt(shared: u64, own: u64, n: u64) -> Arc<[u64]> {
    chain(9, &(0..shared).chain((0..own).map(|i| next(n + 1, i))).collect::<Vec<_>>())
}

/// Endpoint 0 holds the shared start throughout; others come and go, runs are
/// split and joined, memory is used again and again under a tight bound.
#[test]
fn what_is_held_throughout_is_seen_throughout() {
    const SHARED: u64 = 100;
    let index = PrefixIndex::new(IndexConfig { max_bytes: 2 << 20, ..IndexConfig::default() });
    let steady = prompt(SHARED, 0, 0);
    index.begin(endpoint(0), &steady);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (index, done) = (&index, &done);
                scope.spawn(move || {
                    let mut out = Matches::new();
                    let (mut looks, mut seen) = (0u64, 0u64);
                    while !done.load(Ordering::Relaxed) || looks < 1_000 {
                        let n = looks.wrapping_mul(7) + reader;
                        let prompt = prompt(SHARED, 30, n % 50);
                        index.lookup(&prompt, &mut out);
                        for m in out.as_slice() {
                            assert!(m.blocks <= SHARED as u32 + 30);
                            // Prompt n goes to endpoint 1 + n % 20 and to none else.
                            let own = m.endpoint.slot == 1 + (n % 50) as u32 % 20;
                            assert!(own || m.blocks <= SHARED as u32, "{m:?} of prompt {}", n % 50);
                        }
                        let mut slots: Vec<u32> = out.as_slice().iter().map(|m| m.endpoint.slot).collect();
                        slots.sort_unstable();
                        slots.dedup();
                        assert_eq!(slots.len(), out.len(), "an endpoint is named once");
                        seen += u64::from(out.get(endpoint(0)).is_some_and(|m| m.blocks == SHARED as u32));
                        looks += 1;
                    }
                    (looks, seen)
                })
            })
            .collect();
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let index = &index;
                scope.spawn(move || {
                    for step in 0..6_000u64 {
                        let n = step.wrapping_mul(13).wrapping_add(writer * 17) % 50;
                        let e = endpoint(1 + n as u32 % 20);
                        let now = Time::from_nanos(step * 1_000_000);
                        let prompt = prompt(SHARED, 1 + step % 30, n);
                        match step % 11 {
                            0..=6 => {
                                index.begin(e, &prompt);
                                index.end(e, &prompt, step % 3 != 0, now);
                            }
                            7 => index.insert_confirmed(e, &prompt[(step % 90) as usize..]),
                            8 => index.remove_confirmed(e, &prompt[(step % 90) as usize..]),
                            9 => index.correct(e, &prompt, (step % 100) as u32, 120, now),
                            _ if step % 5 == 0 => index.forget(e),
                            _ => index.tick(now),
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            let (looks, seen) = reader.join().unwrap();
            // A reader may give up on a run whose writer was put to sleep in the
            // middle of a change of several words: then it sees less for a while.
            assert!(seen * 2 >= looks, "seen {seen} times of {looks}");
        }
    });
    let mut out = Matches::new();
    index.lookup(&steady, &mut out);
    assert_eq!(out.get(endpoint(0)).map(|m| m.blocks), Some(SHARED as u32));
    index.end(endpoint(0), &steady, false, Time::ZERO);
    (0..21).for_each(|slot| index.retire(endpoint(slot)));
    (0..100).for_each(|_| index.tick(Time::ZERO));
    assert_eq!(index.stats().blocks, 0);
}
