//! `strftime` for templates that write the date into every prompt.

use std::fmt::Write;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The time `unix_seconds` after 1970, in UTC, by a `strftime` format with
/// English names. `None` for a directive that is not one of
/// `%a %A %b %B %d %H %I %j %m %M %p %S %y %Y %Z %z %%` and `%-d %-m %-H %-I`.
///
/// Engines take the local time of their machine, which is UTC in most
/// containers. Where it is not, counts differ or prompts of some hours a day do
/// not match, and what holds them says so.
pub fn utc_strftime(format: &str, unix_seconds: u64) -> Option<String> {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let (year, month, day) = civil(days);
    let january = days_before(year);
    let half = if hour % 12 == 0 { 12 } else { hour % 12 };
    let weekday = DAYS[((days + 4) % 7) as usize];
    let name = MONTHS[(month - 1) as usize];
    let mut out = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let (value, width) = match chars.next()? {
            'a' => (Err(&weekday[..3]), 0),
            'A' => (Err(weekday), 0),
            'b' => (Err(&name[..3]), 0),
            'B' => (Err(name), 0),
            'p' => (Err(if hour < 12 { "AM" } else { "PM" }), 0),
            'Z' => (Err("UTC"), 0),
            'z' => (Err("+0000"), 0),
            '%' => (Err("%"), 0),
            'd' => (Ok(day), 2),
            'm' => (Ok(month), 2),
            'H' => (Ok(hour), 2),
            'I' => (Ok(half), 2),
            'M' => (Ok(minute), 2),
            'S' => (Ok(second), 2),
            'y' => (Ok(year % 100), 2),
            'Y' => (Ok(year), 4),
            'j' => (Ok(days - january + 1), 3),
            '-' => match chars.next()? {
                'd' => (Ok(day), 0),
                'm' => (Ok(month), 0),
                'H' => (Ok(hour), 0),
                'I' => (Ok(half), 0),
                _ => return None,
            },
            _ => return None,
        };
        let _ = match value {
            Ok(number) => write!(out, "{number:0width$}"),
            Err(word) => write!(out, "{word}"),
        };
    }
    Some(out)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days from 1970 to the first of a year's January.
fn days_before(year: u64) -> u64 {
    let before = year - 1;
    before * 365 + before / 4 - before / 100 + before / 400 - 719_162
}

/// Year, month and day of a day counted from 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    // A guess that is never too late and at most one year too early.
    let mut year = 1970 + days * 400 / 146_097;
    while days_before(year) > days {
        year -= 1;
    }
    while days_before(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before(year);
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, length) in (1..).zip(lengths) {
        if day < length {
            return (year, month, day + 1);
        }
        day -= length;
    }
    (year, 12, 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_asked() {
        // 2026-11-29 21:05:09, a Sunday.
        let now = 1_795_986_309;
        let cases = [
            ("%d %b %Y", "29 Nov 2026"),
            ("%B %-d, %y", "November 29, 26"),
            ("%Y-%m-%d %H:%M:%S %Z%z", "2026-11-29 21:05:09 UTC+0000"),
            ("%A (%a) %I:%M %p, day %j, 100%%", "Sunday (Sun) 09:05 PM, day 333, 100%"),
            ("é", "é"),
        ];
        for (format, text) in cases {
            assert_eq!(utc_strftime(format, now).as_deref(), Some(text), "{format}");
        }
        for format in ["%q", "%", "%-", "%-Y"] {
            assert_eq!(utc_strftime(format, now), None, "{format}");
        }
    }

    #[test]
    fn leap_years_count() {
        let day = |seconds| utc_strftime("%Y-%m-%d", seconds).unwrap();
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(951_868_800), "2000-03-01");
        assert_eq!(day(1_735_603_200), "2024-12-31");
        assert_eq!(day(1_735_689_600), "2025-01-01");
        assert_eq!(day(4_107_542_400), "2100-03-01");
        assert_eq!(day(4_107_456_000), "2100-02-28");
        // As far as a file's date can be off without harm.
        assert!(utc_strftime("%Y", u64::from(u32::MAX) * 100).is_some());
    }
}
