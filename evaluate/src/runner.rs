//! Runs cells, as many at a time as there are cores, each at most once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cell::{Cell, Outcome};
use crate::progress::Progress;
use crate::store::Store;

/// The quick form plays a tenth of everything, and no less than this.
const QUICK_PART: u64 = 10;
const QUICK_LEAST: u64 = 200;
const QUICK_BUILD_UP_S: f64 = 20.0;

/// See the module's text.
pub(crate) struct Runner {
    store: Store,
    jobs: usize,
    quick: bool,
    /// Cells that were run and not found.
    ran: AtomicUsize,
    /// Different cells that were asked for.
    asked: Mutex<BTreeSet<u128>>,
}

impl Runner {
    /// With `quick`, a tenth of each cell's requests.
    pub(crate) fn new(store: Store, jobs: usize, quick: bool) -> Runner {
        let (ran, asked) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
        Runner { store, jobs: jobs.max(1), quick, ran, asked }
    }

    pub(crate) fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.lock().map_or(0, |asked| asked.len())
    }

    /// The outcomes, in the order of the cells. `what` is told on stderr.
    pub(crate) fn run(&self, what: &str, cells: &[Cell]) -> Result<Vec<Outcome>, String> {
        let cells: Vec<Cell> = cells.iter().map(|cell| self.sized(cell)).collect();
        let keys: Vec<u128> = cells.iter().map(|cell| self.store.key(cell)).collect();
        let mut known: BTreeMap<u128, Outcome> = BTreeMap::new();
        let mut open: BTreeMap<u128, usize> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            match self.store.get(*key) {
                Some(outcome) => drop(known.insert(*key, outcome)),
                None => drop(open.entry(*key).or_insert(at)),
            }
        }
        if let Ok(mut asked) = self.asked.lock() {
            asked.extend(&keys);
        }
        // In the order they were asked for, so that alike ones are near each other.
        let mut open: Vec<usize> = open.into_values().collect();
        open.sort_unstable();
        eprintln!("{what}: {} cells, {} to run", known.len() + open.len(), open.len());
        let progress = Progress::new(what, open.len());
        let outcomes = Mutex::new(known);
        let failure = Mutex::new(None);
        // Two that measure time would disturb each other.
        let jobs = if cells.iter().any(|cell| cell.timed) { 1 } else { self.jobs };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..jobs.min(open.len()) {
                scope.spawn(|| {
                    while let Some(&at) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let done = cells[at].run().and_then(|outcome| {
                            self.store.put(keys[at], &outcome)?;
                            Ok(outcome)
                        });
                        self.ran.fetch_add(1, Ordering::Relaxed);
                        match done {
                            Ok(outcome) => {
                                if let Ok(mut outcomes) = outcomes.lock() {
                                    outcomes.insert(keys[at], outcome);
                                }
                            }
                            Err(message) => {
                                if let Ok(mut failure) = failure.lock() {
                                    failure.get_or_insert(message);
                                }
                                // The others stop as well.
                                next.fetch_add(open.len(), Ordering::Relaxed);
                                return;
                            }
                        }
                        progress.step();
                    }
                });
            }
        });
        if let Some(message) = failure.into_inner().ok().flatten() {
            return Err(message);
        }
        let outcomes = outcomes.into_inner().map_err(|_| "a worker panicked")?;
        let found = |key| outcomes.get(key).cloned().ok_or_else(|| "a cell was not run".to_owned());
        keys.iter().map(found).collect()
    }

    /// The cell, or less of it in the quick form.
    pub(crate) fn sized(&self, cell: &Cell) -> Cell {
        let mut cell = cell.clone();
        if self.quick {
            let scenario = &mut cell.scenario;
            scenario.warmup /= QUICK_PART;
            scenario.counted = (scenario.counted / QUICK_PART).max(QUICK_LEAST);
            scenario.build_up_s = scenario.build_up_s.min(QUICK_BUILD_UP_S);
        }
        cell
    }
}
