//! What an endpoint was, to see that it is another one now.

use forebay_wire::signals::rates::restarted;
use forebay_wire::signals::{CustomSignal, Dialect, ResidentModel, Signals};

/// What an endpoint said of itself before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    dialect: Option<Dialect>,
    signals: Option<Signals>,
    /// The base models of its last list.
    list: Option<Vec<String>>,
    /// A restart was told since that list was read.
    told: bool,
    /// The names under which an engine that answers to any name was taken on.
    accepted: Option<Vec<String>>,
    /// The expected model was once among the labels of its metrics.
    labelled: bool,
    /// It was said that signals are not on its page.
    said_missing: bool,
    matches: Option<bool>,
}

/// How a dialect that was found relates to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    First,
    Same,
    Another,
}

/// Whether the expected model is there; only said when that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Matches,
    /// Serves this, and not the expected one.
    Mismatch(String),
}

impl Past {
    /// Forgets what was expected of the endpoint, not what it was.
    pub(crate) fn expect_anew(&mut self) {
        self.accepted = None;
        self.labelled = false;
        self.said_missing = false;
        self.matches = None;
    }

    /// Takes in which engine answers.
    pub(crate) fn found(&mut self, dialect: Dialect) -> Found {
        match self.dialect.replace(dialect) {
            Some(before) if before == dialect => Found::Same,
            // What nothing was known of cannot be told from what is there now.
            None | Some(Dialect::Openai) => Found::First,
            Some(_) => {
                self.signals = None;
                self.told = true;
                Found::Another
            }
        }
    }

    /// Whether what tells `now` began after what told the signals before.
    pub(crate) fn is_new(&mut self, now: &Signals) -> bool {
        let before = self.signals.as_ref();
        let is_new = before.is_some_and(|b| restarted(b, now) || disjoint(&b.models, &now.models));
        self.told |= is_new;
        is_new
    }

    /// The metrics of `wanted` that `page` does not have: given once, and to be
    /// said then. Pages come ten times a second.
    pub(crate) fn missing<'w>(&mut self, wanted: &'w [CustomSignal], page: &Signals) -> Vec<&'w str> {
        let missing = wanted.iter().zip(page.custom_missing).filter(|(_, missing)| *missing);
        let missing: Vec<_> = missing.map(|(signal, _)| signal.metric.as_str()).collect();
        if missing.is_empty() || std::mem::replace(&mut self.said_missing, true) {
            return Vec::new();
        }
        missing
    }

    /// Keeps `now` for the next comparison. Whether it was new is as
    /// [`is_new`](Self::is_new) said.
    pub(crate) fn keep(&mut self, mut now: Signals, was_new: bool) {
        if let Some(before) = self.signals.take()
            && !was_new
            && now.models.is_empty()
        {
            // Many series only appear with the first request.
            now.models = before.models;
        }
        self.signals = Some(now);
    }

    /// Takes in a list of models. Gives whether it is that of another engine
    /// than the list before, which nothing else had told, and what it says
    /// of the expected model.
    pub(crate) fn list(
        &mut self,
        dialect: Dialect,
        expected: Option<&str>,
        models: &[ResidentModel],
    ) -> (bool, Option<Verdict>) {
        let told = std::mem::take(&mut self.told);
        let base: Vec<String> = models.iter().filter(|m| m.parent.is_none()).map(|m| m.id.clone()).collect();
        // These load and unload models as they live.
        let changes = matches!(dialect, Dialect::Ollama | Dialect::Triton);
        let another = !changes && self.list.as_ref().is_some_and(|before| disjoint(before, &base));
        // Ollama tells what is in memory now, not what it serves.
        let judged = expected.filter(|_| !base.is_empty() && dialect != Dialect::Ollama);
        let verdict = judged.and_then(|expected| {
            let right = models.iter().any(|m| m.id == expected) || self.accepts(dialect, &base);
            self.turned(right, base.first())
        });
        if !base.is_empty() {
            self.list = Some(base);
        }
        if another {
            // What it said before is no measure for what it says now.
            self.signals = None;
        }
        (another && !told, verdict)
    }

    /// What the labels of its metrics say of the expected model, for an
    /// endpoint whose list of models cannot be read. A name that never was
    /// among them proves nothing: engines label with one of their names.
    pub(crate) fn labels(&mut self, expected: &str, signals: &Signals) -> Option<Verdict> {
        if signals.models.is_empty() {
            return None;
        }
        let right = signals.models.iter().any(|name| name == expected);
        self.labelled |= right;
        if right || self.labelled { self.turned(right, signals.models.first()) } else { None }
    }

    /// Some engines serve one model under whatever name they are asked for it,
    /// and list it under a file's name: what they list first is taken to be right.
    fn accepts(&mut self, dialect: Dialect, base: &[String]) -> bool {
        if !matches!(dialect, Dialect::Llamacpp | Dialect::Tgi) {
            return false;
        }
        match &self.accepted {
            Some(accepted) => !disjoint(accepted, base),
            None => {
                self.accepted = Some(base.to_vec());
                true
            }
        }
    }

    fn turned(&mut self, right: bool, found: Option<&String>) -> Option<Verdict> {
        if self.matches.replace(right) == Some(right) {
            return None;
        }
        Some(if right { Verdict::Matches } else { Verdict::Mismatch(found.cloned().unwrap_or_default()) })
    }
}

/// Both name something, and nothing is in both.
fn disjoint(before: &[String], now: &[String]) -> bool {
    !before.is_empty() && !now.is_empty() && !before.iter().any(|name| now.contains(name))
}

#[cfg(test)]
#[path = "past_tests.rs"]
mod tests;
