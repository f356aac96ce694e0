//! How one endpoint's loop is told that something cannot wait, and how it says
//! who answers there.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use forebay_core::Time;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

/// What a look at an endpoint's list of models came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It was read, and what it says of the expected model has been told.
    Listed,
    /// The endpoint answers and has no list that can be read; that has been told.
    Unlisted,
    /// No answer that could be used; the next look may have one.
    Failed,
    /// Nobody reads this endpoint any more.
    Over,
}

/// Who waits to hear who answers at the endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// A look that began earlier is no answer.
    pub(crate) since: Time,
    /// A list that does not come is no reason to ask again.
    pub(crate) last: bool,
}

#[derive(Debug)]
pub(crate) struct Nudge {
    notify: Notify,
    load: AtomicBool,
    models: AtomicBool,
    /// The engine itself says that it does not have the expected model.
    denied: AtomicBool,
    /// It waits longer than a busy one would, for want of work.
    resting: AtomicBool,
    question: Mutex<Option<Question>>,
    /// The last look, and when it began.
    looked: watch::Sender<Option<(Time, Look)>>,
}

impl Default for Nudge {
    fn default() -> Nudge {
        Nudge {
            notify: Notify::new(),
            load: AtomicBool::new(false),
            models: AtomicBool::new(false),
            denied: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            question: Mutex::default(),
            looked: watch::Sender::new(None),
        }
    }
}

impl Nudge {
    /// The load is to be read at once.
    pub(crate) fn ask_load(&self) {
        self.load.store(true, Relaxed);
        self.notify.notify_one();
    }

    /// The models are to be read as soon as may be.
    pub(crate) fn ask_models(&self) {
        self.models.store(true, Relaxed);
        self.notify.notify_one();
    }

    /// The engine says that it does not have the expected model.
    pub(crate) fn deny(&self) {
        self.denied.store(true, Relaxed);
        self.notify.notify_one();
    }

    /// Waits for a look at the models that began at `question.since` or later.
    pub(crate) async fn look(&self, question: Question) -> Look {
        let mut looked = self.looked.subscribe();
        *self.question.lock() = Some(question);
        self.notify.notify_one();
        loop {
            if let Some((began, look)) = *looked.borrow_and_update()
                && began >= question.since
            {
                return look;
            }
            if looked.changed().await.is_err() {
                return Look::Over;
            }
        }
    }

    /// The question that waits for its answer.
    pub(crate) fn question(&self) -> Option<Question> {
        *self.question.lock()
    }

    /// A look that began so came to this.
    pub(crate) fn answer(&self, began: Time, look: Look) {
        {
            let mut question = self.question.lock();
            if question.is_some_and(|question| began >= question.since) {
                *question = None;
            }
        }
        self.looked.send_replace(Some((began, look)));
    }

    /// The loop has ended: nobody will answer.
    pub(crate) fn end(&self) {
        self.answer(Time::MAX, Look::Over);
    }

    pub(crate) async fn asked(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn take_load(&self) -> bool {
        self.load.swap(false, Relaxed)
    }

    pub(crate) fn take_models(&self) -> bool {
        self.models.swap(false, Relaxed)
    }

    pub(crate) fn take_denied(&self) -> bool {
        self.denied.swap(false, Relaxed)
    }

    pub(crate) fn rest(&self, resting: bool) {
        self.resting.store(resting, Relaxed);
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(Relaxed)
    }
}
