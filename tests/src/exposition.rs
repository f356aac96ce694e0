//! Reads values from a Prometheus text page, strictly enough to notice a
//! broken one.

/// One sample of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The series' name.
    pub name: String,
    /// Its labels, unescaped, in order.
    pub labels: Vec<(String, String)>,
    /// Its value.
    pub value: f64,
}

impl Sample {
    /// The value of one label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Every sample of the page; panics on a line that is none.
pub fn parse(page: &str) -> Vec<Sample> {
    page.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).map(sample).collect()
}

/// The sum over the series of this name that carry all these labels; none when there is no such series.
pub fn sum(page: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut found = None;
    for s in parse(page) {
        if s.name == name && labels.iter().all(|(k, v)| s.label(k) == Some(*v)) {
            found = Some(found.unwrap_or(0.0) + s.value);
        }
    }
    found
}

fn sample(line: &str) -> Sample {
    let bad = || -> ! { panic!("not a sample: {line:?}") };
    let name_end = line.find(['{', ' ']).unwrap_or_else(|| bad());
    let name = line[..name_end].to_string();
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty() || !name.chars().all(valid) {
        bad();
    }
    let mut rest = &line[name_end..];
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            rest = rest.trim_start_matches([',', ' ']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let eq = rest.find("=\"").unwrap_or_else(|| bad());
            let key = rest[..eq].to_string();
            let mut value = String::new();
            let mut chars = rest[eq + 2..].char_indices();
            let end = loop {
                match chars.next() {
                    Some((i, '"')) => break i,
                    Some((_, '\\')) => match chars.next() {
                        Some((_, 'n')) => value.push('\n'),
                        Some((_, c @ ('\\' | '"'))) => value.push(c),
                        _ => bad(),
                    },
                    Some((_, c)) => value.push(c),
                    None => bad(),
                }
            };
            rest = &rest[eq + 2 + end + 1..];
            labels.push((key, value));
        }
    }
    let number = rest.split_whitespace().next().unwrap_or_else(|| bad());
    let value = match number {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        other => other.parse().unwrap_or_else(|_| bad()),
    };
    Sample { name, labels, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP a b\na{x=\"1\",y=\"q\\\"\\n\"} 2\na{x=\"2\"} 3.5\nb 1e3 12345\n";

    #[test]
    fn samples_with_escapes_and_timestamps() {
        let all = parse(PAGE);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].label("y"), Some("q\"\n"));
        assert_eq!(sum(PAGE, "a", &[]), Some(5.5));
        assert_eq!(sum(PAGE, "a", &[("x", "2")]), Some(3.5));
        assert_eq!(sum(PAGE, "b", &[]), Some(1000.0));
        assert_eq!(sum(PAGE, "c", &[]), None);
    }

    #[test]
    #[should_panic(expected = "not a sample")]
    fn a_broken_line_is_noticed() {
        parse("a{x=\"1} 2");
    }
}
