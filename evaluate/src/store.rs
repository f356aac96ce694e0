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

    fn hash(&self, cell: &Cell) -> u128 {
        xxhash_rust::xxh3::xxh3_128(format!("{}\n{}", self.code, cell.inputs()).as_bytes())
    }

    /// The outcome of a cell that was run before.
    pub(crate) fn get(&self, cell: &Cell) -> Option<Outcome> {
        let hash = self.hash(cell);
        self.inner.lock().ok()?.cells.get(&hash).cloned()
    }

    pub(crate) fn put(&self, cell: &Cell, outcome: &Outcome) -> Result<(), String> {
        let hash = self.hash(cell);
        let Ok(mut inner) = self.inner.lock() else { return Ok(()) };
        inner.cells.insert(hash, outcome.clone());
        let line = Line { cell: format!("{hash:032x}"), outcome: outcome.clone() };
        let Some(file) = &mut inner.file else { return Ok(()) };
        let mut text = serde_json::to_string(&line).map_err(|e| e.to_string())?;
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(|e| format!("cannot keep a cell: {e}"))
    }
}
