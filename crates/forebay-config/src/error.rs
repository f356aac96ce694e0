//! What is wrong with a configuration, and where.

use std::fmt;

use serde::Serialize;

/// What is wrong with one file, in the file's order; never empty. Beyond the first hundred
/// errors, one last entry says how many more there are.
///
/// Displayed, each error is a block: `FILE:LINE:COLUMN: PATH: MESSAGE`, the source line,
/// and a caret. As JSON it is a list of objects with `file`, `line`, `column`, `path`,
/// `message`, and `also` where a second place belongs to the error.
///
/// No text of it contains the value of an environment variable, or a password in a URL.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct Errors(pub Vec<ConfigError>);

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ConfigError {
    /// The file's name, as the caller gave it.
    pub file: String,
    /// The field, such as `pools[0].policy`; empty when it is the file as a whole.
    pub path: String,
    /// What is wrong and what was expected.
    pub message: String,
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// Other places that belong to it, such as the first of two duplicates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Also>,
}

/// A second place that belongs to an error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Also {
    /// What is there.
    pub message: String,
    /// Where.
    #[serde(flatten)]
    pub place: Place,
}

/// A place in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// The text of the line, with passwords in URLs hidden.
    #[serde(skip)]
    pub text: String,
}

/// Characters of a source line that are shown; longer lines are cut around the caret.
const SHOWN_WIDTH: usize = 110;

impl Place {
    /// The place at `line` and `column` of `source`.
    pub(crate) fn new(source: &str, line: u32, column: u32) -> Place {
        let text = source.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default();
        let text = hide_keys(&hide_passwords(text));
        Place { line: line.max(1), column: column.max(1), text }
    }

    /// The source line and a caret under the column.
    fn write_source(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.text.trim().is_empty() {
            return Ok(());
        }
        let column = self.column as usize - 1;
        let start = if column < SHOWN_WIDTH { 0 } else { column - SHOWN_WIDTH / 2 };
        // Tabs and control characters would move the caret or the terminal.
        let shown: String = self
            .text
            .chars()
            .skip(start)
            .take(SHOWN_WIDTH)
            .map(|c| if c == '\t' { ' ' } else { c })
            .map(|c| if moves_the_terminal(c) { '\u{FFFD}' } else { c })
            .collect();
        let number = self.line.to_string();
        writeln!(f, "  {number} | {}", shown.trim_end())?;
        let indent = column - start;
        writeln!(f, "  {:width$} | {:indent$}^", "", "", width = number.len())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.place.line, self.place.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        writeln!(f, "{}", self.message)?;
        self.place.write_source(f)?;
        for also in &self.also {
            writeln!(f, "{}:{}:{}: note: {}", self.file, also.place.line, also.place.column, also.message)?;
            also.place.write_source(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|error| error.fmt(f))
    }
}

impl std::error::Error for Errors {}

/// Replaces what stands between `://` and `@` by as many stars, so that columns stay.
pub(crate) fn hide_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    // Up to the last @, even behind a slash: hiding too much is the better mistake.
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rfind('@') {
            Some(at) => {
                shown.extend(authority[..at].chars().map(|_| '*'));
                shown.push_str(&authority[at..]);
            }
            None => shown.push_str(authority),
        }
        rest = tail;
    }
    shown.push_str(rest);
    shown
}

/// Replaces the values of fields that hold keys by as many stars, so that columns
/// stay. Where a value ends is only guessed: hiding too much is the better mistake.
fn hide_keys(text: &str) -> String {
    const FIELD: &str = "engine_key";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(FIELD) {
        let (before, after) = rest.split_at(at + FIELD.len());
        shown.push_str(before);
        let value_at = after.find(|c: char| !matches!(c, ':' | ' ' | '"' | '\'')).unwrap_or(after.len());
        let (between, value) = after.split_at(value_at);
        shown.push_str(between);
        let quote = between.chars().last().filter(|c| matches!(c, '"' | '\''));
        let end = match quote {
            Some(quote) => value.find(quote),
            // No single value, but what it begins may hold the key.
            None if value.starts_with(['[', '{']) => None,
            // A variable's name is no secret.
            None if value.starts_with("${") => Some(0),
            None => value.find([',', ' ']),
        };
        let (value, tail) = value.split_at(end.unwrap_or(value.len()));
        match value.starts_with("${") {
            true => shown.push_str(value),
            false => shown.extend(value.chars().map(|_| '*')),
        }
        rest = tail;
    }
    shown.push_str(rest);
    shown
}

/// Whether a character controls the terminal or the direction of writing.
pub(crate) fn moves_the_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// A user's text, quoted for a message: short, on one line, without passwords.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 80;
    let hidden = hide_passwords(text);
    let mut shown: String = hidden.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if hidden.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}
