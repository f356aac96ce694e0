use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

fn check(text: &[u8]) -> Result<(), JsonError> {
    let mut pull = Pull::new(text);
    pull.skip_value()?;
    pull.end()
}

/// serde_json's grammar, without its limits on depth and numbers.
fn reference(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

fn string(text: &str) -> (Vec<u8>, Str) {
    let text = text.as_bytes().to_vec();
    match Pull::new(&text).next() {
        Ok(Event::String(s)) => (text, s),
        other => panic!("{other:?}"),
    }
}

#[test]
fn grammar_corners() {
    let good: &[&[u8]] = &[
        b"0",
        b"-0",
        b"-0.0e-0",
        b"1E+400",
        b"123456789012345678901234567890",
        b" \t\r\n[ ] ",
        b"{}",
        br#"{"a":{"b":[[],{}]},"a":null}"#,
        br#""\ud83d""#,
        br#""\ude00\ud83d""#,
        br#""\"\\\/\b\f\n\r\t\u0000""#,
        "\"\u{7f}\u{80}\u{10ffff}\"".as_bytes(),
        b"true",
        b"[false,null]",
    ];
    for text in good {
        assert_eq!(check(text), Ok(()), "{}", text.escape_ascii());
        assert!(reference(text), "{}", text.escape_ascii());
    }
    let bad: &[&[u8]] = &[
        b"",
        b" ",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"-",
        b"-a",
        b"01",
        b"1.",
        b".5",
        b"+1",
        b"1e",
        b"1e+",
        b"0x10",
        b"Infinity",
        b"tru",
        b"truee",
        b"nul",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1",
        b"[1}",
        b"{\"a\"}",
        b"{\"a\":}",
        b"{\"a\":1,}",
        b"{a:1}",
        b"{1:1}",
        b"{\"a\":1]",
        b"{\"a\" 1}",
        b"{\"a\":1 \"b\":2}",
        b"{}{}",
        b"{} x",
        b"'a'",
        b"\"a",
        b"\"\\",
        b"\"\\x\"",
        b"\"\\u12\"",
        b"\"\\u12g4\"",
        b"\"\\U0041\"",
        b"\"a\x00b\"",
        b"\"a\nb\"",
        b"\"\x1f\"",
        b"\"\xff\"",
        b"\"\xed\xa0\x80\"",
        b"\"\xc0\x80\"",
        b"\"\xe6\xbd\"",
        b"\x0c1",
        "\u{a0}1".as_bytes(),
        b"// c\n1",
    ];
    for text in bad {
        assert!(check(text).is_err(), "{}", text.escape_ascii());
        assert!(!reference(text), "{}", text.escape_ascii());
    }
}

#[test]
fn nesting_is_bounded_and_needs_no_stack() {
    let nested = |n: usize| [vec![b'['; n], vec![b']'; n]].concat();
    assert_eq!(check(&nested(512)), Ok(()));
    assert_eq!(check(&nested(513)).unwrap_err().what, "nesting deeper than 512 levels");
    assert_eq!(check(&vec![b'['; 200_000]).unwrap_err().at, 512);
    let mixed = [b"{\"a\":[".repeat(256), b"]}".repeat(256)].concat();
    assert_eq!(check(&mixed), Ok(()));
}

#[test]
fn errors_say_where() {
    assert_eq!(check(b"{\"a\":tru}").unwrap_err().at, 5);
    assert_eq!(check(b"\"ab\xffcd\"").unwrap_err().at, 3);
    assert_eq!(check(b"{\"a\":1").unwrap_err().at, 6);
}

#[test]
fn decoding() {
    for (json, plain) in [
        (r#""""#, ""),
        (r#""abc""#, "abc"),
        (r#""\u0074ide-7b""#, "tide-7b"),
        (r#""a\n\"\\\/\b\f\r\tz""#, "a\n\"\\/\u{8}\u{c}\r\tz"),
        (r#""\u00e9\u6f6e\ud83e\udd80!""#, "é潮🦀!"),
        (r#""潮\u0000""#, "潮\0"),
    ] {
        let (buf, s) = string(json);
        assert_eq!(s.to_text(&buf), plain);
        assert_eq!(s.decoded_len(), plain.len(), "{json}");
        assert!(s.is(&buf, plain.as_bytes()));
        assert!(!s.is(&buf, b"something else"));
        assert!(!s.starts_with(&buf, b"something else"));
        assert!((0..=plain.len()).all(|n| s.starts_with(&buf, &plain.as_bytes()[..n])));
        assert!(!s.is(&buf, &[plain.as_bytes(), b"x"].concat()));
        assert_eq!(s.short(&buf, &mut [0; 32]), Some(plain.as_bytes()));
    }
    // Lone surrogates stay apart from each other and from U+FFFD.
    let bytes = |json: &str| {
        let (buf, s) = string(json);
        let mut out = vec![];
        s.decode(&buf, |run| {
            out.extend_from_slice(run);
            true
        });
        out
    };
    assert_eq!(bytes(r#""\ud83d""#), [0xed, 0xa0, 0xbd]);
    assert_eq!(bytes(r#""\uD83Dx""#), [0xed, 0xa0, 0xbd, b'x']);
    assert_eq!(bytes(r#""\ude00\ud83d""#), [0xed, 0xb8, 0x80, 0xed, 0xa0, 0xbd]);
    let (buf, s) = string(r#""a\ud83d""#);
    assert!(s.to_text(&buf).starts_with("a\u{fffd}"));
}

#[test]
fn long_names_do_not_fit_the_short_space() {
    let (buf, s) = string(&format!("\"\\u0061{}\"", "b".repeat(40)));
    assert_eq!(s.short(&buf, &mut [0; 32]), None);
}

#[test]
fn counts() {
    for (text, count) in [
        ("0", Some(0)),
        ("-0", Some(0)),
        ("64", Some(64)),
        ("1e2", Some(100)),
        ("100.0", Some(100)),
        ("4294967295", Some(u32::MAX)),
        ("4294967296", Some(u32::MAX)),
        ("9223372036854775808", Some(u32::MAX)),
        ("123456789012345678901234567890", Some(u32::MAX)),
        ("1e400", Some(u32::MAX)),
        ("128000", Some(128_000)),
        ("7654321", Some(7_654_321)),
        ("12345678", Some(12_345_678)),
        ("123456789", Some(123_456_789)),
        ("1.5", None),
        ("1e-1", None),
        ("-1", None),
        ("-1e400", None),
    ] {
        assert_eq!(count_u32(text.as_bytes()), count, "{text}");
        for before in ["", "9", "[128000,", "é99999999"] {
            let buf = format!("{before}{text}9");
            assert_eq!(count_at(buf.as_bytes(), before.len()..buf.len() - 1), count, "{buf}");
        }
    }
    assert_eq!(lenient_u64(b"12.9"), Some(12));
    assert_eq!(lenient_u64(b"-3"), None);
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::{Value, json};
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(|v| json!(v)),
        any::<i64>().prop_map(|v| json!(v)),
        any::<f64>().prop_map(|v| json!(v)),
        any::<String>().prop_map(|v| json!(v)),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn accepts_what_serde_json_writes(tree in tree(), pretty: bool) {
        let text = if pretty { serde_json::to_vec_pretty(&tree) } else { serde_json::to_vec(&tree) };
        prop_assert_eq!(check(&text.unwrap()), Ok(()));
    }

    #[test]
    fn agrees_with_serde_json_on_damaged_texts(
        tree in tree(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, edit_byte()), 1..4),
    ) {
        let mut text = serde_json::to_vec(&tree).unwrap();
        for (at, what, byte) in edits {
            let at = at.index(text.len() + 1);
            match what {
                0 => text.insert(at, byte),
                1 if at < text.len() => text[at] = byte,
                _ if at < text.len() => drop(text.remove(at)),
                _ => {}
            }
        }
        prop_assert_eq!(check(&text).is_ok(), reference(&text), "{}", text.escape_ascii());
    }

    #[test]
    fn agrees_with_serde_json_on_token_soup(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\u", "0041\"", "\"", "\\", "1", "-", "0", ".", "e", "+",
            "true", "null", " ", "\n", "\u{1}", "é",
        ]), 0..12),
    ) {
        let text = tokens.concat();
        prop_assert_eq!(check(text.as_bytes()).is_ok(), reference(text.as_bytes()), "{}", text);
    }

    #[test]
    fn strings_decode_as_serde_json_decodes(text: String) {
        let json = serde_json::to_string(&text).unwrap();
        let (buf, s) = string(&json);
        prop_assert_eq!(s.to_text(&buf), &text[..]);
        prop_assert_eq!(s.decoded_len(), text.len());
        let mut ours = vec![];
        push_string(&mut ours, &text);
        prop_assert_eq!(serde_json::from_slice::<String>(&ours).unwrap(), text);
    }
}

fn edit_byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(br#"{}[],:"\ue.-+0 "#.to_vec())]
}
