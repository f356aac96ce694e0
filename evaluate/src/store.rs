//! Finished cells on disk, so that an evaluation that was broken off goes on.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Outcome};

/// See the module's text.
pub(crate) struct Store {
    /// What the code that decides and simulates is known by: other code, other cells.
    code: String,
    inner: Mutex<Inner>,
}

struct Inner {
    cells: BTreeMap<u128, Outcome>,
    file: Option<File>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    cell: String,
    outcome: Outcome,
}

impl Store {
    /// Opens `dir/cells.jsonl`; what is there of other code stays and is not
    /// used. Without a directory nothing is kept.
    pub(crate) fn open(dir: Option<&Path>, code: &str) -> Result<Store, String> {
        let mut cells = BTreeMap::new();
        let file = match dir {
            None => None,
            Some(dir) => {
                let told = |e: std::io::Error| format!("cannot keep cells in {}: {e}", dir.display());
                std::fs::create_dir_all(dir).map_err(told)?;
                let path = dir.join("cells.jsonl");
                if let Ok(file) = File::open(&path) {
                    // A last line that was cut off is done again.
                    let lines = BufReader::new(file).lines().map_while(Result::ok);
                    let read = lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok());
                    cells.extend(
                        read.filter_map(|l| Some((u128::from_str_radix(&l.cell, 16).ok()?, l.outcome))),
                    );
                }
                let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(told)?;
                file.write_all(b"\n").map_err(told)?;
                Some(file)
            }
        };
        Ok(Store { code: code.to_owned(), inner: Mutex::new(Inner { cells, file }) })
    }

    /// What a cell is known by.
    pub(crate) fn key(&self, cell: &Cell) -> u128 {
        xxhash_rust::xxh3::xxh3_128(format!("{}\n{}", self.code, cell.inputs()).as_bytes())
    }

    /// The outcome of a cell that was run before.
    pub(crate) fn get(&self, key: u128) -> Option<Outcome> {
        self.inner.lock().ok()?.cells.get(&key).cloned()
    }

    pub(crate) fn put(&self, key: u128, outcome: &Outcome) -> Result<(), String> {
        let Ok(mut inner) = self.inner.lock() else { return Ok(()) };
        inner.cells.insert(key, outcome.clone());
        let line = Line { cell: format!("{key:032x}"), outcome: outcome.clone() };
        let Some(file) = &mut inner.file else { return Ok(()) };
        let mut text = serde_json::to_string(&line).map_err(|e| e.to_string())?;
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(|e| format!("cannot keep a cell: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders;
    use crate::workloads;

    #[test]
    fn cells_are_found_again_by_the_same_code_only() {
        let dir = std::env::temp_dir().join(format!("forebay-evaluate-{}", std::process::id()));
        let scenario = workloads::tenants(2).unwrap();
        let policy = contenders::predictive().policy;
        let cell = Cell { scenario, rate: 3.0, policy, seed: 1, timed: false };
        let renamed = Cell { scenario: cell.scenario.with("other", |_| {}), ..cell.clone() };
        let outcome = Outcome { goodput: 0.5, decision_us: Some(1.5), ..Outcome::default() };
        {
            let store = Store::open(Some(&dir), "one").unwrap();
            store.put(store.key(&cell), &outcome).unwrap();
        }
        let mut file = OpenOptions::new().append(true).open(dir.join("cells.jsonl")).unwrap();
        file.write_all(b"{\"cell\":\"12").unwrap();
        let found = |code: &str, cell: &Cell| {
            let store = Store::open(Some(&dir), code).unwrap();
            store.get(store.key(cell))
        };
        assert_eq!(found("one", &cell), Some(outcome.clone()));
        assert_eq!(found("one", &renamed), Some(outcome));
        assert_eq!(found("two", &cell), None);
        assert_eq!(found("one", &Cell { seed: 2, ..cell.clone() }), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
