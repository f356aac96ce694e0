//! Reading a trace, with or without its bad lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use forebay_load::trace::{self, Lines, Trace, TraceError, TraceFormat};

use super::args::OnBadLine;
use crate::cli::Failure;

/// A trace and the lines that were left out.
pub(super) struct Read {
    pub(super) trace: Trace,
    pub(super) skipped: Skipped,
}

/// Lines that were left out.
#[derive(Default)]
pub(super) struct Skipped {
    pub(super) lines: usize,
    /// The first of them, and what is wrong with it.
    pub(super) first: Option<(usize, String)>,
}

/// Reads a trace.
pub(super) fn read(path: &Path, on_bad_line: OnBadLine) -> Result<Read, Failure> {
    if on_bad_line == OnBadLine::Stop {
        let trace = trace::read(path, None).map_err(|error| {
            let hint = match error {
                TraceError::Line { .. } => " (--on-bad-line skip leaves such lines out)",
                _ => "",
            };
            Failure::Usage(told(error) + hint)
        })?;
        return Ok(Read { trace, skipped: Skipped::default() });
    }
    let name = path.display().to_string();
    let usage = |error: TraceError| Failure::Usage(told(error));
    let file = File::open(path).map_err(|source| usage(TraceError::Read { name: name.clone(), source }))?;
    let text = text(&name, BufReader::new(file)).map_err(usage)?;
    skipping(&name, &text).map_err(usage)
}

/// All of it, once its beginning looks like a trace: what is none need not end.
fn text(name: &str, reader: impl BufRead) -> Result<String, TraceError> {
    let mut lines = Lines::new(name, reader);
    let mut text = String::new();
    while let Some(line) = lines.next_line()? {
        text.push_str(&String::from_utf8_lossy(line.bytes));
        if line.number == 2 * MOST_AT_START
            && let Err(error @ TraceError::Line { .. }) = skipping(name, &text)
        {
            return Err(error);
        }
    }
    Ok(text)
}

fn told(error: TraceError) -> String {
    match error {
        TraceError::Read { name, source } => format!("cannot read the trace {name}: {source}"),
        TraceError::Line { name, line, what } => format!("{name}, line {line}: {}", plain(&what)),
        error => error.to_string(),
    }
}

/// What is wrong with a line, in words for people: its number is said already,
/// and the reader of JSON, to which it is line 1, names its own types.
fn plain(what: &str) -> String {
    let (what, column) = what.rsplit_once(" at line 1 column ").unwrap_or((what, ""));
    let what = what
        .replace("expected u64", "expected a whole number from 0")
        .replace("expected f64", "expected a number")
        .replace("EOF while parsing", "the line breaks off within")
        .replace("expected ident", "not JSON")
        .replace("expected value", "not JSON");
    if column.is_empty() { what } else { format!("{what} (column {column})") }
}

/// Leaves bad lines out. Each is where reading the rest stops, so that every
/// line is read twice at most.
fn skipping(name: &str, text: &str) -> Result<Read, TraceError> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // Of an Azure trace; each part that is tried needs it.
    let header = match trace::parse(name, lines.first().copied().unwrap_or_default().as_bytes(), None) {
        Err(TraceError::Empty { .. }) => lines.first().copied().unwrap_or_default(),
        _ => "",
    };
    let mut good = String::with_capacity(text.len());
    let mut skipped = Skipped::default();
    let (mut from, mut offset) = (0, 0);
    while from < lines.len() {
        let before = if from > 0 { header } else { "" };
        let rest = before.as_bytes().chain(&text.as_bytes()[offset..]);
        let Err(TraceError::Line { line, what, .. }) = trace::parse(name, rest, None) else {
            good.push_str(&text[offset..]);
            break;
        };
        let bad = (from + line - 1 - usize::from(!before.is_empty())).min(lines.len() - 1);
        // What is no trace at all has no good line to begin with.
        if good.is_empty() && header.is_empty() && bad == from && skipped.lines >= MOST_AT_START {
            return Err(TraceError::Line { name: name.to_owned(), line: bad + 1, what });
        }
        for line in &lines[from..bad] {
            good.push_str(line);
            offset += line.len();
        }
        skipped.lines += 1;
        skipped.first.get_or_insert((bad + 1, plain(&what)));
        offset += lines[bad].len();
        from = bad + 1;
    }
    let trace = trace::parse(name, good.as_bytes(), None)?;
    Ok(Read { trace, skipped })
}

