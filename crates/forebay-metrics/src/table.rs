//! Series by two label values, kept alive by their handles alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// How many objects of one kind may have series at once; those beyond it
/// share one with both labels "other". Far above what can be configured, so
/// that a mistake elsewhere costs a label and not the memory.
const MAX_OBJECTS: usize = 20_000;

type Key = (String, String);

/// Finds or makes series at configuration time, and lists them for a render.
pub(crate) struct Table<T> {
    series: Mutex<BTreeMap<Key, Weak<Entry<T>>>>,
}

/// Series with the labels they are shown under.
pub(crate) struct Entry<T> {
    pub(crate) pool: String,
    pub(crate) name: String,
    pub(crate) series: T,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Table<T> {
        Table { series: Mutex::new(BTreeMap::new()) }
    }

    /// The live series under these labels, or new ones.
    pub(crate) fn get_or_insert(&self, pool: &str, name: &str, make: fn() -> T) -> Arc<Entry<T>> {
        let mut table = self.series.lock();
        let mut key = (pool.to_owned(), name.to_owned());
        if let Some(live) = table.get(&key).and_then(Weak::upgrade) {
            return live;
        }
        if table.len() >= MAX_OBJECTS {
            table.retain(|_, weak| weak.strong_count() > 0);
        }
        if table.len() >= MAX_OBJECTS {
            key = ("other".to_owned(), "other".to_owned());
            if let Some(live) = table.get(&key).and_then(Weak::upgrade) {
                return live;
            }
        }
        let made = Arc::new(Entry { pool: key.0.clone(), name: key.1.clone(), series: make() });
        table.insert(key, Arc::downgrade(&made));
        made
    }

    /// All live series, by label.
    pub(crate) fn live(&self) -> Vec<Arc<Entry<T>>> {
        let mut table = self.series.lock();
        table.retain(|_, weak| weak.strong_count() > 0);
        table.values().filter_map(Weak::upgrade).collect()
    }
}
