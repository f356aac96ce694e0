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
    said: Option<Said>,
    /// Another engine may have come since that was said.
    anew: bool,
}

/// What was said last of the expected model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Doubt,
    Right,
    Wrong,
    Unlisted,
}

/// How a dialect that was found relates to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    First,
    Same,
    Another,
}

/// How a page of metrics relates to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Began {
    /// The same process goes on, as far as the page shows.
    Before,
    /// Its start or its counters show another process.
    Anew,
    /// Its labels name other models, and none of those before.
    AsAnother,
}

/// Whether the expected model is there; only said when that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is being found out.
    Doubt,
    Matches,
    /// Nothing there lists its models: it is taken to be right.
    Unlisted,
    /// Serves this, and not the expected one.
    Mismatch(String),
}

impl Past {
    /// Forgets what was expected of the endpoint, not what it was.
    pub(crate) fn expect_anew(&mut self) {
        self.accepted = None;
        self.labelled = false;
        self.said_missing = false;
        self.said = None;
        self.anew = false;
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
    pub(crate) fn began(&mut self, now: &Signals) -> Began {
        let Some(before) = &self.signals else { return Began::Before };
        let began = if disjoint(&before.models, &now.models) {
            Began::AsAnother
        } else if restarted(before, now) {
            Began::Anew
        } else {
            return Began::Before;
        };
        self.told = true;
        began
    }

    /// Another engine may be there. One that was wrong stays so until it is
    /// known to be right.
    pub(crate) fn doubt(&mut self) -> Option<Verdict> {
        self.anew = true;
        if matches!(self.said, Some(Said::Wrong | Said::Doubt)) {
            return None;
        }
        self.said = Some(Said::Doubt);
        Some(Verdict::Doubt)
    }

    /// Whether it was said that it serves another model.
    pub(crate) fn is_wrong(&self) -> bool {
        self.said == Some(Said::Wrong)
    }

    /// Whether it is being found out who is there.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.said == Some(Said::Doubt)
    }

    /// There is no list that could be read. An engine that began `anew` is taken
    /// as it is; of one that goes on, what was known of it still is.
    pub(crate) fn unlisted(&mut self, anew: bool) -> Option<Verdict> {
        let known = match self.said {
            Some(Said::Unlisted) => true,
            Some(Said::Right | Said::Wrong) => !(anew || self.anew),
            None | Some(Said::Doubt) => false,
        };
        if known {
            return None;
        }
        self.anew = false;
        self.said = Some(Said::Unlisted);
        Some(Verdict::Unlisted)
    }

    /// The engine itself says that it does not have the expected model, and has
    /// no list that would say otherwise.
    pub(crate) fn denied(&mut self) -> Option<Verdict> {
        self.turned(false, None)
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
        let judges = !base.is_empty() && dialect != Dialect::Ollama;
        let verdict = expected.and_then(|expected| {
            if !judges {
                return self.unlisted(another);
            }
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
    /// endpoint whose list of models cannot be read: whether it is right, and
    /// what is to be said. A name that never was among them proves nothing:
    /// engines label with one of their names.
    pub(crate) fn labels(&mut self, expected: &str, signals: &Signals) -> (Option<bool>, Option<Verdict>) {
        if signals.models.is_empty() {
            return (None, None);
        }
        let right = signals.models.iter().any(|name| name == expected);
        self.labelled |= right;
        match self.labelled {
            true => (Some(right), self.turned(right, signals.models.first())),
            false => (None, None),
        }
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
        self.anew = false;
        let said = if right { Said::Right } else { Said::Wrong };
        if self.said.replace(said) == Some(said) {
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
