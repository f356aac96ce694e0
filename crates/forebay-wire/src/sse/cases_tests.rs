//! The inputs of the named cases B01, B02, B04, B05, B07 and B10, and every
//! shape of usage, content and ending.

use forebay_core::Usage;

use super::*;

fn watch(dialect: Dialect, stream: impl AsRef<[u8]>) -> Watcher {
    let mut watcher = Watcher::new(dialect);
    watcher.feed(stream.as_ref());
    watcher.finish();
    watcher
}

fn chunks(stream: impl AsRef<[u8]>) -> Watcher {
    watch(Dialect::OpenAi, stream)
}

fn chunk(content: &str) -> String {
    format!(
        r#"data: {{"id":"c1","object":"chat.completion.chunk","model":"tiny","choices":[{{"index":0,"delta":{{"content":"{content}"}},"finish_reason":null}}]}}"#
    ) + "\n\n"
}

fn usage(prompt_tokens: u64, cached_tokens: u64, completion_tokens: u64) -> Option<Usage> {
    Some(Usage { prompt_tokens, cached_tokens, completion_tokens, ..Usage::default() })
}

/// Whether the cache was spoken of is tested with the figures themselves.
fn plain(usage: Usage) -> Usage {
    Usage { cached_known: false, ..usage }
}

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":41,\"completion_tokens\":17}}\n\n";

#[test]
fn b01_b02_an_event_cut_anywhere_is_read_once() {
    let stream = chunk("潮位🦀") + USAGE + "data: [DONE]\n\n";
    for cut in 0..=stream.len() {
        let mut watcher = Watcher::new(Dialect::OpenAi);
        watcher.feed(&stream.as_bytes()[..cut]);
        watcher.feed(&stream.as_bytes()[cut..]);
        assert_eq!(
            (watcher.events(), watcher.tokens(), watcher.usage().map(plain)),
            (2, 1, usage(41, 0, 17)),
            "{cut}"
        );
        assert!(watcher.done() && !watcher.error());
    }
}

#[test]
fn b02_huge_events_do_not_hide_what_follows() {
    for size in [(64 << 10) + 1, (512 << 10) + 1, (1 << 20) + 1, (4 << 20) + 1] {
        let stream = chunk(&"x".repeat(size)) + &chunk("y") + USAGE + "data: [DONE]\n\n";
        for step in [1000, 65_536, stream.len()] {
            let mut watcher = Watcher::new(Dialect::OpenAi);
            stream.as_bytes().chunks(step).for_each(|piece| watcher.feed(piece));
            assert_eq!((watcher.events(), watcher.tokens()), (3, 2), "{size} in {step}");
            assert_eq!(watcher.usage().map(plain), usage(41, 0, 17));
            assert!(watcher.done());
        }
    }
    // A comment of that size is still a comment, and the name is believed.
    let comment = format!(": {}\n\n", "x".repeat(2 << 20));
    assert_eq!(chunks(comment).events(), 0);
    let end = format!("event: response.completed\ndata: {{\"x\":\"{}\"}}\n\n", "x".repeat(2 << 20));
    assert!(watch(Dialect::Responses, end).done());
}

#[test]
fn b04_data_without_a_space() {
    let watcher = chunks(
        "data:{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13}}\n\ndata:[DONE]\n\n",
    );
    assert_eq!((watcher.usage().map(plain), watcher.done(), watcher.events()), (usage(9, 0, 4), true, 1));
    // Exactly one space is removed.
    assert!(!chunks("data:  [DONE]\n\n").done());
    assert_eq!(chunks("data:  two-space\n\n").events(), 1);
}

#[test]
fn b05_comments_and_empty_data_are_no_events() {
    for quiet in [
        ": warming\n\n",
        ":\n\n",
        "retry: 3000\n\n",
        "id: 5\n: comment\n\n",
        "data:\n\n",
        "data\n\n",
        "data: \n\n",
        "event: ping\n\n",
        "event: error\n\n",
        "\n\n\n",
        "\r\n\r\n",
        "nonsense\n\n",
        "database: x\n\n",
        " data: x\n\n",
    ] {
        let watcher = chunks(quiet);
        assert_eq!(watcher.events(), 0, "{quiet:?}");
        assert!(!watcher.saw_data() && !watcher.error() && !watcher.done(), "{quiet:?}");
    }
    let ping = chunks("event: ping\ndata: {}\n\n");
    assert!(ping.saw_data() && !ping.first_token_seen());
    let glued = chunks(": warming\n\n".repeat(5) + ": warming\n" + &chunk("a"));
    assert_eq!((glued.events(), glued.tokens()), (1, 1));
}

