//! Errors that stop the reading: text that is not YAML, and YAML of another shape than
//! expected. They are reported alone.

use serde_saphyr::Error;

use crate::error::{ConfigError, Errors, Place, quote};
use crate::places::{Places, Shape, position};
use crate::scalar::nearest;
use crate::variables::{Lookup, expand};

/// How the file is read: plain YAML 1.2, each name once, within limits that no real
/// configuration meets.
pub(crate) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
    }
}

/// The error of the YAML reader in the user's words. `places` is there when the text is
/// YAML at all.
pub(crate) fn explain(error: &Error, file: &str, text: &str, places: Option<&Places>) -> Errors {
    let error = innermost(error);
    let at = error.location().map_or((1, 1), position);
    let path = places.and_then(|places| match error {
        Error::SerdeUnknownField { .. } | Error::DuplicateMappingKey { .. } => places.path_of_key(at),
        _ => places.path_of_value(at),
    });
    let found = || path.and_then(|path| places?.get(path)).map(|spot| format!(", found {}", spot.shape));
    let message = match error {
        Error::SerdeUnknownField { field, expected, .. } => unknown_field(field, expected),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("{} is set twice here", quote(key)),
        Error::DuplicateMappingKey { .. } => "a name is set twice here".to_owned(),
        Error::MultipleDocuments { .. } => {
            "a second document begins here; the file must be one document".to_owned()
        }
        Error::NullIntoString { .. } => "expected a value, found nothing".to_owned(),
        Error::Unexpected { expected, .. } => {
            format!("expected {}{}", shape(expected), found().unwrap_or_default())
        }
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("expected {expected}{}", found().unwrap_or_default())
        }
        Error::Eof { .. } => "the file ends before it is complete".to_owned(),
        Error::UnknownAnchor { .. } => {
            "an alias (*) without its anchor (&); put a text that begins with * in quotes".to_owned()
        }
        Error::Budget { .. } => "the file is too large or too deeply nested".to_owned(),
        other => other.render_with_formatter(&serde_saphyr::UserMessageFormatter).to_owned(),
    };
    let message = without_location(message, at);
    alone(file, text, at, path.unwrap_or_default(), message)
}

/// One error that is reported without any other.
fn alone(file: &str, text: &str, at: (u32, u32), path: &str, message: String) -> Errors {
    Errors(vec![ConfigError {
        file: file.to_owned(),
        path: path.to_owned(),
        message,
        place: Place::new(text, at.0, at.1),
        also: Vec::new(),
    }])
}

/// The one field that every version has.
#[derive(serde::Deserialize)]
struct AnyVersion {
    version: Option<String>,
}

/// Refuses an empty file, and a file of another version before its fields are looked at:
/// what they mean there is not known here. `needs` says what an empty one lacks.
pub(crate) fn check_version(
    file: &str,
    text: &str,
    places: &Places,
    needs: &str,
    lookup: Lookup<'_>,
) -> Result<(), Errors> {
    if places.get("").is_none_or(|root| root.shape == Shape::Nothing) {
        let message = format!("the file is empty; it needs at least version, and {needs}");
        return Err(alone(file, text, (1, 1), "", message));
    }
    // Where even this fails, the whole reading says why.
    let Ok(any) = serde_saphyr::from_str_with_options::<AnyVersion>(text, options()) else { return Ok(()) };
    let problem = match &any.version {
        None => "is missing; write version: 1".to_owned(),
        Some(written) => match expand(written, lookup) {
            Ok(version) if version.text == "1" => return Ok(()),
            Ok(_) => format!("{} is not known here; this program reads version 1", quote(written)),
            Err(problem) => problem,
        },
    };
    Err(alone(file, text, places.point("version"), "version", problem))
}

/// The error behind the wrappers that say through which alias it was reached.
fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

fn unknown_field(field: &str, expected: &[&'static str]) -> String {
    let mut message = format!("unknown field {}", quote(field));
    if let Some(near) = nearest(field, expected.iter().copied()) {
        message.push_str(&format!("; did you mean {}?", quote(near)));
    }
    message.push_str(&format!(" (one of: {})", expected.join(", ")));
    message
}

/// The reader's words for what it wanted, in the user's.
fn shape(expected: &str) -> &str {
    match expected {
        "sequence start" => "a list (lines that begin with -)",
        "mapping start" => "a mapping (lines of NAME: VALUE)",
        "string scalar" => "a single value",
        other => other,
    }
}

/// The reader appends its own location, which stands before the message already.
fn without_location(message: String, (line, column): (u32, u32)) -> String {
    match message.strip_suffix(&format!(" at line {line}, column {column}")) {
        Some(message) => message.to_owned(),
        None => message,
    }
}
