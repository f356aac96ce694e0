use proptest::prelude::*;

use super::*;

/// The grammar, one byte at a time.
fn reference(buf: &[u8], start: usize) -> Result<(usize, usize), JsonError> {
    let (mut at, mut cost) = (start, 0);
    loop {
        match buf.get(at) {
            Some(b'"') => return Ok((at, cost)),
            Some(b'\\') => {
                let (raw, decoded) = match buf.get(at + 1) {
                    Some(b'u') => {
                        let digits = buf.get(at + 2..at + 6).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
                        let unit = digits.map(|d| {
                            let text = std::str::from_utf8(d).unwrap();
                            u32::from_str_radix(text, 16).unwrap()
                        });
                        match unit {
                            Some(0..0x80) => (6, 1),
                            Some(0x80..0x800 | 0xd800..0xe000) => (6, 2),
                            Some(_) => (6, 3),
                            None => {
                                let what = "a \\u escape without four hexadecimal digits";
                                return Err(JsonError { at, what });
                            }
                        }
                    }
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => (2, 1),
                    _ => return Err(JsonError { at, what: "an escape that JSON does not have" }),
                };
                at += raw;
                cost += raw - decoded;
            }
            Some(0..0x20) => {
                return Err(JsonError { at, what: "an unescaped control character in a string" });
            }
            Some(_) => at += 1,
            None => return Err(JsonError { at, what: "the end inside a string" }),
        }
    }
}

fn check(buf: &[u8], start: usize) {
    let expected = reference(buf, start);
    let found = long(buf, start);
    assert_eq!(found.map(|b| (b.end, b.escape_cost)), expected, "from {start}: {}", buf.escape_ascii());
    if let Ok(extent) = found {
        let passed = !buf[start..extent.end].is_ascii();
        assert!(extent.non_ascii || !passed, "{}", buf.escape_ascii());
        assert!(!extent.non_ascii || !buf.is_ascii(), "{}", buf.escape_ascii());
    }
    if let Some(extent) = short(buf, start) {
        assert_eq!((extent.end, extent.escape_cost), expected.unwrap(), "{}", buf.escape_ascii());
        assert!(extent.non_ascii || buf[start..extent.end].is_ascii());
    }
}

#[test]
fn whatever_comes_is_found_at_every_offset() {
    let pieces: &[&[u8]] = &[
        b"\"",
        b"\\n\"",
        b"\\\\\"",
        b"\\\\\\\"\"",
        b"\\n\\n\\n\\t\"",
        b"\\u00e9\"",
        b"\\u0041\\ud83e\\uDD80\"",
        b"\\u12g4\"",
        b"\\u12",
        b"\\",
        b"\\x\"",
        b"\x1f\"",
        b"\0",
        b"\xe6\xbd\xae\"",
        b"\x7f\x80!\"",
        b"",
    ];
    for piece in pieces {
        for before in 0..300 {
            for after in [0, 1, 70, 200] {
                let mut buf = vec![b'a'; before];
                buf.extend_from_slice(piece);
                buf.resize(buf.len() + after, b'z');
                check(&buf, 0);
                check(&buf, before.min(3));
            }
        }
    }
}

#[test]
fn a_short_string_needs_one_look() {
    let extent = Extent { end: 4, escape_cost: 0, non_ascii: false };
    assert_eq!(short(b"user\",\"content\":", 0), Some(extent));
    assert_eq!(short(b"a\\nb\",\"content\":", 0), None);
    assert_eq!(short(b"of more than two words\"", 0), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn agrees_with_the_grammar(
        pieces in prop::collection::vec(piece(), 0..14),
        start in 0..3usize,
    ) {
        let buf = pieces.concat();
        check(&buf, start.min(buf.len()));
    }
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(vec![
        "\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\u00e9", "\\u6f6e", "\\ud83d", "é", "潮",
    ]);
    prop_oneof![
        5 => (0..90usize).prop_map(|len| vec![b'a'; len]),
        5 => special.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::sample::select(vec!["\"", "\\", "\\u1", "\n"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ]
}
