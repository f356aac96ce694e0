//! One value of the file: its text, and what that text must mean.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer};

use crate::error::quote;

/// What a kind of value accepts, and how it is described to people and to editors.
pub(crate) trait Kind {
    /// What the program uses.
    type Value;

    /// Whether no message may show what was written.
    const SECRET: bool = false;

    /// Reads the text, environment variables already put in.
    fn parse(text: &str) -> Result<Self::Value, Complaint>;

    /// The JSON Schema of what may be written.
    fn schema() -> Schema;

    /// The kind in a few words, for the reference page.
    fn describe() -> String;
}

/// Why a text is refused, in pieces, so that a text which came from the environment can
/// be left out: only `nearest` may depend on it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Complaint {
    /// Before the quoted text.
    pub(crate) before: Cow<'static, str>,
    /// After the quoted text.
    pub(crate) after: Cow<'static, str>,
    /// What was probably meant.
    pub(crate) nearest: Option<String>,
    /// At the end, in brackets.
    pub(crate) hint: Option<Cow<'static, str>>,
}

impl Complaint {
    /// `"TEXT" AFTER`.
    pub(crate) fn new(after: impl Into<Cow<'static, str>>) -> Complaint {
        Complaint { after: after.into(), ..Complaint::default() }
    }

    /// The message about a text as written in the file; `secret` says that what was
    /// read was not that text but what an environment variable made of it.
    pub(crate) fn message(&self, written: &str, secret: bool) -> String {
        let mut message = format!("{}{}", self.before, quote(written));
        if !self.after.is_empty() {
            message.push_str(&format!(" {}", self.after));
        }
        if let Some(nearest) = self.nearest.as_ref().filter(|_| !secret) {
            message.push_str(&format!("; did you mean {}?", quote(nearest)));
        }
        if let Some(hint) = &self.hint {
            message.push_str(&format!(" ({hint})"));
        }
        message
    }
}

/// A value as written, of kind `K`, not yet read.
pub(crate) struct Scalar<K> {
    /// The text in the file, without its YAML quotes.
    pub(crate) text: String,
    kind: PhantomData<fn() -> K>,
}

impl<K> Scalar<K> {
    pub(crate) fn new(text: String) -> Scalar<K> {
        Scalar { text, kind: PhantomData }
    }
}

impl<K> fmt::Debug for Scalar<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quote(&self.text).fmt(f)
    }
}

impl<'de, K> Deserialize<'de> for Scalar<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Numbers and booleans arrive as their text too, so that every kind can take
        // `${NAME}` and complain in its own words.
        String::deserialize(deserializer).map(Scalar::new)
    }
}

impl<K: Kind> JsonSchema for Scalar<K> {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = K::schema();
        schema.insert("x-kind".to_owned(), K::describe().into());
        schema
    }
}

/// In schemas: a text that has a variable in it, whatever the field's kind.
pub(crate) const VARIABLE: &str = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}";

/// The word of `words` that is nearest to `text`, if any is near.
pub(crate) fn nearest<'w>(text: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let lower = text.to_ascii_lowercase();
    words
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(&lower, word), word))
        // A third of the letters may differ; beyond that a guess is noise.
        .filter(|(distance, word)| *distance <= word.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}