/// Bad lines before the first good one, after which it is taken to be no trace.
const MOST_AT_START: usize = 100;

/// The name of a format.
pub(super) fn format_name(format: TraceFormat) -> &'static str {
    match format {
        TraceFormat::Mooncake => "Mooncake trace",
        TraceFormat::Azure => "Azure trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [1]}"#;

    #[test]
    fn bad_lines_are_left_out_and_counted() {
        let text = format!("{GOOD}\nnonsense\n\n{GOOD}\n{{}}\n{GOOD}\n{{\"timestamp\": 1");
        let read = skipping("t", &text).unwrap();
        assert_eq!((read.trace.requests.len(), read.skipped.lines), (3, 3));
        assert_eq!(read.skipped.first.unwrap().0, 2);
        let read = skipping("t", &format!("oops\n{GOOD}\n")).unwrap();
        assert_eq!((read.trace.requests.len(), read.skipped.lines), (1, 1));
        let clean = skipping("t", GOOD).unwrap();
        assert_eq!((clean.trace.requests.len(), clean.skipped.lines), (1, 0));
    }

    #[test]
    fn a_bad_line_has_one_number_and_plain_words() {
        let said = |line: &str| {
            let error = trace::parse("t", format!("{GOOD}\n{line}\n").as_bytes(), None).unwrap_err();
            told(error)
        };
        let missing = said(r#"{"timestamp": 1}"#);
        assert_eq!(missing, "t, line 2: not a request: missing field `input_length` (column 16)");
        for (line, word) in [
            ("oops", "not JSON"),
            (r#"{"timestamp": 1"#, "breaks off"),
            (r#"{"timestamp": 1, "input_length": "x"}"#, "expected a whole number"),
            (r#"{"timestamp": "now"}"#, "expected a number"),
        ] {
            let said = said(line);
            assert!(said.contains(word) && said.matches("line 2").count() == 1, "{said}");
            assert!(!said.contains("line 1"), "{said}");
        }
    }

    #[test]
    fn an_azure_trace_keeps_its_header() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                    2023-11-16 18:15:46.68,374,44\nx\n2023-11-16 18:15:50.9,396,0\n\
                    2023-11-16 18:15:51.2,879,55\n";
        let read = skipping("t", text).unwrap();
        assert_eq!(read.trace.format, TraceFormat::Azure);
        assert_eq!((read.trace.requests.len(), read.skipped.lines), (2, 2));
        assert_eq!(read.trace.requests[1].input_tokens, 879);
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let zeros = BufReader::new(std::io::repeat(0));
        assert!(matches!(text("t", zeros), Err(TraceError::Line { line: 1, .. })));
        let lines = BufReader::new(std::io::repeat(b'\n').take(1 << 10).chain(std::io::repeat(b'x')));
        assert!(matches!(text("t", lines), Err(TraceError::Line { line: 1025, .. })));
        struct Noise;
        impl std::io::Read for Noise {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let n = buffer.len().min(2);
                buffer[..n].copy_from_slice(&b"x\n"[..n]);
                Ok(n)
            }
        }
        let noise = BufReader::with_capacity(2, Noise);
        assert!(matches!(text("t", noise), Err(TraceError::Line { line: 101, .. })));
        let good = format!("{GOOD}\n").repeat(300);
        assert_eq!(text("t", good.as_bytes()).unwrap(), good);
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        assert!(matches!(skipping("t", &"x\n".repeat(500)), Err(TraceError::Line { line: 101, .. })));
        assert!(matches!(skipping("t", ""), Err(TraceError::Empty { .. })));
        assert!(matches!(skipping("t", "x\ny\n"), Err(TraceError::Empty { .. })));
    }
}
