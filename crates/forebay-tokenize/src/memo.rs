//! Tokens of parts of texts that were seen before, within a bound in bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// What an entry takes beside its ids, in both maps, about.
const ENTRY_BYTES: usize = 112;

/// Names a text. Two texts with one name would give a wrong prediction of what
/// is cached, and nothing worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key(u128);

impl Key {
    /// Of a text, and of how it is tokenised.
    pub(crate) fn new(text: &str, how: u64) -> Key {
        Key(xxh3_128_with_seed(text.as_bytes(), how))
    }
}

struct Entry {
    ids: Arc<[u32]>,
    used: u64,
}

/// The entries that were used last.
pub(crate) struct Memo {
    entries: BTreeMap<Key, Entry>,
    /// Which entry was used when, oldest first.
    uses: BTreeMap<u64, Key>,
    clock: u64,
    bytes: usize,
    max_bytes: usize,
}

impl Memo {
    /// An empty one that takes at most `max_bytes`; none at all with 0.
    pub(crate) fn new(max_bytes: usize) -> Memo {
        Memo { entries: BTreeMap::new(), uses: BTreeMap::new(), clock: 0, bytes: 0, max_bytes }
    }

    /// The ids of a text, which are then the last to be forgotten.
    pub(crate) fn get(&mut self, key: Key) -> Option<Arc<[u32]>> {
        let entry = self.entries.get_mut(&key)?;
        self.uses.remove(&entry.used);
        self.clock += 1;
        entry.used = self.clock;
        self.uses.insert(entry.used, key);
        Some(Arc::clone(&entry.ids))
    }

    /// Remembers the ids of a text and forgets what was not used longest.
    pub(crate) fn put(&mut self, key: Key, ids: Arc<[u32]>) {
        let size = size(&ids);
        if size > self.max_bytes || self.get(key).is_some() {
            return;
        }
        while self.bytes + size > self.max_bytes {
            let Some((_, oldest)) = self.uses.pop_first() else { break };
            if let Some(gone) = self.entries.remove(&oldest) {
                self.bytes -= self::size(&gone.ids);
            }
        }
        self.clock += 1;
        self.bytes += size;
        self.uses.insert(self.clock, key);
        self.entries.insert(key, Entry { ids, used: self.clock });
    }

    /// Bytes in use, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn size(ids: &[u32]) -> usize {
    ENTRY_BYTES + 4 * ids.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(n: usize) -> Arc<[u32]> {
        (0..n as u32).collect()
    }

    #[test]
    fn the_least_recently_used_is_forgotten_within_the_bound() {
        let bound = 3 * (ENTRY_BYTES + 40);
        let mut memo = Memo::new(bound);
        let keys = ["a", "b", "c", "d"].map(|text| Key::new(text, 0));
        for key in &keys[..3] {
            memo.put(*key, ids(10));
        }
        assert_eq!(memo.bytes(), bound);
        assert!(memo.get(keys[0]).is_some());
        memo.put(keys[3], ids(10));
        assert!(memo.get(keys[1]).is_none(), "the oldest use goes first");
        assert!(memo.get(keys[0]).is_some() && memo.get(keys[2]).is_some() && memo.get(keys[3]).is_some());
        // One large entry in the place of several small ones.
        memo.put(Key::new("e", 0), ids(10 + ENTRY_BYTES / 4 + 5));
        assert!(memo.bytes() <= bound);
        assert_eq!(memo.entries.len(), memo.uses.len());
        assert_eq!(memo.bytes(), memo.entries.values().map(|entry| size(&entry.ids)).sum::<usize>());
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_twice_counts_once() {
        let mut memo = Memo::new(1_000);
        memo.put(Key::new("large", 0), ids(1_000));
        assert_eq!(memo.bytes(), 0);
        memo.put(Key::new("a", 0), ids(1));
        memo.put(Key::new("a", 0), ids(1));
        assert_eq!(memo.bytes(), ENTRY_BYTES + 4);
        assert_ne!(Key::new("a", 0), Key::new("a", 1));
        let mut none = Memo::new(0);
        none.put(Key::new("a", 0), ids(1));
        assert!(none.get(Key::new("a", 0)).is_none());
    }
}
