use std::sync::mpsc::{Receiver, sync_channel};

use super::*;
use crate::cell::Cell;

type Entries = Receiver<(u32, u64, Entry)>;

/// A Gate whose calls go to a writer that takes nothing of its own.
fn blocked() -> (Cell<()>, Entries, Arc<Counts>) {
    let (sender, entries) = sync_channel(IN_FLIGHT);
    let counts = Arc::new(Counts::default());
    let mut cell = Cell::new(1);
    cell.recorder = Some(Recorder::new(0, sender, Arc::clone(&counts)));
    (cell, entries, counts)
}

fn call(cell: &mut Cell<()>, times: usize) {
    for n in 0..times {
        // Everything that happens passes here; what it is makes no difference.
        let now = Time::from_nanos(n as u64);
        match n % 3 {
            0 => drop(cell.submit(now, Arc::default())),
            1 => drop(cell.repick(now, TicketId { slot: 7, generation: 7 }, RepickReason::Connect)),
            _ => drop(cell.apply(now, Event::Timer)),
        }
    }
}

fn take(entries: &Entries, counts: &Counts, times: usize) -> Vec<Entry> {
    let taken = entries.try_iter().take(times).map(|(_, _, entry)| {
        counts.waiting.fetch_sub(1, Ordering::Relaxed);
        entry
    });
    taken.collect()
}

#[test]
fn a_gate_is_not_copied_again_and_again_for_a_writer_that_stalls() {
    let (mut cell, entries, counts) = blocked();
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    // As many as there is room for, the snapshot included, and the first that is lost.
    call(&mut cell, IN_FLIGHT);
    assert_eq!(
        (read(&counts.snapshots), read(&counts.lost), read(&counts.waiting)),
        (1, 1, IN_FLIGHT as u64)
    );
    call(&mut cell, 5_000);
    assert_eq!((read(&counts.snapshots), read(&counts.lost)), (1, 5_001));
    // A little room is not enough: the next loss would be soon.
    take(&entries, &counts, IN_FLIGHT / 2);
    call(&mut cell, 1_000);
    assert_eq!((read(&counts.snapshots), read(&counts.lost)), (1, 6_001));
    // The writer has caught up: nothing is lost any more, and a snapshot comes first.
    take(&entries, &counts, IN_FLIGHT / 4);
    call(&mut cell, 5_000);
    assert_eq!((read(&counts.snapshots), read(&counts.lost)), (2, 6_001));
    take(&entries, &counts, IN_FLIGHT / 4);
    let after = take(&entries, &counts, usize::MAX);
    assert_eq!((after.len(), read(&counts.waiting)), (5_001, 0));
    assert!(matches!(after[0], Entry::Snapshot(_)));
}

#[test]
fn the_build_is_named_by_what_decides() {
    let words: Vec<&str> = build().split(' ').collect();
    assert_eq!((words.len(), words[0]), (4, env!("CARGO_PKG_VERSION")));
    assert!(words[3].len() == 16 && words[3].bytes().all(|b| b.is_ascii_hexdigit()), "{}", build());
    assert_ne!(words[3], format!("{:016x}", 0xcbf2_9ce4_8422_2325_u64), "nothing was hashed");
}
