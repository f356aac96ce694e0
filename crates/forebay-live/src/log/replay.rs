//! Reading a decision log and deciding everything again.

use std::collections::BTreeMap;
use std::io::{self, Read};

use forebay_gate::{DecisionRecord, Gate, Verdict};
use serde::Serialize;

use super::{Entry, MAGIC, heading};

/// An entry larger than this is damage, not data.
const MOST_BYTES: u32 = 256 << 20;

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// Entries read.
    pub entries: u64,
    /// Decisions made, those of woken requests included.
    pub decisions: u64,
    /// Snapshots: one for each Gate, and one after each gap.
    pub snapshots: u64,
    /// Answers that were not those of the log.
    pub mismatches: u64,
    /// The first entry that did not match, counted from 0.
    pub first_mismatch: Option<u64>,
    /// Snapshots that did not match the state that had been replayed up to there.
    pub snapshot_mismatches: u64,
    /// Bytes at the end that are not a whole entry: the writer was stopped.
    pub cut_off: u64,
    /// The log was written by another build, which may decide otherwise.
    pub other_build: bool,
    /// The build that wrote the log, as [`super::build`] names it.
    pub build: String,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("cannot read the decision log: {0}")]
    Io(#[from] io::Error),
    /// It does not begin as one.
    #[error("not a decision log: it does not begin with \"forebay decision log 1\"")]
    NotALog,
    /// Another build wrote it, and its entries have another form.
    #[error(
        "the decision log was written by another build ({build}; this is {}), whose entries cannot be read \
         here ({why}): read it with the build that wrote it",
        super::build()
    )]
    OtherBuild {
        /// The build that wrote it.
        build: String,
        /// What could not be read.
        why: String,
    },
    /// An entry makes no sense.
    #[error("entry {entry} of the decision log, at byte {at}, is damaged: {why}")]
    Damaged {
        /// Which entry, counted from 0.
        entry: u64,
        /// Where it begins.
        at: u64,
        /// What is wrong.
        why: String,
    },
}

/// Decides everything in a log again and compares. `each` sees every decision
/// as it was made now, with its explanation, and the Gate right after it.
///
/// # Errors
/// When the log cannot be read, or is damaged elsewhere than at its end.
pub fn replay(
    mut log: impl Read,
    mut each: impl FnMut(&Gate, &DecisionRecord),
) -> Result<ReplayReport, LogError> {
    let mut report = ReplayReport::default();
    let line = read_line(&mut log)?;
    if !line.starts_with(MAGIC) {
        return Err(LogError::NotALog);
    }
    report.other_build = line != heading();
    report.build = line[MAGIC.len()..].trim().to_owned();
    let mut gates: BTreeMap<u32, Gate> = BTreeMap::new();
    let mut at = line.len() as u64;
    let mut frame = Vec::new();
    loop {
        let mut head = [0; 8];
        let got = read_some(&mut log, &mut head)?;
        if got < head.len() {
            report.cut_off = got as u64;
            return Ok(report);
        }
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let number = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let damaged = |why: String| LogError::Damaged { entry: report.entries, at, why };
        if length > MOST_BYTES {
            return Err(damaged(format!("it says that it has {length} bytes")));
        }
        frame.resize(length as usize, 0);
        let got = read_some(&mut log, &mut frame)?;
        if got < frame.len() {
            report.cut_off = (head.len() + got) as u64;
            return Ok(report);
        }
        let entry: Entry = rmp_serde::from_slice(&frame).map_err(|error| match report.other_build {
            true => LogError::OtherBuild { build: report.build.clone(), why: error.to_string() },
            false => damaged(error.to_string()),
        })?;
        one(&mut gates, number, entry, &mut report, &mut each);
        report.entries += 1;
        at += 8 + u64::from(length);
    }
}

fn one(
    gates: &mut BTreeMap<u32, Gate>,
    number: u32,
    entry: Entry,
    report: &mut ReplayReport,
    each: &mut impl FnMut(&Gate, &DecisionRecord),
) {
    let (same, decided) = match (entry, gates.get_mut(&number)) {
        (Entry::Snapshot(gate), known) => {
            report.snapshots += 1;
            if known.is_some_and(|known| bytes(known) != bytes(&*gate)) {
                report.snapshot_mismatches += 1;
            }
            gates.insert(number, *gate);
            return;
        }
        // Before its first snapshot a Gate's state is not known.
        (_, None) => return,
        (Entry::Submit(now, facts, verdict), Some(gate)) => {
            let again = gate.submit(now, facts);
            (bytes(&again) == bytes(&verdict), u64::from(matches!(again, Verdict::Go(_))))
        }
        (Entry::Repick(now, ticket, why, verdict), Some(gate)) => {
            let again = gate.repick(now, ticket, why);
            (bytes(&again) == bytes(&verdict), u64::from(matches!(again, Verdict::Go(_))))
        }
        (Entry::Apply(now, event, effects), Some(gate)) => {
            let again = gate.apply(now, event);
            (bytes(&again) == bytes(&effects), again.go.len() as u64)
        }
    };
    if !same {
        report.mismatches += 1;
        report.first_mismatch.get_or_insert(report.entries);
    }
    report.decisions += decided;
    if let Some(gate) = gates.get(&number) {
        let mut records: Vec<_> = gate.decisions(decided as usize).collect();
        records.reverse();
        records.into_iter().for_each(|record| each(gate, record));
    }
}

/// The bytes that the log would have of it.
fn bytes(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec(value).unwrap_or_default()
}

fn read_line(log: &mut impl Read) -> Result<String, LogError> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < 200 && read_some(log, &mut byte)? == 1 {
        line.push(byte[0]);
        if byte[0] == b'\n' {
            break;
        }
    }
    String::from_utf8(line).map_err(|_| LogError::NotALog)
}

/// Reads until the buffer is full or the file ends.
fn read_some(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match log.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}