#[test]
fn b05_line_ends_and_fields_of_every_kind() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = [
            ": hi",
            "",
            "id: 1",
            "event: x",
            "data: [DONE]",
            "",
            "data: {\"a\":",
            "data:1}",
            "retry: 5",
            "",
            "",
        ]
        .join(end);
        for cut in 0..=stream.len() {
            let mut watcher = Watcher::new(Dialect::OpenAi);
            watcher.feed(&stream.as_bytes()[..cut]);
            watcher.feed(b"");
            watcher.feed(&stream.as_bytes()[cut..]);
            assert!(watcher.done(), "{end:?} {cut}");
            assert_eq!(watcher.events(), 1, "{end:?} {cut}");
        }
    }
    // Lines of one event are one JSON text.
    let spread = chunks("data: {\"usage\":\ndata: {\"prompt_tokens\":\ndata:5}\ndata: }\n\n");
    assert_eq!((spread.usage().map(plain), spread.events()), (usage(5, 0, 0), 1));
    // A byte order mark before the first line is not part of it.
    assert!(chunks("\u{feff}data: [DONE]\n\n").done());
}

#[test]
fn b07_the_end_of_the_stream() {
    let finish = chunk("a").replace("null", "\"stop\"");
    let complete = chunks(chunk("a") + &finish);
    assert!(!complete.done() && !complete.error());
    assert_eq!(complete.finish_reasons_seen(), 1);
    // (d) the last event lacks its blank line.
    for tail in ["", "\n", "\r", "\r\n"] {
        let watcher = chunks(chunk("a") + USAGE.trim_end() + tail);
        assert_eq!((watcher.usage().map(plain), watcher.events()), (usage(41, 0, 17), 2), "{tail:?}");
    }
    // (c) cut within an event: what was there counts, the half event says nothing.
    let cut = chunks(chunk("a") + "data: {\"choices\":[],\"us");
    assert_eq!((cut.tokens(), cut.usage().map(plain), cut.done()), (1, None, false));
}

