//! Durations: a number and a unit, such as `500ms`, `2s`, `15m`.

use std::time::Duration;

use schemars::{Schema, json_schema};

use crate::scalar::{Complaint, Kind, VARIABLE};

/// A duration from `MIN` to `MAX` milliseconds.
pub(crate) struct Span<const MIN: u64, const MAX: u64>;

/// A duration up to `MAX` milliseconds, where 0 switches the limit off.
pub(crate) struct SpanOrOff<const MAX: u64>;

const UNITS: [(&str, u64); 6] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 86_400 * 1_000_000_000),
];

const FORM: &str = "a number and one unit: 500ms, 2s, 15m, 1h";

/// Reads a duration to the nanosecond.
fn read(text: &str) -> Result<Duration, Complaint> {
    let not_one = || Complaint::new(format!("is not a duration; write {FORM}"));
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    if number.is_empty() {
        return Err(not_one());
    }
    if unit.is_empty() {
        if number == "0" {
            return Ok(Duration::ZERO);
        }
        return Err(Complaint::new(format!("has no unit; write {FORM}")));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(not_one());
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // Nine decimals of a day still fit; more have no meaning.
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 {
        return Err(not_one());
    }
    let too_long = || Complaint::new("is too long");
    let whole: u64 = whole.parse().map_err(|_| too_long())?;
    let part: u64 = fraction.parse().map_err(|_| not_one())?;
    let divisor = 10u128.pow(fraction.len() as u32);
    let nanos = u128::from(whole) * u128::from(*scale) + u128::from(part) * u128::from(*scale) / divisor;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| too_long())
}

/// A duration as the documentation writes it, in its largest whole unit.
fn show(millis: u64) -> String {
    let (unit, scale) = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)]
        .into_iter()
        .find(|(_, scale)| millis >= *scale && millis.is_multiple_of(*scale))
        .unwrap_or(("ms", 1));
    if millis == 0 { "0s".to_owned() } else { format!("{}{unit}", millis / scale) }
}

fn check(text: &str, least: u64, most: u64, range: &str) -> Result<Duration, Complaint> {
    let duration = read(text)?;
    if duration < Duration::from_millis(least) || duration > Duration::from_millis(most) {
        return Err(Complaint::new(format!("is out of range: {range}")));
    }
    Ok(duration)
}

fn schema() -> Schema {
    json_schema!({
        "type": ["string", "integer"],
        "pattern": format!(r"^([0-9]+(\.[0-9]{{1,9}})?(us|ms|s|m|h|d)|0)$|{VARIABLE}"),
        "maximum": 0,
    })
}

impl<const MIN: u64, const MAX: u64> Span<MIN, MAX> {
    fn range() -> String {
        format!("{} to {}", show(MIN), show(MAX))
    }
}

impl<const MIN: u64, const MAX: u64> Kind for Span<MIN, MAX> {
    type Value = Duration;

    fn parse(text: &str) -> Result<Duration, Complaint> {
        check(text, MIN, MAX, &Self::range())
    }

    fn schema() -> Schema {
        schema()
    }

    fn describe() -> String {
        format!("duration, {}", Self::range())
    }
}

impl<const MAX: u64> SpanOrOff<MAX> {
    fn range() -> String {
        format!("1ms to {}, or 0s for no limit", show(MAX))
    }
}

impl<const MAX: u64> Kind for SpanOrOff<MAX> {
    type Value = Option<Duration>;

    fn parse(text: &str) -> Result<Option<Duration>, Complaint> {
        if read(text)?.is_zero() {
            return Ok(None);
        }
        check(text, 1, MAX, &Self::range()).map(Some)
    }

    fn schema() -> Schema {
        schema()
    }

    fn describe() -> String {
        format!("duration, {}", Self::range())
    }
}
