//! Threads that tokenise, so that the workers of the data plane need not.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use forebay_wire::body::Api;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{Failure, Model};

/// How many threads, and what they may take on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolLimits {
    /// Threads; at least one is started.
    pub workers: usize,
    /// How long a caller waits.
    pub timeout: Duration,
    /// Requests that may wait for a thread.
    pub queue: usize,
    /// Bytes of bodies that may wait for a thread.
    pub queue_bytes: usize,
}

impl Default for PoolLimits {
    /// One thread, 5 ms, 64 requests and 16 MiB in the queue.
    fn default() -> Self {
        PoolLimits { workers: 1, timeout: Duration::from_millis(5), queue: 64, queue_bytes: 16 << 20 }
    }
}

/// Why there are no tokens, or none in time. The text decides then.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoTokens {
    /// Its engine counts other tokens, so that none of this model are used.
    #[error("the engine's counts are others")]
    Off,
    /// Too much waits for a thread already.
    #[error("too much is waiting to be tokenised")]
    Busy,
    /// It took too long. What comes of it, unless the queue overflows, is
    /// remembered for the next time.
    #[error("tokenising took too long")]
    Slow,
    /// It failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

struct Job {
    model: Arc<Model>,
    body: Bytes,
    api: Api,
    answer: oneshot::Sender<Result<Arc<[u32]>, Failure>>,
}

impl Job {
    /// Its caller went on without it.
    fn is_left(&self) -> bool {
        self.answer.is_closed()
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    fn take(&mut self, at: usize) -> Option<Job> {
        let job = self.jobs.remove(at)?;
        self.bytes -= job.body.len();
        Some(job)
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
    late: AtomicU64,
    dropped: AtomicU64,
    panics: AtomicU64,
}

/// A bounded pool of threads. They end when it is dropped, after the request
/// that each is at.
pub struct Pool {
    shared: Arc<Shared>,
    limits: PoolLimits,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(limits: PoolLimits) -> std::io::Result<Pool> {
        let pool = Pool { shared: Arc::new(Shared::default()), limits };
        for at in 0..limits.workers.max(1) {
            let shared = Arc::clone(&pool.shared);
            std::thread::Builder::new().name(format!("tokenize-{at}")).spawn(move || shared.work())?;
        }
        Ok(pool)
    }

    /// The tokens of a request's prompt, as its engine counts them.
    ///
    /// # Errors
    /// None in time, or none at all: see [`NoTokens`]. When the queue is full or
    /// the model is off, that is said at once.
    pub async fn tokens(&self, model: &Arc<Model>, body: Bytes, api: Api) -> Result<Arc<[u32]>, NoTokens> {
        self.tokens_within(self.limits.timeout, model, body, api).await
    }

    async fn tokens_within(
        &self,
        timeout: Duration,
        model: &Arc<Model>,
        body: Bytes,
        api: Api,
    ) -> Result<Arc<[u32]>, NoTokens> {
        if model.exactness().off().is_some() {
            return Err(NoTokens::Off);
        }
        let (answer, answered) = oneshot::channel();
        self.shared.add(Job { model: Arc::clone(model), body, api, answer }, &self.limits)?;
        match tokio::time::timeout(timeout, answered).await {
            Ok(Ok(tokens)) => Ok(tokens?),
            // A thread that panicked drops what it was at.
            Ok(Err(_)) => Err(NoTokens::Failed(Failure::Encode)),
            Err(_) => Err(NoTokens::Slow),
        }
    }

    /// Requests that wait for a thread.
    pub fn waiting(&self) -> usize {
        self.shared.queue.lock().jobs.len()
    }

    /// Requests so far whose tokens came after their caller had left.
    pub fn late(&self) -> u64 {
        self.shared.late.load(Ordering::Relaxed)
    }

    /// Requests so far that were dropped from a full queue after their caller
    /// had left.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Requests so far at which a library panicked; they count as failed.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.closed = true;
        queue.jobs.clear();
        queue.bytes = 0;
        self.shared.ready.notify_all();
    }
}

impl Shared {
    fn add(&self, job: Job, limits: &PoolLimits) -> Result<(), NoTokens> {
        let mut queue = self.queue.lock();
        while queue.jobs.len() >= limits.queue || queue.bytes + job.body.len() > limits.queue_bytes {
            // Room is made at the cost of those that nobody waits for any more.
            let left = queue.jobs.iter().position(Job::is_left).ok_or(NoTokens::Busy)?;
            queue.take(left);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        queue.bytes += job.body.len();
        queue.jobs.push_back(job);
        drop(queue);
        self.ready.notify_one();
        Ok(())
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if queue.closed {
                return None;
            }
            // What somebody waits for goes first, the oldest before the others.
            let first = queue.jobs.iter().position(|job| !job.is_left()).unwrap_or(0);
            if let Some(job) = queue.take(first) {
                return Some(job);
            }
            self.ready.wait(&mut queue);
        }
    }

    fn work(&self) {
        while let Some(Job { model, body, api, answer }) = self.next() {
            // What a library does with the strangest of texts must not cost a
            // thread. The model's own state is only locked around table look-ups.
            let tokens = catch_unwind(AssertUnwindSafe(|| model.tokens(&body, api)));
            let tokens = tokens.unwrap_or_else(|_| {
                self.panics.fetch_add(1, Ordering::Relaxed);
                Err(Failure::Encode)
            });
            if answer.send(tokens).is_err() {
                self.late.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