#[test]
fn b10_errors_are_seen() {
    for error in [
        "data: {\"error\":{\"message\":\"KV pool \\\"exhausted\\\"\\nline2\",\"code\":500}}\n\ndata: [DONE]\n\n",
        "data: {\"error\": \"gone\"}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"error\"}],\"error\":{\"message\":\"x\"}}\n\n",
        "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"abort\"}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"},{\"finish_reason\":\"abort\"}]}\n\n",
        "event: error\ndata: {\"x\":1}\n\n",
        "event: error\ndata: not json\n\n",
        "data: {\"object\":\"error\",\"message\":\"x\",\"code\":400}\n\n",
    ] {
        let watcher = chunks(chunk("a") + &chunk("b") + error);
        assert!(watcher.error(), "{error}");
        assert!(watcher.tokens() >= 2);
    }
    for fine in [
        chunk(r#"\"error\":{\"message\":\"x\"}"#),
        chunk(r#"the \"error"#),
        chunk(r#"finish_reason\":\"abort"#),
        "data: {\"error\":null,\"choices\":[{\"text\":\"error\",\"finish_reason\":null}]}\n\n".to_owned(),
        "data: {\"choices\":[{\"delta\":{\"error\":{}},\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
        "data: error\n\n".to_owned(),
        ": event: error\n\n".to_owned(),
    ] {
        assert!(!chunks(&fine).error(), "{fine}");
    }
    assert!(
        watch(Dialect::Anthropic, "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n")
            .error()
    );
    let failed = watch(
        Dialect::Responses,
        "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"x\"}}}\n\n",
    );
    assert!(failed.error() && failed.done());
}

#[test]
fn content_of_every_kind_is_a_token_and_nothing_else_is() {
    let delta =
        |fields: &str| chunks(format!("data: {{\"choices\":[{{\"delta\":{{{fields}}}}}]}}\n\n")).tokens();
    for content in [
        r#""content":"x""#,
        r#""reasoning":"x""#,
        r#""content":null,"reasoning_content":"x""#,
        r#""content":"","tool_calls":[{"index":0}]"#,
        r#""function_call":{"name":"f"}"#,
        r#""refusal":"no""#,
        r#""content":[{"type":"text"}]"#,
    ] {
        assert_eq!(delta(content), 1, "{content}");
    }
    for empty in
        [r#""role":"assistant","content":"""#, r#""content":null,"tool_calls":[]"#, "", r#""other":"x""#]
    {
        assert_eq!(delta(empty), 0, "{empty}");
    }
    assert_eq!(
        chunks("data: {\"choices\":[{\"text\":\"\"}]}\n\ndata: {\"choices\":[{\"text\":\"x\"}]}\n\n")
            .tokens(),
        1
    );
}

#[test]
fn events_of_one_shape_are_told_apart() {
    // After the first of a shape the others are compared instead of scanned.
    let stream = [
        chunk("a"),
        chunk(""),
        chunk("b"),
        chunk(r#"\n"#),
        chunk(r#"x\""#),
        chunk(r#"\\"#),
        // The quote after it is escaped, so this is no string that ends here.
        chunk(r"x\"),
        chunk(r#""},"finish_reason":"abort","x":{"y":""#),
        chunk("c"),
    ];
    let watcher = chunks(stream.concat());
    assert_eq!((watcher.events(), watcher.tokens(), watcher.error()), (9, 7, true));
    let typed = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
    assert_eq!(watch(Dialect::Anthropic, typed.repeat(3)).tokens(), 3);
    let other = typed.replace("content_block_delta", "content_block_start");
    assert_eq!(watch(Dialect::Anthropic, other.repeat(3) + typed).tokens(), 1);
}

#[test]
fn usage_of_every_shape() {
    let one = |dialect, data: &str| watch(dialect, format!("data: {data}\n\n")).usage().map(plain);
    assert_eq!(
        one(
            Dialect::OpenAi,
            r#"{"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}"#
        ),
        usage(10, 8, 2)
    );
    assert_eq!(one(Dialect::OpenAi, r#"{"usage":null}"#), None);
    assert_eq!(one(Dialect::OpenAi, r#"{"usage":{}}"#), None);
    assert_eq!(one(Dialect::OpenAi, r#"{"choices":[{"usage":{"prompt_tokens":1}}]}"#), None);
    assert_eq!(
        one(
            Dialect::Responses,
            r#"{"type":"response.incomplete","response":{"usage":{"input_tokens":14,"output_tokens":6,"input_tokens_details":{"cached_tokens":3}}}}"#
        ),
        usage(14, 3, 6)
    );
    assert_eq!(
        one(
            Dialect::Responses,
            r#"{"type":"transcript.text.done","usage":{"type":"tokens","input_tokens":4,"output_tokens":5}}"#
        ),
        usage(4, 0, 5)
    );
    let anthropic = watch(
        Dialect::Anthropic,
        concat!(
            "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":20,",
            "\"cache_read_input_tokens\":100,\"output_tokens\":1}}}\n\n",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n",
            "data: {\"type\":\"message_stop\"}\n\n"
        ),
    );
    assert_eq!(anthropic.usage().map(plain), usage(125, 100, 7));
    assert_eq!((anthropic.finish_reasons_seen(), anthropic.done()), (1, true));
}

#[test]
fn recorded_streams() {
    let check = |dialect, name: &str, stream: &[u8], events, tokens, expected: Option<Usage>, reasons| {
        let watcher = watch(dialect, stream);
        assert_eq!((watcher.events(), watcher.tokens()), (events, tokens), "{name}");
        assert_eq!(
            (watcher.usage().map(plain), watcher.finish_reasons_seen()),
            (expected, reasons),
            "{name}"
        );
        assert!(watcher.done() && !watcher.error(), "{name}");
    };
    macro_rules! check {
        ($dialect:ident, $name:literal, $($expected:expr),+) => {
            check(Dialect::$dialect, $name, include_bytes!(concat!("../../testdata/", $name, ".sse")), $($expected),+)
        };
    }
    check!(OpenAi, "chat_stream_usage", 10, 8, usage(16, 0, 8), 1);
    check!(OpenAi, "chat_stream_usage_continuous", 6, 4, usage(16, 0, 4), 1);
    check!(OpenAi, "chat_stream_n2", 9, 6, usage(16, 0, 6), 2);
    check!(OpenAi, "chat_stream_logprobs", 4, 3, None, 1);
    check!(OpenAi, "completions_stream_usage", 7, 6, usage(2, 0, 6), 1);
    check!(OpenAi, "i2_stream_keepalive_while_queued", 5, 3, usage(14, 0, 3), 1);
    check!(Responses, "responses_stream", 10, 2, usage(14, 0, 6), 0);
    check!(Anthropic, "messages_stream", 11, 6, usage(14, 0, 6), 1);
    for tail in [
        &include_bytes!("../../testdata/abort_tail.sse")[..],
        include_bytes!("../../testdata/error_tail.sse"),
    ] {
        let watcher = chunks(tail);
        assert!(watcher.error() && watcher.done());
    }
}

#[test]
fn content_types() {
    for sse in ["text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream ;x=y"] {
        assert!(looks_like_sse(sse), "{sse}");
    }
    for other in ["", "application/json", "text/event-streams", "x; text/event-stream"] {
        assert!(!looks_like_sse(other), "{other}");
    }
}

#[test]
fn dialects() {
    use crate::body::Api;
    assert_eq!(Dialect::of(Api::Chat), Dialect::OpenAi);
    assert_eq!(Dialect::of(Api::Responses), Dialect::Responses);
    assert_eq!(Dialect::of(Api::Messages), Dialect::Anthropic);
}
