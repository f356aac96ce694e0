//! Jinja as transformers sets it up for chat templates.

use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

use super::methods;
use crate::python::{self, Dumps};

/// Gives the time by a `strftime` format, or nothing for a format it does not know.
pub(super) type Clock = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Steps that one rendering may take: some hundred thousand lines of a
/// template, a fraction of a second. A step also stands for 64 bytes written.
const FUEL: u64 = 5_000_000;

/// What `raise_exception` and a missing clock say; they are told from other
/// failures by these words.
pub(super) const RAISED: &str = "raised by the template";
pub(super) const NO_CLOCK: &str = "strftime_now";

/// An environment without templates.
pub(super) fn environment(clock: Option<Clock>) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax()?);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(|out, _, value| match value.as_str() {
        Some(text) => Ok(out.write_str(text)?),
        None => Ok(out.write_str(&python::str(value))?),
    });
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |value: &Value| python::str(value));
    environment.add_filter("trim", |value: &Value, of: Option<&str>| {
        methods::stripped(&python::str(value), of, true, true).to_owned()
    });
    // To Python, strings and dictionaries have a length and items too.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Undefined)
    });
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_function("raise_exception", |_: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, RAISED))
    });
    environment.add_function("strftime_now", move |format: &str| {
        let time = clock.as_ref().and_then(|clock| clock(format));
        time.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, NO_CLOCK))
    });
    Ok(environment)
}

/// How templates are read.
pub(super) fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()
}

/// `json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`
/// with the same defaults and the same order of arguments.
fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<&Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let ensure_ascii = ensure_ascii.or(named.get("ensure_ascii")?);
    let indent = match indent.cloned().or(named.get::<Option<Value>>("indent")?) {
        Some(indent) if !indent.is_none() => Some(match indent.as_str() {
            Some(indent) => indent.to_owned(),
            None => " ".repeat(indent.as_usize().unwrap_or(0).min(64)),
        }),
        _ => None,
    };
    let separators: Option<Vec<String>> = named.get("separators")?;
    let [item_separator, key_separator] = match separators {
        None => [if indent.is_some() { "," } else { ", " }, ": "].map(str::to_owned),
        Some(two) => <[String; 2]>::try_from(two)
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "separators are two"))?,
    };
    let sort_keys: Option<bool> = named.get("sort_keys")?;
    named.assert_all_used()?;
    let dumps = Dumps {
        ensure_ascii: ensure_ascii.unwrap_or(false),
        indent,
        item_separator,
        key_separator,
        sort_keys: sort_keys.unwrap_or(false),
    };
    dumps.write(value).map(Value::from)
}

/// A template as Jinja in Python reads it.
///
/// All line ends are newlines, also in its strings. `{% generation %}` marks
/// what a model says, for training; it prints its inside in a scope of its own,
/// as `{% with %}` does.
pub(super) fn as_read(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (inside, after) = tag.split_at(end);
        match inside.trim_matches(|c: char| matches!(c, '-' | '+') || c.is_whitespace()) {
            "generation" => out.push_str(&inside.replace("generation", "with")),
            "endgeneration" => out.push_str(&inside.replace("endgeneration", "endwith")),
            _ => out.push_str(inside),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
