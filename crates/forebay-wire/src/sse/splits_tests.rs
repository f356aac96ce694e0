//! Nothing depends on where the stream was cut into pieces.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

const CORPUS: [(&str, &[u8]); 10] = [
    ("chat", include_bytes!("../../testdata/chat_stream_usage.sse")),
    ("continuous", include_bytes!("../../testdata/chat_stream_usage_continuous.sse")),
    ("n2", include_bytes!("../../testdata/chat_stream_n2.sse")),
    ("logprobs", include_bytes!("../../testdata/chat_stream_logprobs.sse")),
    ("completions", include_bytes!("../../testdata/completions_stream_usage.sse")),
    ("responses", include_bytes!("../../testdata/responses_stream.sse")),
    ("messages", include_bytes!("../../testdata/messages_stream.sse")),
    ("keepalive", include_bytes!("../../testdata/i2_stream_keepalive_while_queued.sse")),
    ("abort", include_bytes!("../../testdata/abort_tail.sse")),
    ("error", include_bytes!("../../testdata/error_tail.sse")),
];

const DIALECTS: [Dialect; 3] = [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic];

/// All that a watcher tells.
type Told = (u64, u64, bool, bool, bool, u64, Option<forebay_core::Usage>);

fn watch<'a>(dialect: Dialect, pieces: impl IntoIterator<Item = &'a [u8]>) -> Told {
    let mut w = Watcher::new(dialect);
    pieces.into_iter().for_each(|piece| w.feed(piece));
    w.finish();
    (w.events(), w.tokens(), w.saw_data(), w.done(), w.error(), w.finish_reasons_seen(), w.usage())
}

fn edit<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut editor = ModelEditor::new("tide-latest");
    let mut out = vec![];
    pieces.into_iter().for_each(|piece| editor.feed(Bytes::copy_from_slice(piece), &mut out));
    editor.finish(&mut out);
    out.concat()
}

/// Cuts `stream` at the given places.
fn cut<'a>(stream: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = places.iter().map(|p| p.index(stream.len() + 1)).collect();
    at.sort_unstable();
    let mut pieces = vec![];
    let mut done = 0;
    for place in at {
        pieces.push(&stream[done..place]);
        done = place;
    }
    pieces.push(&stream[done..]);
    pieces
}

#[test]
fn recorded_streams_at_every_split_point() {
    for (name, stream) in CORPUS {
        for dialect in DIALECTS {
            let whole = watch(dialect, [stream]);
            assert_eq!(watch(dialect, stream.chunks(1)), whole, "{name} byte by byte");
            for at in 0..=stream.len() {
                assert_eq!(watch(dialect, [&stream[..at], &stream[at..]]), whole, "{name} at {at}");
            }
        }
        let whole = edit([stream]);
        assert_eq!(edit(stream.chunks(1)), whole, "{name} byte by byte");
        for at in 0..=stream.len() {
            assert!(edit([&stream[..at], &stream[at..]]) == whole, "{name} at {at}");
        }
    }
}

#[test]
fn editing_changes_the_name_and_nothing_else() {
    for (name, stream) in CORPUS {
        let stream = String::from_utf8(stream.to_vec()).unwrap();
        let expected = stream.replace(r#""model":"tiny""#, r#""model":"tide-latest""#);
        assert_eq!(String::from_utf8(edit([stream.as_bytes()])).unwrap(), expected, "{name}");
    }
}

/// Streams made of plausible and implausible lines.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        r#"data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#,
        r#"data: {"choices":[{"index":0,"delta":{"content":"潮"},"finish_reason":null}]}"#,
        r#"data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}"#,
        r#"data:{"model":"t","choices":[{"text":"\"error\":","finish_reason":"stop"}]}"#,
        r#"data: {"model":"t","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}"#,
        r#"data: {"type":"content_block_delta","delta":{"text":"x"}}"#,
        r#"data: {"response":{"model":"t","usage":{"input_tokens":3}},"type":"response.completed"}"#,
        r#"data: {"error":{"message":"x"}}"#,
        r#"data: {"model":"#,
        r#"data: "t"}"#,
        "data: [DONE]",
        "data",
        "data:",
        "event: error",
        "event: response.completed",
        ": comment",
        "id: 7",
        "",
        "",
        "",
    ]);
    let end = prop::sample::select(vec!["\n", "\n", "\r\n", "\r"]);
    prop::collection::vec((line, end), 0..12).prop_map(|lines| {
        lines.into_iter().flat_map(|(line, end)| [line, end].concat().into_bytes()).collect()
    })
}

/// Streams of which a byte may be damaged.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (stream(), damage).prop_map(|(mut bytes, damage)| {
        if let Some((at, byte)) = damage
            && !bytes.is_empty()
        {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn made_up_streams(
        stream in damaged(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        dialect in prop::sample::select(DIALECTS.to_vec()),
    ) {
        let pieces = cut(&stream, &places);
        prop_assert_eq!(watch(dialect, pieces.clone()), watch(dialect, [&stream[..]]));
        prop_assert_eq!(edit(pieces), edit([&stream[..]]));
        // An edited stream has nothing left to edit, and says the same.
        let edited = edit([&stream[..]]);
        prop_assert_eq!(edit([&edited[..]]), edited.clone());
        prop_assert_eq!(watch(dialect, [&edited[..]]), watch(dialect, [&stream[..]]));
    }

    #[test]
    fn the_same_name_is_the_identity(stream in stream()) {
        let mut editor = ModelEditor::new("t");
        let mut out = vec![];
        editor.feed(Bytes::from(stream.clone()), &mut out);
        editor.finish(&mut out);
        prop_assert_eq!(out.concat().escape_ascii().to_string(), stream.escape_ascii().to_string());
    }
}
