//! The index as bytes on disk, and back.
//!
//! All numbers are little-endian.
//!
//! | part | content |
//! |---|---|
//! | head | `FBPX`, version (u32), bytes of the whole (u64) |
//! | runs | their number (u32); each: blocks (u8), the blocks (u64 each) |
//! | endpoints | their number (u32); each: name (u16 length, UTF-8), segments (u32 number); each segment: run (u32), place of its parent in this list plus 1, or 0 (u32) |
//! | tail | XXH3 of everything before (u64) |

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::store::run;
use crate::write::Segment;

const MAGIC: &[u8] = b"FBPX";
/// The version that is written and read.
const VERSION: u32 = 1;
const HEAD: usize = 16;
const TAIL: usize = 8;

/// What [`restore`](crate::PrefixIndex::restore) took over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Endpoints whose entries were taken over.
    pub endpoints: u32,
    /// Endpoints of the snapshot that are not known any more.
    pub unknown: u32,
    /// Blocks taken over, summed over the endpoints.
    pub blocks: u64,
}

/// Why a snapshot was refused. The index is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Not a snapshot at all.
    #[error("not a prefix-index snapshot: it does not begin with FBPX")]
    NotASnapshot,
    /// Written by a version that this build does not read.
    #[error("snapshot version {found}; this build reads version {expected}")]
    Version {
        /// The version in the snapshot.
        found: u32,
        /// The version that is read.
        expected: u32,
    },
    /// Shorter or longer than it says.
    #[error("snapshot has {have} bytes and should have {need}: it was cut off, or something was added")]
    Length {
        /// Bytes there are.
        have: u64,
        /// Bytes there should be.
        need: u64,
    },
    /// The checksum does not fit the content.
    #[error("snapshot damaged: its checksum does not fit")]
    Checksum,
    /// The checksum fits and the content makes no sense.
    #[error("snapshot damaged: {what} at byte {at}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Offset from the start of the snapshot.
        at: usize,
    },
}

/// What one endpoint holds, by name.
pub(crate) type Named = (String, Vec<Segment>);

/// Collects endpoints; equal runs are written once.
#[derive(Default)]
pub(crate) struct Encoder {
    runs: Vec<u8>,
    run_count: u32,
    /// First and last block tell a run from every other.
    known: BTreeMap<(u64, u64), u32>,
    endpoints: Vec<u8>,
    endpoint_count: u32,
}

impl Encoder {
    /// Names longer than 65,535 bytes are left out.
    pub(crate) fn endpoint(&mut self, name: &str, segments: &[Segment]) {
        let Ok(name_len) = u16::try_from(name.len()) else { return };
        self.endpoint_count += 1;
        self.endpoints.extend_from_slice(&name_len.to_le_bytes());
        self.endpoints.extend_from_slice(name.as_bytes());
        self.endpoints.extend_from_slice(&(segments.len() as u32).to_le_bytes());
        for segment in segments {
            let run = self.run(&segment.hashes);
            let parent = segment.parent.map_or(0, |parent| parent + 1);
            self.endpoints.extend_from_slice(&run.to_le_bytes());
            self.endpoints.extend_from_slice(&parent.to_le_bytes());
        }
    }

    fn run(&mut self, hashes: &[u64]) -> u32 {
        let ends = (hashes.first().copied().unwrap_or(0), hashes.last().copied().unwrap_or(0));
        *self.known.entry(ends).or_insert_with(|| {
            self.runs.push(hashes.len() as u8);
            hashes.iter().for_each(|hash| self.runs.extend_from_slice(&hash.to_le_bytes()));
            self.run_count += 1;
            self.run_count - 1
        })
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let len = HEAD + 4 + self.runs.len() + 4 + self.endpoints.len() + TAIL;
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(len as u64).to_le_bytes());
        out.extend_from_slice(&self.run_count.to_le_bytes());
        out.extend_from_slice(&self.runs);
        out.extend_from_slice(&self.endpoint_count.to_le_bytes());
        out.extend_from_slice(&self.endpoints);
        out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
        out
    }
}

/// Reads the whole of a snapshot, or says why not.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Named>, SnapshotError> {
    if !bytes.starts_with(MAGIC) {
        return Err(SnapshotError::NotASnapshot);
    }
    let have = bytes.len() as u64;
    let short = SnapshotError::Length { have, need: (HEAD + 8 + TAIL) as u64 };
    if bytes.len() < HEAD + 8 + TAIL {
        return Err(short);
    }
    let mut reader = Reader { bytes, at: MAGIC.len() };
    let found = reader.u32()?;
    if found != VERSION {
        return Err(SnapshotError::Version { found, expected: VERSION });
    }
    let need = reader.u64()?;
    if need != have {
        return Err(SnapshotError::Length { have, need });
    }
    let (content, tail) = bytes.split_at(bytes.len() - TAIL);
    if xxh3_64(content).to_le_bytes() != tail {
        return Err(SnapshotError::Checksum);
    }
    let mut reader = Reader { bytes: content, at: HEAD };
    let runs = reader.runs()?;
    let named = reader.endpoints(&runs)?;
    if reader.at != content.len() {
        return Err(reader.malformed("bytes after the last endpoint"));
    }
    Ok(named)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn malformed(&self, what: &'static str) -> SnapshotError {
        SnapshotError::Malformed { what, at: self.at }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], SnapshotError> {
        let part = self.bytes.get(self.at..self.at.saturating_add(len));
        let part = part.ok_or(self.malformed("the content ends early"))?;
        self.at += len;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn runs(&mut self) -> Result<Vec<Vec<u64>>, SnapshotError> {
        let mut runs = Vec::new();
        for _ in 0..self.u32()? {
            let [len] = self.array()?;
            if len == 0 || usize::from(len) > run::MAX {
                return Err(self.malformed("a run of an impossible length"));
            }
            runs.push((0..len).map(|_| self.u64()).collect::<Result<_, _>>()?);
        }
        Ok(runs)
    }

    fn endpoints(&mut self, runs: &[Vec<u64>]) -> Result<Vec<Named>, SnapshotError> {
        let mut endpoints = Vec::new();
        for _ in 0..self.u32()? {
            let len = u16::from_le_bytes(self.array()?);
            let name = std::str::from_utf8(self.take(usize::from(len))?);
            let name = name.map_err(|_| self.malformed("a name that is not UTF-8"))?.to_owned();
            let mut segments: Vec<Segment> = Vec::new();
            for place in 0..self.u32()? {
                let (run, parent) = (self.u32()?, self.u32()?);
                let hashes = runs.get(run as usize);
                let hashes = hashes.ok_or(self.malformed("a run that is not there"))?.clone();
                if parent > place {
                    return Err(self.malformed("a parent that comes later"));
                }
                segments.push(Segment { parent: parent.checked_sub(1), hashes });
            }
            endpoints.push((name, segments));
        }
        Ok(endpoints)
    }
}
