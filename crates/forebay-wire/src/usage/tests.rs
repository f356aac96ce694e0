use super::*;

fn usage(prompt_tokens: u64, cached_tokens: u64, completion_tokens: u64) -> Option<Usage> {
    Some(Usage { prompt_tokens, cached_tokens, completion_tokens, ..Usage::default() })
}

/// Whether the cache was spoken of is tested on its own.
fn usage_from_json(body: &[u8]) -> Option<Usage> {
    super::usage_from_json(body).map(|usage| Usage { cached_known: false, ..usage })
}

#[test]
fn no_cached_tokens_and_no_word_of_them_are_told_apart() {
    let known = |body: &str| super::usage_from_json(body.as_bytes()).unwrap().cached_known;
    assert!(known(r#"{"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":0}}}"#));
    assert!(known(r#"{"usage":{"input_tokens":7,"cache_read_input_tokens":0}}"#));
    assert!(!known(r#"{"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":null}}}"#));
    assert!(!known(r#"{"usage":{"prompt_tokens":7}}"#));
}

#[test]
fn recorded_answers() {
    assert_eq!(usage_from_json(include_bytes!("../../testdata/chat_nonstream.json")), usage(16, 0, 8));
    assert_eq!(usage_from_json(include_bytes!("../../testdata/completions_nonstream.json")), usage(2, 0, 6));
    assert_eq!(usage_from_json(include_bytes!("../../testdata/responses_nonstream.json")), usage(14, 0, 6));
    assert_eq!(usage_from_json(include_bytes!("../../testdata/messages_nonstream.json")), usage(14, 0, 6));
}

#[test]
fn shapes() {
    for (body, expected) in [
        (r#"{"usage":{"prompt_tokens":7,"total_tokens":7}}"#, usage(7, 0, 0)),
        (r#"{"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}"#, usage(7, 4, 0)),
        (r#"{"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":null}}}"#, usage(7, 0, 0)),
        (r#"{"usage":{"prompt_tokens":7,"prompt_tokens_details":null,"x":[{}]}}"#, usage(7, 0, 0)),
        (r#"{"usage":{"prompt_tokens":7,"prompt_tokens_details":[1]}}"#, usage(7, 0, 0)),
        (r#"{"usage":{"prompt_tokens":7,"prompt_cache_hit_tokens":3}}"#, usage(7, 3, 0)),
        (r#"{"usage":{"prompt_tokens":7,"cached_tokens":30}}"#, usage(7, 7, 0)),
        (
            r#"{"usage":{"input_tokens":1,"cache_read_input_tokens":10,"cache_creation_input_tokens":100,"output_tokens":2}}"#,
            usage(111, 10, 2),
        ),
        (r#"{"usage":{"prompt_tokens":1e2,"completion_tokens":2.7}}"#, usage(100, 0, 2)),
        (r#"{"usage":{"prompt_tokens":99999999999999999999999}}"#, usage(u64::MAX, 0, 0)),
        (r#"{"usage":{"prompt_tokens":-1,"completion_tokens":1}}"#, usage(0, 0, 1)),
        (r#"{"usage":{"prompt_tokens":"7"}}"#, None),
        (r#"{"usage":{"prompt_tokens":{"a":1}}}"#, None),
        (r#"{"usage":null}"#, None),
        (r#"{"usage":[]}"#, None),
        (r#"{"usage":{}}"#, None),
        (r#"{"data":[{"usage":{"prompt_tokens":1}}]}"#, None),
        (r#"{"content":"\"usage\":{\"prompt_tokens\":1}"}"#, None),
        (r#"[{"usage":{"prompt_tokens":1}}]"#, None),
        (r#"{"usage":{"prompt_tokens":1"#, None),
        (r#"{"usage":{"prompt_tokens":7},"x":{"usage":{"prompt_tokens":1}}}"#, usage(7, 0, 0)),
        (r#"{"usage":{"prompt_tokens":7},"x":"\"usage"}"#, usage(7, 0, 0)),
        (r#"{"usage":{"prompt_tokens":7},"x\"usage":{"prompt_tokens":1}}"#, usage(7, 0, 0)),
        (r#"{"usage":{"prompt_tokens":7},"x":[{"usage":{"prompt_tokens":1}}]}"#, usage(7, 0, 0)),
        (r#"{"x":[1,2,{}],"usage":{"prompt_tokens":7},"y":[null]} "#, usage(7, 0, 0)),
        ("<html>\"usage\"", None),
        ("", None),
    ] {
        assert_eq!(usage_from_json(body.as_bytes()), expected, "{body}");
    }
}
