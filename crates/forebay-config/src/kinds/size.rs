//! Sizes in bytes, such as `64MiB`.

use schemars::{Schema, json_schema};

use crate::scalar::{Complaint, Kind, VARIABLE};

/// A number of bytes from `MIN` to `MAX`.
pub(crate) struct Bytes<const MIN: u64, const MAX: u64>;

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

fn read(text: &str) -> Result<u64, Complaint> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let complaint =
        || Complaint::new("is not a size; write a whole number of bytes, or with KiB, MiB, GiB or TiB");
    if number.is_empty() {
        return Err(complaint());
    }
    let scale = if unit.is_empty() {
        1
    } else if let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) {
        *scale
    } else {
        // `64MB`, `64M`, `64mib`: nearly always meant in powers of two, but not surely.
        let meant = UNITS.iter().find(|(name, _)| {
            let letter = &name[..1];
            [letter, &format!("{letter}B"), name].iter().any(|form| form.eq_ignore_ascii_case(unit.trim()))
        });
        return Err(Complaint { nearest: meant.map(|(name, _)| format!("{number}{name}")), ..complaint() });
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(scale))
        .ok_or_else(|| Complaint::new("is too large"))
}

fn show(bytes: u64) -> String {
    UNITS
        .iter()
        .rev()
        .find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale))
        .map_or_else(|| bytes.to_string(), |(name, scale)| format!("{}{name}", bytes / scale))
}

impl<const MIN: u64, const MAX: u64> Bytes<MIN, MAX> {
    fn range() -> String {
        format!("{} to {}", show(MIN), show(MAX))
    }
}

impl<const MIN: u64, const MAX: u64> Kind for Bytes<MIN, MAX> {
    type Value = u64;

    fn parse(text: &str) -> Result<u64, Complaint> {
        let bytes = read(text)?;
        if !(MIN..=MAX).contains(&bytes) {
            return Err(Complaint::new(format!("is out of range: {}", Self::range())));
        }
        Ok(bytes)
    }

    fn schema() -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "pattern": format!("^[0-9]+(KiB|MiB|GiB|TiB)?$|{VARIABLE}"),
            "minimum": MIN,
            "maximum": MAX,
        })
    }

    fn describe() -> String {
        format!("size, {}", Self::range())
    }
}
