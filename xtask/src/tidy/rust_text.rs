//! Rust source as the checks want it: without comments, literals or tests, and
//! with every line where it was.

use super::tree::Tree;

/// Path and text of every Rust file.
pub(super) fn rust_files(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.ending(".rs")
}

/// Whether the whole file is a test, by the repository's naming rules.
pub(super) fn is_test_file(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    stem == "tests"
        || stem.ends_with("_tests")
        || parts.any(|folder| matches!(folder, "tests" | "benches" | "fuzz") || folder.ends_with("_tests"))
}

/// `source` with comments, strings and character literals blanked, so that a
/// word in it is a word of the program.
pub(super) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if !is_word_before(bytes, at) => raw_string_end(bytes, at),
            b'\'' => char_end(bytes, at),
            _ => at,
        };
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
            at = end;
        }
    }
    // Whole literals are blanked byte by byte, so what is left is still UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// [`code_only`] with the items under `#[cfg(test)]` blanked too.
pub(super) fn program_only(source: &str) -> String {
    let mut code = code_only(source);
    for marker in ["#[cfg(test)]", "#[cfg(all(test"] {
        let mut from = 0;
        while let Some(found) = code[from..].find(marker) {
            let start = from + found;
            let end = item_end(code.as_bytes(), start);
            let blank: String =
                code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
            code = format!("{}{blank}{}", &code[..start], &code[end..]);
            from = start + blank.len();
        }
    }
    code
}

/// Lines (from 1) on which `word` stands as a whole word. Words may hold `::`
/// or end in `!`.
pub(super) fn lines_with(code: &str, word: &str) -> Vec<usize> {
    let lines = code.lines().enumerate().filter(|(_, line)| has_word(line, word));
    lines.map(|(at, _)| at + 1).collect()
}

/// Whether `text` holds `word` with no letter, digit or underscore around it.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(part_of_word);
        let after = text[at + word.len()..].chars().next().is_some_and(part_of_word);
        !before && (!after || word.ends_with('!'))
    })
}

/// Whether the `r` at `at` ends a word instead of opening a raw string.
fn is_word_before(bytes: &[u8], at: usize) -> bool {
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    // `br"…"` and `cr"…"` are raw strings as well.
    let before: Vec<u8> = bytes[..at].iter().rev().take_while(|b| word(b)).take(2).copied().collect();
    !matches!(before.as_slice(), [] | [b'b' | b'c'])
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < bytes.len() {
        match &bytes[i..bytes.len().min(i + 2)] {
            b"/*" => (depth, i) = (depth + 1, i + 2),
            b"*/" => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|&&b| b == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return at;
    }
    let close = |i: &usize| {
        bytes[*i] == b'"' && bytes[i + 1..].iter().take(hashes).filter(|&&b| b == b'#').count() == hashes
    };
    (open + 1..bytes.len()).find(close).map_or(bytes.len(), |i| i + 1 + hashes)
}

/// The end of a character literal, or `at` for a lifetime.
fn char_end(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        let close = bytes.iter().skip(at + 3).position(|&b| b == b'\'');
        return close.map_or(bytes.len(), |n| at + 3 + n + 1);
    }
    // One character of up to four bytes; a lifetime has no quote so near.
    let first = bytes.get(at + 1).copied().unwrap_or_default();
    let width = if first < 0x80 { 1 } else { first.leading_ones() as usize };
    if bytes.get(at + 1 + width) == Some(&b'\'') { at + 2 + width } else { at }
}

/// The end of the item whose attributes start at `start`: its `;`, or the
/// brace that closes its body.
fn item_end(code: &[u8], start: usize) -> usize {
    let mut depth = 0usize;
    for (i, &b) in code.iter().enumerate().skip(start) {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i + 1;
                }
            }
            b';' if depth == 0 => return i + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_literals() {
        for (source, kept, gone) in [
            ("let a = 1; // word\nnext", "next", "word"),
            ("a /* word /* in */ word */ b", "b", "word"),
            (r#"let s = "word \" word"; after"#, "after", "word"),
            ("r#\"word \" word\"# after", "after", "word"),
            ("br\"word\\\" after", "after", "word"),
            ("let c = '\"'; after; let d = \"word\";", "after", "word"),
            ("fn f<'a>(x: &'a str) { after } // word", "after", "word"),
            ("'\\'' 'é' '\\u{1F600}' after \"word\"", "after", "word"),
            ("#[cfg(test)]\nmod t {\n fn a() { word }\n}\nafter", "after", "word"),
            ("#[cfg(test)]\nmod word;\nafter", "after", "word"),
            ("#[cfg(test)]\nfn f(a: [u8; 3]) { word }\nafter", "after", "word"),
        ] {
            let code = program_only(source);
            assert!(has_word(&code, kept) && !has_word(&code, gone), "{source:?} became {code:?}");
            assert_eq!(code.lines().count(), source.lines().count(), "{source:?}");
        }
    }

    #[test]
    fn finds_whole_words() {
        for (text, word, expect) in [
            ("use std::fs;", "std::fs", true),
            ("my_std::fs", "std::fs", false),
            ("HashMap<u8, u8>", "HashMap", true),
            ("HashMapper", "HashMap", false),
            ("eprintln!(x)", "println!", false),
            ("println!(x)", "println!", true),
        ] {
            assert_eq!(has_word(text, word), expect, "{word} in {text}");
        }
    }

    #[test]
    fn knows_test_files() {
        for (path, expect) in [
            ("crates/a/src/b/tests.rs", true),
            ("crates/a/src/b_tests.rs", true),
            ("crates/a/tests/c.rs", true),
            ("tests/src/lib.rs", true),
            ("crates/a/src/contests.rs", false),
            ("crates/a/src/lib.rs", false),
        ] {
            assert_eq!(is_test_file(path), expect, "{path}");
        }
    }
}
