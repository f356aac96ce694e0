//! Numbers and names as the page shows them.

/// Text as it may stand between tags and in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// Seconds in the two largest units that are not zero.
pub(super) fn uptime(seconds: f64) -> String {
    // The cast saturates, and NaN becomes zero.
    let s = seconds as u64;
    let (days, hours, minutes) = (s / 86_400, s / 3_600 % 24, s / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, m) => format!("{m} min {} s", s % 60),
        (0, h, m) => format!("{h} h {m} min"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

/// With thin spaces between thousands.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// Milliseconds, in seconds when they are many.
pub(super) fn millis(ms: f64) -> String {
    match ms {
        ms if !ms.is_finite() => "-".to_owned(),
        ms if ms.abs() < 9.95 => format!("{ms:.1} ms"),
        ms if ms.abs() < 9_999.5 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

/// Seconds, in milliseconds when they are few.
pub(super) fn age(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "-".to_owned(),
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1} s"),
        s => uptime(s),
    }
}

pub(super) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.0} %", share * 100.0) } else { "-".to_owned() }
}

/// A share as a small bar and a number; a dash when it is unknown.
pub(super) fn meter(share: Option<f64>) -> String {
    match share.filter(|share| share.is_finite()) {
        Some(share) => format!(
            "<span class=\"meter\"><i style=\"width:{:.0}%\"></i></span>{}",
            share.clamp(0.0, 1.0) * 100.0,
            percent(share)
        ),
        None => "<span class=\"dim\">-</span>".to_owned(),
    }
}

/// A known value, or a dash.
pub(super) fn known<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}
