//! Runs cells, as many at a time as there are cores, each at most once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cell::{Cell, Outcome};
use crate::store::Store;

/// See the module's text.
pub(crate) struct Runner {
    store: Store,
    jobs: usize,
    /// Cells that were run and not found.
    ran: AtomicUsize,
}

impl Runner {
    pub(crate) fn new(store: Store, jobs: usize) -> Runner {
        Runner { store, jobs: jobs.max(1), ran: AtomicUsize::new(0) }
    }

    pub(crate) fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }

    /// The outcomes, in the order of the cells. `what` is told on stderr.
    pub(crate) fn run(&self, what: &str, cells: &[Cell]) -> Result<Vec<Outcome>, String> {
        let known: Vec<Option<Outcome>> = cells.iter().map(|cell| self.store.get(cell)).collect();
        let open: Vec<usize> = (0..cells.len()).filter(|&i| known[i].is_none()).collect();
        eprintln!("{what}: {} cells, {} to run", cells.len(), open.len());
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
                            self.store.put(&cells[at], &outcome)?;
                            Ok(outcome)
                        });
                        self.ran.fetch_add(1, Ordering::Relaxed);
                        match done {
                            Ok(outcome) => {
                                if let Ok(mut outcomes) = outcomes.lock() {
                                    outcomes[at] = Some(outcome);
                                }
                            }
                            Err(message) => {
                                if let Ok(mut failure) = failure.lock() {
                                    failure.get_or_insert(message);
                                }
                                return;
                            }
                        }
                    }
                });
            }
        });
        if let Some(message) = failure.into_inner().ok().flatten() {
            return Err(message);
        }
        let outcomes = outcomes.into_inner().map_err(|_| "a worker panicked")?;
        outcomes.into_iter().map(|outcome| outcome.ok_or_else(|| "a cell was not run".to_owned())).collect()
    }
}
