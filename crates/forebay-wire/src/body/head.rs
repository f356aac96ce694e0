//! The first bytes of a prompt's text, for the affinity hash.

use xxhash_rust::xxh3::xxh3_64;

use crate::json::Str;

const HEAD: usize = 1024;
/// Between the texts of two messages; no UTF-8 text contains it.
const SEPARATOR: u8 = 0xff;

/// The first bytes of the prompt's text.
pub(super) struct Head {
    bytes: [u8; HEAD],
    len: usize,
    /// A new message began since the last text.
    pending: bool,
}

impl Head {
    pub(super) fn new() -> Head {
        Head { bytes: [0; HEAD], len: 0, pending: false }
    }

    /// A head that takes no more, for a walk that needs none.
    pub(super) fn full() -> Head {
        Head { len: HEAD, ..Head::new() }
    }

    fn is_full(&self) -> bool {
        self.len == HEAD
    }

    fn push(&mut self, run: &[u8]) -> bool {
        let room = &mut self.bytes[self.len..];
        let n = run.len().min(room.len());
        room[..n].copy_from_slice(&run[..n]);
        self.len += n;
        !self.is_full()
    }

    /// Says that the next text belongs to another message or prompt.
    pub(super) fn next_unit(&mut self) {
        self.pending = self.len > 0;
    }

    pub(super) fn push_text(&mut self, buf: &[u8], text: Str) {
        if self.is_full() || text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.pending) && !self.push(&[SEPARATOR]) {
            return;
        }
        text.decode(buf, |run| self.push(run));
    }

    pub(super) fn push_raw(&mut self, text: &[u8]) {
        self.push(text);
    }

    pub(super) fn push_id(&mut self, id: u32) {
        if !self.is_full() {
            self.push(&id.to_le_bytes());
        }
    }

    /// The hash of `heads`, one after the other.
    pub(super) fn hash<const N: usize>(heads: [Head; N]) -> u64 {
        let mut rest = heads.into_iter().filter(|head| head.len > 0);
        let mut all = rest.next().unwrap_or_else(Head::new);
        for head in rest {
            all.push(&[SEPARATOR]);
            all.push(&head.bytes[..head.len]);
        }
        xxh3_64(&all.bytes[..all.len])
    }
}
