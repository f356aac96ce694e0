//! Plain numbers.

use schemars::{Schema, json_schema};

use crate::scalar::{Complaint, Kind, VARIABLE};

/// A whole number from `MIN` to `MAX`.
pub(crate) struct Int<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Int<MIN, MAX> {
    type Value = u64;

    fn parse(text: &str) -> Result<u64, Complaint> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse()
            .ok()
            .filter(|number| digits && (MIN..=MAX).contains(number))
            .ok_or_else(|| Complaint::new(format!("is not a whole number from {MIN} to {MAX}")))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["integer", "string"], "pattern": VARIABLE, "minimum": MIN, "maximum": MAX })
    }

    fn describe() -> String {
        if MIN == MAX { format!("`{MIN}`") } else { format!("whole number, {MIN} to {MAX}") }
    }
}

/// The largest weight and factor: far beyond any use, and still exact in sums.
const MOST: f64 = 1_000_000.0;

/// Reads a decimal number; no `inf`, `nan`, hexadecimal or separators.
fn read(text: &str) -> Option<f64> {
    let shaped = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    text.parse().ok().filter(|number: &f64| shaped && number.is_finite())
}

/// A number above 0.
pub(crate) struct Positive;

impl Kind for Positive {
    type Value = f64;

    fn parse(text: &str) -> Result<f64, Complaint> {
        read(text)
            .filter(|number| *number > 0.0 && *number <= MOST)
            .ok_or_else(|| Complaint::new("is not a number above 0 and up to 1000000"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["number", "string"], "pattern": VARIABLE, "exclusiveMinimum": 0, "maximum": MOST })
    }

    fn describe() -> String {
        "number, above 0 and up to 1000000".to_owned()
    }
}

/// A number of 0 or more.
pub(crate) struct Share;

impl Kind for Share {
    type Value = f64;

    fn parse(text: &str) -> Result<f64, Complaint> {
        read(text)
            .filter(|number| *number >= 0.0 && *number <= MOST)
            // -0 would print as a negative share.
            .map(f64::abs)
            .ok_or_else(|| Complaint::new("is not a number from 0 to 1000000"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["number", "string"], "pattern": VARIABLE, "minimum": 0, "maximum": MOST })
    }

    fn describe() -> String {
        "number, 0 to 1000000".to_owned()
    }
}

/// A factor from 1 to 100.
pub(crate) struct AtLeastOne;

impl Kind for AtLeastOne {
    type Value = f64;

    fn parse(text: &str) -> Result<f64, Complaint> {
        read(text)
            .filter(|number| (1.0..=100.0).contains(number))
            .ok_or_else(|| Complaint::new("is not a number from 1 to 100"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["number", "string"], "pattern": VARIABLE, "minimum": 1, "maximum": 100 })
    }

    fn describe() -> String {
        "number, 1 to 100".to_owned()
    }
}

/// A part of a whole: 0 to 1.
pub(crate) struct Fraction;

impl Kind for Fraction {
    type Value = f64;

    fn parse(text: &str) -> Result<f64, Complaint> {
        read(text)
            .filter(|number| (0.0..=1.0).contains(number))
            .map(f64::abs)
            .ok_or_else(|| Complaint::new("is not a number from 0 to 1"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["number", "string"], "pattern": VARIABLE, "minimum": 0, "maximum": 1 })
    }

    fn describe() -> String {
        "number, 0 to 1".to_owned()
    }
}
