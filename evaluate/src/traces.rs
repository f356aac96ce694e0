//! The traces of this repository, or a part of one.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use forebay_sim::workload::{AzureRow, MooncakeRow};

/// Rows of a Mooncake trace.
#[derive(Clone)]
pub(crate) struct Mooncake {
    /// Which, and what part of it.
    name: String,
    pub(crate) rows: Arc<[MooncakeRow]>,
}

/// Rows of an Azure trace.
#[derive(Clone)]
pub(crate) struct Azure {
    name: String,
    pub(crate) rows: Arc<[AzureRow]>,
}

// The rows of a committed trace are known by its name: cells are known by what
// this prints.
impl fmt::Debug for Mooncake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What part of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Whole,
    FirstHalf,
    SecondHalf,
}

impl Part {
    fn of<T: Clone>(self, rows: &[T]) -> Arc<[T]> {
        let (first, second) = rows.split_at(rows.len() / 2);
        Arc::from(match self {
            Part::Whole => rows,
            Part::FirstHalf => first,
            Part::SecondHalf => second,
        })
    }
}

fn read(file: &str) -> Result<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces").join(file);
    std::fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// A part of `traces/FILE`.
pub(crate) fn mooncake(file: &str, part: Part) -> Result<Mooncake, String> {
    let text = read(file)?;
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        rows.push(mooncake_row(line).map_err(|e| format!("{file}, line {}: {e}", number + 1))?);
    }
    let mut rows: Vec<MooncakeRow> = part.of(&rows).to_vec();
    let from = rows.first().map_or(0, |row| row.timestamp_ms);
    rows.iter_mut().for_each(|row| row.timestamp_ms -= from);
    Ok(Mooncake { name: format!("{file} {part:?}"), rows: rows.into() })
}

fn mooncake_row(line: &str) -> Result<MooncakeRow, String> {
    let line: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let whole = |name: &str| line[name].as_u64().ok_or_else(|| format!("no {name}"));
    let ids = line["hash_ids"].as_array().ok_or("no hash_ids")?;
    Ok(MooncakeRow {
        timestamp_ms: whole("timestamp")?,
        input_length: whole("input_length")? as u32,
        output_length: whole("output_length")? as u32,
        hash_ids: ids.iter().filter_map(serde_json::Value::as_u64).collect(),
    })
}

/// The whole of `traces/FILE`.
pub(crate) fn azure(file: &str) -> Result<Azure, String> {
    let text = read(file)?;
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        rows.push(azure_row(line).ok_or_else(|| format!("{file}, line {}: no row", number + 1))?);
    }
    let from = rows.iter().map(|row: &AzureRow| row.timestamp_ms).fold(f64::INFINITY, f64::min);
    rows.iter_mut().for_each(|row| row.timestamp_ms -= from);
    Ok(Azure { name: file.to_owned(), rows: rows.into() })
}

/// `2023-11-16 18:17:03.9799600,4808,10`; all rows are of one day.
fn azure_row(line: &str) -> Option<AzureRow> {
    let mut fields = line.trim().split(',');
    let (_, clock) = fields.next()?.split_once(' ')?;
    let mut parts = clock.split(':');
    let hours: f64 = parts.next()?.parse().ok()?;
    let minutes: f64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next()?.parse().ok()?;
    Some(AzureRow {
        timestamp_ms: ((hours * 60.0 + minutes) * 60.0 + seconds) * 1e3,
        context_tokens: fields.next()?.parse().ok()?,
        generated_tokens: fields.next()?.parse().ok()?,
    })
}
