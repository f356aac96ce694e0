//! Values as Python writes them: `str()`, `repr()` and `json.dumps()`.

use std::fmt::Write;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// How deep a value may be nested; Python's own limit is of that size.
const MAX_DEPTH: usize = 200;

/// How `json.dumps` was asked to write.
pub(crate) struct Dumps {
    /// Everything beyond ASCII by its code.
    pub(crate) ensure_ascii: bool,
    /// What one level is moved to the right by; `None` for a single line.
    pub(crate) indent: Option<String>,
    /// What parts two items.
    pub(crate) item_separator: String,
    /// What parts a key from its value.
    pub(crate) key_separator: String,
    /// Keys in order, instead of as they come.
    pub(crate) sort_keys: bool,
}

impl Dumps {
    /// `json.dumps(value, …)`.
    ///
    /// # Errors
    /// A value that has no JSON, such as an undefined one.
    pub(crate) fn write(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.value(&mut out, value, 0)?;
        Ok(out)
    }

    fn value(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(no_json("nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.string(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.items(out, ['[', ']'], items.len(), depth, |out, at| {
                    self.value(out, &items[at], depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut entries = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    entries.push((key_text(&key)?, item));
                }
                if self.sort_keys {
                    entries.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.items(out, ['{', '}'], entries.len(), depth, |out, at| {
                    let (key, item) = &entries[at];
                    self.string(out, key);
                    out.push_str(&self.key_separator);
                    self.value(out, item, depth + 1)
                })?;
            }
            _ => return Err(no_json("not serialisable")),
        }
        Ok(())
    }

    fn items(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        count: usize,
        depth: usize,
        mut write: impl FnMut(&mut String, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for at in 0..count {
            if at > 0 {
                out.push_str(&self.item_separator);
            }
            self.line(out, depth + 1);
            write(out, at)?;
        }
        if count > 0 {
            self.line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn no_json(why: &'static str) -> Error {
    Error::new(ErrorKind::BadSerialization, why)
}

/// A key as JSON has it: always a string.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
        ValueKind::Number => number(key),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::None => "null".to_owned(),
        _ => return Err(no_json("keys must be words or numbers")),
    })
}

/// `str(value)`; nothing for an undefined one, as Jinja prints it.
pub(crate) fn str(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_undefined() => String::new(),
        None => {
            let mut out = String::new();
            repr(&mut out, value, 0);
            out
        }
    }
}

fn repr(out: &mut String, value: &Value, depth: usize) {
    if depth > MAX_DEPTH {
        return out.push_str("...");
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => repr_string(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            let [open, close] = if value.is_tuple() { ['(', ')'] } else { ['[', ']'] };
            out.push(open);
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                if count > 0 {
                    out.push_str(", ");
                }
                count += 1;
                repr(out, &item, depth + 1);
            }
            if count == 1 && value.is_tuple() {
                out.push(',');
            }
            out.push(close);
        }
        // A namespace, a macro and the like are maps to nobody.
        ValueKind::Map => {
            out.push('{');
            for (at, key) in value.try_iter().into_iter().flatten().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                repr(out, &key, depth + 1);
                out.push_str(": ");
                repr(out, &value.get_item(&key).unwrap_or_default(), depth + 1);
            }
            out.push('}');
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
}

fn repr_string(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if (c as u32) < 0x1_0000 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push(quote);
}

/// `c.isprintable()`. The standard library's debug output escapes the same
/// categories of Unicode; not as the first character, where it also escapes
/// what would combine with the quote.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let mut pair = [0; 5];
    pair[0] = b'a';
    let end = 1 + c.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..end]).is_ok_and(|pair| pair.escape_debug().count() == 2)
}

/// A number as Python writes it: whole ones plainly, others by `repr(float)`.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(float) => self::float(float),
        Err(_) => value.to_string(),
    }
}

/// `repr(float)`: the shortest digits that give the same number, with an
/// exponent below -4 and from 16 on.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    // Rust writes `d.ddde-7`, with the shortest digits too.
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// What `str.strip` takes for white space: Unicode's, and four separators that
/// Unicode does not count.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumps(json: &str, indent: Option<&str>, ensure_ascii: bool) -> String {
        let value: Value = serde_json::from_str(json).unwrap();
        Dumps {
            ensure_ascii,
            indent: indent.map(str::to_owned),
            item_separator: if indent.is_some() { "," } else { ", " }.to_owned(),
            key_separator: ": ".to_owned(),
            sort_keys: false,
        }
        .write(&value)
        .unwrap()
    }

    #[test]
    fn json_is_written_as_python_writes_it() {
        let text = r#"{"z": [1, -2, 1.0, 1e30, 5e-7, 0.0001, 123456789012345680.0], "a": {"k": "<é\u0007\u2028\"/>"}, "e": [], "o": {}}"#;
        assert_eq!(
            dumps(text, None, false),
            "{\"z\": [1, -2, 1.0, 1e+30, 5e-07, 0.0001, 1.2345678901234568e+17], \"a\": {\"k\": \"<é\\u0007\u{2028}\\\"/>\"}, \"e\": [], \"o\": {}}"
        );
        assert_eq!(dumps("[\"é🚀\"]", None, true), r#"["\u00e9\ud83d\ude80"]"#);
        assert_eq!(
            dumps(r#"{"a":[1,{"b":null}],"c":[]}"#, Some("  "), false),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": []\n}"
        );
    }

    #[test]
    fn values_print_as_python_prints_them() {
        let value: Value =
            serde_json::from_str(r#"[null, true, 1.5, "it's", "a\"'b", "é\u0301\u00a0\u200b\n", {"k": []}]"#)
                .unwrap();
        assert_eq!(
            str(&value),
            "[None, True, 1.5, \"it's\", 'a\"\\'b', 'é\u{301}\\xa0\\u200b\\n', {'k': []}]"
        );
        assert_eq!(str(&Value::from((1, "x"))), "(1, 'x')");
        assert_eq!(str(&Value::from("plain")), "plain");
        assert_eq!(str(&Value::UNDEFINED), "");
    }
}
