//! The methods of Python's strings and dictionaries that templates call.

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};

use crate::python::is_space;

/// Called for every method that a value does not have itself.
pub(super) fn call(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => match value.as_str() {
            Some(text) => on_string(state, text, name, args),
            None => Err(unknown()),
        },
        ValueKind::Map => on_map(state, value, name, args),
        ValueKind::Seq if name == "count" => {
            let (what,): (&Value,) = from_args(args)?;
            Ok(Value::from(value.try_iter()?.filter(|item| item == what).count()))
        }
        _ => Err(unknown()),
    }
}

fn unknown() -> Error {
    Error::from(ErrorKind::UnknownMethod)
}

fn wrong(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

fn on_string(state: &mut State, text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match name {
        "strip" => strip(text, args, true, true)?,
        "lstrip" => strip(text, args, true, false)?,
        "rstrip" => strip(text, args, false, true)?,
        "startswith" => any_of(args, |part| text.starts_with(part))?,
        "endswith" => any_of(args, |part| text.ends_with(part))?,
        "split" => split(text, args, false)?,
        "rsplit" => split(text, args, true)?,
        "replace" => {
            let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
            let count = count.and_then(|n| usize::try_from(n).ok());
            let most = (text.len() / old.len().max(1) + 1).min(count.unwrap_or(usize::MAX));
            state.consume_fuel((most.saturating_mul(new.len()) / 64) as u64)?;
            Value::from(count.map_or_else(|| text.replace(old, new), |n| text.replacen(old, new, n)))
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            let mut joined = String::new();
            for (at, item) in items.try_iter()?.enumerate() {
                if at > 0 {
                    state.consume_fuel((text.len() / 64) as u64)?;
                    joined.push_str(text);
                }
                joined.push_str(item.as_str().ok_or_else(|| wrong("join takes strings"))?);
            }
            Value::from(joined)
        }
        "find" | "rfind" => {
            let (part,): (&str,) = from_args(args)?;
            let at = if name == "find" { text.find(part) } else { text.rfind(part) };
            Value::from(at.map_or(-1, |at| text[..at].chars().count() as i64))
        }
        "count" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.matches(part).count())
        }
        "format" => Value::from(format(FormatStyle::StrFormat, text, args)?),
        "splitlines" => {
            let () = from_args(args)?;
            lines(text)
        }
        _ => {
            let () = from_args(args)?;
            match name {
                "upper" => Value::from(text.to_uppercase()),
                "lower" => Value::from(text.to_lowercase()),
                "title" | "capitalize" => return state.apply_filter(name, &[Value::from(text)]),
                "isspace" => Value::from(every(text, is_space)),
                "isalpha" => Value::from(every(text, char::is_alphabetic)),
                "isalnum" => Value::from(every(text, char::is_alphanumeric)),
                "isdigit" => {
                    Value::from(every(text, |c| c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric())))
                }
                "isupper" => {
                    Value::from(text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase))
                }
                "islower" => {
                    Value::from(text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase))
                }
                _ => return Err(unknown()),
            }
        }
    })
}

fn every(text: &str, is: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(is)
}

/// `strip` at one end or both: white space, or any of the characters given.
fn strip(text: &str, args: &[Value], start: bool, end: bool) -> Result<Value, Error> {
    let (of,): (Option<&str>,) = from_args(args)?;
    Ok(Value::from(stripped(text, of, start, end)))
}

/// Without the characters `of`, or white space, at the ends asked for.
pub(super) fn stripped<'a>(text: &'a str, of: Option<&str>, start: bool, end: bool) -> &'a str {
    let gone = |c: char| of.map_or_else(|| is_space(c), |of| of.contains(c));
    let text = if start { text.trim_start_matches(gone) } else { text };
    if end { text.trim_end_matches(gone) } else { text }
}

/// Whether the argument, or any of a tuple of them, has what is asked.
fn any_of(args: &[Value], has: impl Fn(&str) -> bool) -> Result<Value, Error> {
    let (part,): (&Value,) = from_args(args)?;
    if let Some(part) = part.as_str() {
        return Ok(Value::from(has(part)));
    }
    let parts = part.try_iter()?;
    Ok(Value::from(parts.into_iter().any(|part| part.as_str().is_some_and(&has))))
}

fn split(text: &str, args: &[Value], from_end: bool) -> Result<Value, Error> {
    let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
    let most = most.and_then(|n| usize::try_from(n).ok());
    let Some(separator) = separator else {
        if most.is_some() {
            return Err(wrong("a limit without a separator"));
        }
        return Ok(text.split(is_space).filter(|word| !word.is_empty()).map(Value::from).collect());
    };
    if separator.is_empty() {
        return Err(wrong("an empty separator"));
    }
    let parts = most.map_or(usize::MAX, |n| n.saturating_add(1));
    if from_end {
        let mut found: Vec<Value> = text.rsplitn(parts, separator).map(Value::from).collect();
        found.reverse();
        return Ok(Value::from(found));
    }
    Ok(text.splitn(parts, separator).map(Value::from).collect())
}

/// `splitlines`, whose line ends are more than the usual two.
fn lines(text: &str) -> Value {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        found.push(Value::from(&rest[..at]));
        let end = &rest[at..];
        let width = if end.starts_with("\r\n") { 2 } else { end.chars().next().map_or(1, char::len_utf8) };
        rest = &end[width..];
    }
    if !rest.is_empty() {
        found.push(Value::from(rest));
    }
    Value::from(found)
}

fn on_map(state: &mut State, map: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match name {
        "get" => {
            let (key, otherwise): (&Value, Option<&Value>) = from_args(args)?;
            let found = map.get_item(key)?;
            let found = if found.is_undefined() { otherwise.cloned() } else { Some(found) };
            Ok(found.unwrap_or(Value::from(())))
        }
        "items" => {
            let () = from_args(args)?;
            state.apply_filter("items", std::slice::from_ref(map))
        }
        "keys" => {
            let () = from_args(args)?;
            Ok(map.try_iter()?.collect())
        }
        "values" => {
            let () = from_args(args)?;
            map.try_iter()?.map(|key| map.get_item(&key)).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        _ => Err(unknown()),
    }
}
