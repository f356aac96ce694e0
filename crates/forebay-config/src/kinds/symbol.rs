//! Names that another language gives a meaning to: signals in rules, metrics, labels; and
//! the rules themselves.

use schemars::{Schema, json_schema};

use crate::scalar::{Complaint, Kind};

/// Whether a text is made of letters, digits, `_` and `more`, and begins with no digit.
fn is_symbol(text: &str, more: &[u8]) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || more.contains(&b))
}

/// Words of CEL that cannot be names.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Why a text cannot be the name of a signal.
pub(crate) fn signal_name_problem(text: &str) -> Option<&'static str> {
    if !is_symbol(text, b"") {
        Some("is not a name that rules can use: letters, digits and _, not a digit first")
    } else if text.len() > 64 {
        Some("is longer than 64 bytes")
    } else if RESERVED.contains(&text) {
        Some("is a word of the rules' language; choose another name")
    } else if forebay_rule::is_variable(text) {
        Some("is what rules call something else; choose another name")
    } else {
        None
    }
}

/// Why a text cannot be the name of a label.
pub(crate) fn label_name_problem(text: &str) -> Option<&'static str> {
    (!is_symbol(text, b"") || text.len() > 256)
        .then_some("is not the name of a label: letters, digits and _, not a digit first")
}

/// The name of a Prometheus metric.
pub(crate) struct Metric;

impl Kind for Metric {
    type Value = String;

    fn parse(text: &str) -> Result<String, Complaint> {
        if text.contains('{') {
            return Err(Complaint::new("has labels in it; write them under labels"));
        }
        if !is_symbol(text, b":") || text.len() > 256 {
            return Err(Complaint::new(
                "is not the name of a metric: letters, digits, _ and :, not a digit first, up to 256 bytes",
            ));
        }
        Ok(text.to_owned())
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "name of a Prometheus metric".to_owned()
    }
}

/// The value of a label, or the start of a topic: any text on one line, also none.
pub(crate) struct Line;

impl Kind for Line {
    type Value = String;

    fn parse(text: &str) -> Result<String, Complaint> {
        if text.len() > 256 {
            return Err(Complaint::new("is longer than 256 bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err(Complaint::new("contains a line break or another control character"));
        }
        Ok(text.to_owned())
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "text, up to 256 bytes".to_owned()
    }
}

/// A metric of a load report.
pub(crate) struct ReportMetric;

impl Kind for ReportMetric {
    type Value = String;

    fn parse(text: &str) -> Result<String, Complaint> {
        const FIELDS: [&str; 3] = ["application_utilization", "cpu_utilization", "mem_utilization"];
        let in_map =
            |(map, key): (&str, &str)| matches!(map, "named_metrics" | "utilization") && !key.is_empty();
        let known = FIELDS.contains(&text) || text.split_once('.').is_some_and(in_map);
        if known && text.len() <= 256 && !text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Ok(text.to_owned());
        }
        Err(Complaint::new(
            "is not a metric of a load report; write named_metrics.NAME, utilization.NAME, \
             application_utilization, cpu_utilization or mem_utilization",
        ))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "`named_metrics.NAME`, `utilization.NAME` or a field".to_owned()
    }
}

/// An expression in the rules' language, not yet compiled.
pub(crate) struct Expression;

impl Kind for Expression {
    type Value = String;

    fn parse(text: &str) -> Result<String, Complaint> {
        let problem = if text.trim().is_empty() {
            "is empty"
        } else if text.len() > 4096 {
            "is longer than 4096 bytes"
        } else if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            "contains a control character"
        } else {
            return Ok(text.to_owned());
        };
        Err(Complaint::new(problem))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "boolean", "number"] })
    }

    fn describe() -> String {
        "CEL expression, up to 4096 bytes".to_owned()
    }
}
