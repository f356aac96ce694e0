//! One line of an Azure trace.

use std::time::Duration;

use super::{TraceRequest, length};

/// The three columns that are known.
pub(super) fn is_header(line: &str) -> bool {
    let mut names = line.split(',').map(str::trim);
    ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
        .iter()
        .all(|want| names.next().is_some_and(|name| name.eq_ignore_ascii_case(want)))
        && names.next().is_none()
}

/// The time in nanoseconds and the request.
pub(super) fn row(line: &str) -> Result<(i128, TraceRequest), String> {
    let mut columns = line.split(',').map(str::trim);
    let (Some(time), Some(input), Some(output), None) =
        (columns.next(), columns.next(), columns.next(), columns.next())
    else {
        return Err(format!("{} columns, expected 3", line.split(',').count()));
    };
    let at = nanos(time)
        .ok_or_else(|| format!("the time is \"{time}\", expected such as 2023-11-16 18:15:46.6805900"))?;
    let tokens = |what, text: &str| {
        let n = text.parse().map_err(|_| format!("{what} is \"{text}\", expected a number"))?;
        length(what, n)
    };
    let request = TraceRequest {
        arrival: Duration::ZERO,
        input_tokens: tokens("ContextTokens", input)?,
        output_tokens: tokens("GeneratedTokens", output)?,
        blocks: Vec::new(),
    };
    Ok((at, request))
}

/// `2023-11-16 18:15:46.6805900`, with or without fraction, `T` and a zero
/// offset, as nanoseconds since 1970.
fn nanos(text: &str) -> Option<i128> {
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00")).unwrap_or(text);
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.split('-').map(|part| number(part, 4));
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut time = time.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && date.next().is_none()
        && time.next().is_none();
    let fraction = number(fraction, 9)? * 10_i128.pow(9 - fraction.len() as u32);
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    in_range.then_some(seconds * 1_000_000_000 + fraction)
}

/// An unsigned number of 1 to `most` digits.
fn number(text: &str, most: usize) -> Option<i128> {
    let digits = !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Days since 1970-01-01 in the Gregorian calendar, counting years from March
/// so that the leap day is the last one.
fn days(year: i128, month: i128, day: i128) -> i128 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
