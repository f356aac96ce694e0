//! Reading a request body field by field, with the engine's complaints.

use serde_json::{Map, Value};

use crate::error::ApiError;

/// A JSON object being read. Mistakes are collected and reported together.
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    complaints: Vec<(String, String)>,
}

/// Parses a body that must be a JSON object.
pub(crate) fn parse_object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(complaint("missing", "body", "Field required", "'None'"));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => {
            let message = "Input should be a valid dictionary or object to extract fields from";
            Err(complaint("model_attributes_type", "body", message, &repr(&other)))
        }
        Err(error) => {
            let loc = format!("body.{}", offset_of(body, &error));
            let input = format!("'<dict of 0 items>', 'ctx': {{'error': '{error}'}}");
            Err(complaint("json_invalid", &loc, "JSON decode error", &input))
        }
    }
}

/// Byte offset of a JSON error.
fn offset_of(body: &[u8], error: &serde_json::Error) -> usize {
    let line_starts = body.split_inclusive(|b| *b == b'\n').take(error.line().saturating_sub(1));
    (line_starts.map(<[u8]>::len).sum::<usize>() + error.column()).min(body.len())
}

fn complaint(kind: &str, loc: &str, message: &str, input: &str) -> ApiError {
    let text = format!(
        "1 validation error:\n  {{'type': '{kind}', 'loc': '{loc}', 'msg': '{message}', 'input': {input}}}"
    );
    ApiError::invalid(text, Some(loc.into()))
}

/// A value as Python would show it, long ones only by size.
fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(n) => n.to_string(),
        Value::String(s) if s.len() <= 100 => format!("'{s}'"),
        Value::String(s) => format!("'<str of {} chars>'", s.chars().count()),
        Value::Array(a) => format!("'<list of {} items>'", a.len()),
        Value::Object(o) => format!("'<dict of {} items>'", o.len()),
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn new(map: &'a Map<String, Value>) -> Fields<'a> {
        Fields { map, complaints: Vec::new() }
    }

    /// The value of a field; null counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|v| !v.is_null())
    }

    pub(crate) fn complain(&mut self, kind: &str, name: &str, message: &str) {
        let input = match self.map.get(name) {
            Some(value) => repr(value),
            None => format!("'<dict of {} items>'", self.map.len()),
        };
        let loc = format!("body.{name}");
        let line = format!("  {{'type': '{kind}', 'loc': '{loc}', 'msg': '{message}', 'input': {input}}}");
        self.complaints.push((loc, line));
    }

    pub(crate) fn missing(&mut self, name: &str) {
        self.complain("missing", name, "Field required");
    }

    /// A whole number, or a string that holds one.
    pub(crate) fn integer(&mut self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        let number = match value {
            Value::Number(n) => {
                n.as_i64().or_else(|| n.as_f64().filter(|f| f.fract() == 0.0).map(|f| f as i64))
            }
            Value::String(s) => match s.trim().parse() {
                Ok(number) => Some(number),
                Err(_) => {
                    let message = "Input should be a valid integer, unable to parse string as an integer";
                    self.complain("int_parsing", name, message);
                    return None;
                }
            },
            _ => None,
        };
        if number.is_none() {
            self.complain("int_type", name, "Input should be a valid integer");
        }
        number
    }

    pub(crate) fn number(&mut self, name: &str) -> Option<f64> {
        let value = self.get(name)?;
        if value.as_f64().is_none() {
            self.complain("float_type", name, "Input should be a valid number");
        }
        value.as_f64()
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        if value.as_bool().is_none() {
            self.complain("bool_type", name, "Input should be a valid boolean");
        }
        value.as_bool()
    }

    pub(crate) fn string(&mut self, name: &str) -> Option<&'a str> {
        let value = self.get(name)?;
        if value.as_str().is_none() {
            self.complain("string_type", name, "Input should be a valid string");
        }
        value.as_str()
    }

    pub(crate) fn object(&mut self, name: &str) -> Option<&'a Map<String, Value>> {
        let value = self.get(name)?;
        if value.as_object().is_none() {
            self.complain("dict_type", name, "Input should be a valid dictionary");
        }
        value.as_object()
    }

    /// A list that must be there.
    pub(crate) fn required_list(&mut self, name: &str) -> &'a [Value] {
        match self.map.get(name) {
            Some(Value::Array(list)) => return list,
            None => self.missing(name),
            Some(_) => self.complain("list_type", name, "Input should be a valid list"),
        }
        &[]
    }

    /// Fails with everything that was wrong.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        let Some((first, _)) = self.complaints.first() else { return Ok(()) };
        let n = self.complaints.len();
        let lines: Vec<&str> = self.complaints.iter().map(|(_, line)| line.as_str()).collect();
        let plural = if n == 1 { "" } else { "s" };
        let message = format!("{n} validation error{plural}:\n{}", lines.join("\n"));
        Err(ApiError::invalid(message, Some(first.clone())))
    }
}
