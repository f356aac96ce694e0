//! Small things that every figure needs.

/// Text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// With a thin space between thousands.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// The class of one of ten steps for a share of 0 to 1.
pub(super) fn step(share: f64) -> usize {
    // The cast saturates and maps NaN to zero.
    ((share * 10.0) as usize).min(9)
}

/// From far less than an equal share to far more.
const SHARES: [f64; 8] = [0.25, 0.5, 0.8, 0.95, 1.05, 1.25, 1.6, 2.5];

/// The class of one of nine steps for a share over an equal one.
pub(super) fn share_step(relative: f64) -> usize {
    SHARES.iter().filter(|bound| relative > **bound).count()
}

/// The nine steps of [`share_step`].
pub(super) fn share_legend(page: &mut String) {
    page.push_str("<p class=\"legend\"><span>a quarter of an equal share ");
    for at in 0..=SHARES.len() {
        page.push_str(&swatch("d", at));
    }
    page.push_str(" 2.5 times it</span></p>\n");
}

/// The ten steps of [`step`].
pub(super) fn step_legend(page: &mut String) {
    page.push_str("<p class=\"legend\"><span>computing 0 % ");
    for at in 0..10 {
        page.push_str(&swatch("h", at));
    }
    page.push_str(" 100 % of the time</span></p>\n");
}

fn swatch(scale: &str, at: usize) -> String {
    format!("<span class=\"swatch step\" style=\"background:var(--{scale}{at})\"></span>")
}

/// Joins values that do not fit one by one: `most` groups of neighbours at most,
/// each with its first place, its last, and its mean.
pub(super) fn binned(values: &[f64], most: usize) -> Vec<(usize, usize, f64)> {
    let bins = values.len().min(most).max(1);
    (0..bins)
        .filter_map(|bin| {
            let (from, to) = (bin * values.len() / bins, (bin + 1) * values.len() / bins);
            let part = values.get(from..to).filter(|part| !part.is_empty())?;
            Some((from, to - 1, part.iter().sum::<f64>() / part.len() as f64))
        })
        .collect()
}

/// Neighbours whose names differ only in the number at the end: the common part,
/// the first place and the last.
pub(super) fn groups<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize, usize)> {
    let mut groups: Vec<(&str, usize, usize)> = Vec::new();
    for (at, name) in names.enumerate() {
        let stem = name.rsplit_once('-').map_or(name, |(stem, _)| stem);
        match groups.last_mut() {
            Some((last, _, to)) if *last == stem => *to = at,
            _ => groups.push((stem, at, at)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_joined_with_their_neighbours() {
        assert_eq!(binned(&[1.0, 3.0], 5), [(0, 0, 1.0), (1, 1, 3.0)]);
        assert_eq!(binned(&[1.0, 3.0, 5.0, 7.0], 2), [(0, 1, 2.0), (2, 3, 6.0)]);
        assert_eq!(binned(&[], 2), []);
        let names = ["a-b-1", "a-b-2", "c-1", "d"];
        assert_eq!(groups(names.into_iter()), [("a-b", 0, 1), ("c", 2, 2), ("d", 3, 3)]);
    }

    #[test]
    fn what_users_write_stays_text() {
        assert_eq!(escape("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
        assert_eq!((step(f64::NAN), step(-1.0), step(0.55), step(7.0)), (0, 0, 5, 9));
    }
}
