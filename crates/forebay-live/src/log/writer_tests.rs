use std::fs;

use forebay_core::Time;
use forebay_gate::{Effects, Event, Gate};

use super::*;

fn writer(path: &Path, max: u64) -> Writer {
    Writer {
        path: path.to_owned(),
        max,
        file: BufWriter::new(open(path).unwrap()),
        bytes: 0,
        snapshots: BTreeMap::new(),
        number: 0,
        counts: Arc::default(),
        frame: Vec::new(),
        flushed: now(),
        broken_until: None,
        full: false,
    }
}

/// An entry of the newest file comes, after the wait for the next try.
fn push(writer: &mut Writer) -> bool {
    writer.broken_until = writer.broken_until.map(|_| now());
    let written = writer.write(0, writer.number, &Entry::Apply(Time::ZERO, Event::Timer, Effects::default()));
    writer.file.flush().unwrap();
    written.unwrap()
}

#[test]
fn a_file_that_cannot_be_put_aside_does_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.log");
    let before = aside(&path);
    fs::create_dir(&before).unwrap();
    let mut writer = writer(&path, 100);
    while !writer.full {
        assert!(push(&mut writer));
    }
    let length = fs::metadata(&path).unwrap().len();
    assert!(length < 100 + 200, "{length}: one entry more than it may be at most");
    for _ in 0..50 {
        assert!(!push(&mut writer));
    }
    // While it waits for the next try, too.
    let waits = writer.broken_until;
    assert!(waits.is_some_and(|until| until > now()));
    assert!(!writer.write(0, 0, &Entry::Apply(Time::ZERO, Event::Timer, Effects::default())).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().len(), length);
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!((count(&writer.counts.full), count(&writer.counts.failed)), (51, 0));

    // As soon as it can be put aside, a new one begins, with every Gate's snapshot.
    fs::remove_dir(&before).unwrap();
    assert!(!push(&mut writer), "it was sent for the file before");
    assert_eq!((writer.full, count(&writer.counts.file), count(&writer.counts.lost)), (false, 1, 1));
    assert_eq!(fs::metadata(&before).unwrap().len(), length);
    assert!(push(&mut writer));
    assert!(fs::metadata(&path).unwrap().len() > heading().len() as u64);
}

#[test]
fn a_file_that_is_gone_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.log");
    let mut writer = writer(&path, 1);
    fs::remove_file(&path).unwrap();
    assert!(push(&mut writer), "to what has no name any more");
    assert!(!writer.full);
    assert_eq!(fs::metadata(&path).unwrap().len(), heading().len() as u64);
}

#[test]
fn a_file_holds_more_than_its_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.log");
    let mut writer = writer(&path, 1);
    let snapshot = Entry::Snapshot(Box::new(Gate::new(1)));
    assert!(writer.write(0, 0, &snapshot).unwrap() && writer.write(1, 0, &snapshot).unwrap());
    let beginning = writer.bytes;
    let mut entries = 0;
    while writer.number == 0 {
        assert!(push(&mut writer));
        entries += 1;
    }
    assert!(entries > 5, "a new file after {entries} entries and {beginning} bytes of snapshots");
    // Twice what they take and no more, however many failures made them come again.
    assert!(writer.write(0, 1, &snapshot).unwrap() && writer.write(0, 1, &snapshot).unwrap());
    while writer.number == 1 {
        assert!(push(&mut writer));
    }
    let length = fs::metadata(aside(&path)).unwrap().len();
    assert!(length < 2 * beginning + 500, "{length} bytes");
}
