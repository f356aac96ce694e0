//! The document that an evaluation writes: Markdown, and plots beside it.

use std::fmt::Write;

/// A part of the document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doc {
    text: String,
    /// File names and contents of the plots that the text shows.
    plots: Vec<(String, String)>,
}

impl Doc {
    pub(crate) fn new() -> Doc {
        Doc::default()
    }

    pub(crate) fn heading(&mut self, level: usize, text: &str) {
        let _ = write!(self.text, "{} {text}\n\n", "#".repeat(level));
    }

    pub(crate) fn paragraph(&mut self, text: impl AsRef<str>) {
        let _ = write!(self.text, "{}\n\n", text.as_ref());
    }

    /// Every row as long as the head; `|` in cells is the caller's mistake.
    pub(crate) fn table<H: AsRef<str>, C: AsRef<str>>(&mut self, head: &[H], rows: &[Vec<C>]) {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            cells.fold("|".to_owned(), |line, cell| format!("{line} {cell} |"))
        };
        let _ = writeln!(self.text, "{}", line(&mut head.iter().map(AsRef::as_ref)));
        let _ = writeln!(self.text, "{}", line(&mut head.iter().map(|_| "---")));
        for row in rows {
            let _ = writeln!(self.text, "{}", line(&mut row.iter().map(AsRef::as_ref)));
        }
        self.text.push('\n');
    }

    /// Shows an SVG picture, kept under `evaluation/NAME.svg` beside the document.
    pub(crate) fn plot(&mut self, name: &str, what: &str, svg: String) {
        let _ = write!(self.text, "![{what}](evaluation/{name}.svg)\n\n");
        self.plots.push((format!("{name}.svg"), svg));
    }

    pub(crate) fn append(&mut self, other: Doc) {
        self.text.push_str(&other.text);
        self.plots.extend(other.plots);
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn plots(&self) -> &[(String, String)] {
        &self.plots
    }
}
