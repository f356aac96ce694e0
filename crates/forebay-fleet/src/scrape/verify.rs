//! Finding out who answers at an endpoint, before anything is sent there.
//!
//! An address outlives what answers there. Whenever another engine may have
//! come, its list of models is read first. One without a list that can be read
//! is taken as it is: nobody could ever say more of it.

use std::time::Duration;

use forebay_core::Time;

use super::follow::Loop;
use super::nudge::{Look, Question};
use crate::membership::Membership;

/// So many looks that failed are enough where nobody waits for one.
const FAILED_LOOKS: u32 = 3;

/// An engine without a list that denied its model is tried again after this.
const DENIED_FOR: Duration = std::time::Duration::from_secs(60);

/// An engine whose list contradicts its answers is not doubted again sooner.
const DOUBTED_IN_VAIN: Duration = std::time::Duration::from_secs(10);

/// What an engine's own answers said of the expected model.
#[derive(Debug, Default)]
pub(super) struct Denial {
    /// It denied it, and no look has shown yet what that means.
    pending: bool,
    /// When it was taken at its word.
    believed: Option<Time>,
    /// When a look showed that it has the model all the same.
    refuted: Option<Time>,
}

impl<M: Membership> Loop<M> {
    /// Answers who waits to hear who is there, if anybody does.
    pub(super) async fn answer(&mut self) {
        let Some(question) = self.given.nudge.question() else { return };
        let is_open = self.given.target.dialect.is_none();
        let found = !is_open || self.found.is_some_and(|found| found >= question.since);
        match self.looked {
            Some(began) if found && began >= question.since => {
                self.given.nudge.answer(began, Look::Listed);
            }
            _ => {
                let began = self.now();
                let look = self.verify(question, found).await;
                self.given.nudge.answer(began, look);
            }
        }
    }

    async fn verify(&mut self, question: Question, found: bool) -> Look {
        if self.engine.is_none() || !found {
            let result = self.look().await;
            if let (Err(failure), None) = (result, &self.engine) {
                self.failed(failure);
                let look = if failure.answered() { Look::Unlisted } else { Look::Failed };
                return self.settle(look, question.last);
            }
        }
        let look = self.read_models().await;
        if look == Look::Unlisted && self.given.target.model.is_some() {
            // The labels of its metrics may know more.
            self.labels_say = None;
            self.read_labels().await;
            if self.labels_say.is_some() {
                return Look::Unlisted;
            }
        }
        self.settle(look, question.last)
    }

    async fn read_labels(&mut self) {
        let Some(page) = self.engine.as_ref().and_then(|engine| engine.metrics.clone()) else { return };
        if let Ok(page) = self.ask_metrics(&page).await {
            let is_new = self.compare(&page).await;
            self.given.past.lock().keep(page, is_new);
        }
    }

    /// After a gap. A list that does not come is `last` as good as none.
    fn settle(&mut self, look: Look, last: bool) -> Look {
        match look {
            Look::Unlisted => {
                self.denial = Denial::default();
                self.take_as_it_is(true);
            }
            Look::Failed if last => {
                self.take_as_it_is(false);
                return Look::Unlisted;
            }
            _ => {}
        }
        look
    }

    /// Reads the models, and says so where nothing shows who is there.
    pub(super) async fn find_out(&mut self) {
        let look = self.read_models().await;
        self.settle_doubt(look);
    }

    /// After a look that no gap made necessary.
    pub(super) fn settle_doubt(&mut self, look: Look) {
        let over = match look {
            Look::Unlisted => true,
            Look::Failed => self.models_failed >= FAILED_LOOKS,
            Look::Listed | Look::Over => return,
        };
        if !over {
            return;
        }
        let now = self.now();
        if std::mem::take(&mut self.denial.pending) {
            self.denial.believed = Some(now);
            let verdict = self.given.past.lock().denied();
            verdict.into_iter().for_each(|verdict| self.judged(&verdict));
            return;
        }
        let again = self.denial.believed.is_some_and(|at| now.since(at) >= DENIED_FOR);
        if again {
            self.denial.believed = None;
        }
        self.take_as_it_is(again);
    }

    fn take_as_it_is(&mut self, anew: bool) {
        if self.given.target.model.is_none() {
            return;
        }
        let verdict = self.given.past.lock().unlisted(anew);
        verdict.into_iter().for_each(|verdict| self.judged(&verdict));
    }

    /// Another engine may be there: nothing is to be sent until it is known.
    pub(super) fn doubt(&mut self) {
        if self.given.target.model.is_some() {
            let verdict = self.given.past.lock().doubt();
            verdict.into_iter().for_each(|verdict| self.judged(&verdict));
            self.due.models = self.now();
        }
    }

    /// Its answers say that it does not have the expected model.
    pub(super) fn take_denial(&mut self) {
        if self.given.target.model.is_none() {
            return;
        }
        let now = self.now();
        if self.denial.refuted.is_some_and(|at| now.since(at) < DOUBTED_IN_VAIN) {
            self.given.nudge.ask_models();
            return;
        }
        self.denial.pending = true;
        self.doubt();
    }

    /// Its list was read, which is more than its answers.
    pub(super) fn end_denial(&mut self) {
        self.denial.believed = None;
        if std::mem::take(&mut self.denial.pending) {
            self.denial.refuted = Some(self.now());
        }
    }

    /// Whether it was taken at its word that it does not have the model.
    pub(super) fn is_denied(&self) -> bool {
        self.denial.pending || self.denial.believed.is_some()
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.given.target.model.is_some() && self.given.past.lock().is_in_doubt()
    }
}
