//! Values that only a fleet file has.

use schemars::{Schema, json_schema};

use crate::kinds::Positive;
use crate::scalar::{Complaint, Kind, nearest};

/// How many times as fast, from 0.001 to 1000.
pub(super) struct Factor;

impl Kind for Factor {
    type Value = f64;

    fn parse(text: &str) -> Result<f64, Complaint> {
        Positive::parse(text)
            .ok()
            .filter(|factor| (0.001..=1000.0).contains(factor))
            .ok_or_else(|| Complaint::new("is not a number from 0.001 to 1000"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["number", "string"], "minimum": 0.001, "maximum": 1000 })
    }

    fn describe() -> String {
        "number, 0.001 to 1000".to_owned()
    }
}

/// What an event does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Speed,
    Crash,
    Join,
    Leave,
}

const CHANGES: [(&str, Change); 4] =
    [("speed", Change::Speed), ("crash", Change::Crash), ("join", Change::Join), ("leave", Change::Leave)];

impl Kind for Change {
    type Value = Change;

    fn parse(text: &str) -> Result<Change, Complaint> {
        let words = CHANGES.map(|(word, _)| word);
        CHANGES.iter().find(|(word, _)| *word == text).map(|(_, change)| *change).ok_or_else(|| Complaint {
            before: "unknown change ".into(),
            nearest: nearest(text, words).map(str::to_owned),
            hint: Some(format!("one of: {}", words.join(", ")).into()),
            ..Complaint::default()
        })
    }

    fn schema() -> Schema {
        json_schema!({ "enum": CHANGES.map(|(word, _)| word) })
    }

    fn describe() -> String {
        CHANGES.map(|(word, _)| format!("`{word}`")).join(", ")
    }
}
