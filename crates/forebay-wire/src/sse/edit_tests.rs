use super::*;
use bytes::Bytes;

fn edit(to: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let mut editor = ModelEditor::new(to);
    let mut out = vec![];
    for piece in pieces {
        editor.feed(Bytes::copy_from_slice(piece), &mut out);
    }
    editor.finish(&mut out);
    assert!(out.iter().all(|part| !part.is_empty()));
    out.concat()
}

#[track_caller]
fn check(stream: &str, expected: &str) {
    for cut in 0..=stream.len() {
        let (a, b) = stream.as_bytes().split_at(cut);
        let out = edit("tide \"α\"", &[a, b]);
        assert_eq!(String::from_utf8_lossy(&out), expected, "cut at {cut}");
    }
}

const NEW: &str = r#""tide \"α\"""#;

#[test]
fn b37_only_the_top_level_model_changes() {
    for end in ["\n\n", "\r\n\r\n", "\r\r"] {
        let old = format!(
            r#"data: {{"id":"x","model":"target","choices":[{{"delta":{{"content":"\"model\":\"target\"","model":"target"}}}}]}}{end}"#
        );
        check(&old, &old.replacen(r#""target""#, NEW, 1));
        let late = format!(
            r#"data:{{"choices":[{{"model":"t"}}], "mod\u0065l" : "\u0074" }}{end}: {{"model":"t"}}{end}"#
        );
        check(&late, &late.replace(r#""\u0074""#, NEW));
    }
}

#[test]
fn typed_events_name_the_model_inside() {
    let responses = r#"event: response.created
data: {"response":{"model":"t","output":[{"model":"t2"}]},"type":"response.created"}

"#;
    check(responses, &responses.replace(r#""t""#, NEW));
    let messages = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{},\"model\":\"t\"}}\n\n";
    check(messages, &messages.replace(r#""t""#, NEW));
}

#[test]
fn everything_else_is_the_identity() {
    for stream in [
        "",
        "\n",
        "\r\n",
        ": {\"model\":\"t\"}\n\n",
        "data: [DONE]\n\n",
        "data: {\"model\":null}\n\ndata: {\"model\":7}\n\ndata: {\"model\":{\"model\":\"t\"}}\n\n",
        "data: [{\"model\":\"t\"}]\n\n",
        "data: \"model\"\n\nid: 1\nretry: 5\n\ndata\n\n",
        "event: {\"model\":\"t\"}\n\n",
        "data: {\"response\":[{\"model\":\"t\"}],\"message\":\"model\"}\n\n",
        "data: not json \"model\":\"t\"",
        "data: {\"x\":\"潮位🦀\"}\n\n",
    ] {
        check(stream, stream);
    }
}

#[test]
fn data_over_several_lines() {
    let old = "data: {\"a\":1,\nevent: x\ndata:\"model\":\ndata: \"t\",\"b\":\"t\"\ndata}\n\n";
    check(old, &old.replacen("\"t\"", NEW, 1));
}

#[test]
fn the_tail_is_flushed() {
    for tail in
        ["data: {\"model\":\"t\"}", "data: {\"model\":\"t\"}\n", "data: {\"model\":\"t\"", "data: {\"mod"]
    {
        check(tail, &tail.replace("\"t\"", NEW));
    }
}

#[test]
fn complete_events_are_not_held_back_and_others_only_so_far() {
    let mut editor = ModelEditor::new("new");
    let mut out = vec![];
    editor.feed(Bytes::from_static(b"data: {\"model\":\"t\"}\r\n\r\ndata: {"), &mut out);
    assert_eq!(out.concat(), b"data: {\"model\":\"new\"}\r\n\r\n");
    out.clear();
    editor.feed(Bytes::from_static(b"}\r\n\r"), &mut out);
    assert_eq!(out.concat(), b"data: {}\r\n\r");
    out.clear();
    editor.feed(Bytes::from_static(b"\n"), &mut out);
    assert_eq!(out.concat(), b"\n");

    out.clear();
    let start = Bytes::from(format!("data: {{\"model\":\"t\",\"x\":\"{}", "x".repeat(65_536)));
    for piece in start.chunks(100) {
        editor.feed(start.slice_ref(piece), &mut out);
    }
    let passed = out.concat();
    assert!(passed.starts_with(b"data: {\"model\":\"new\",\"x\":\"xxx"));
    assert_eq!(passed.len(), start.len() + 2, "over the cap nothing is held back");
    out.clear();
    editor.feed(Bytes::from_static(b"\"}\n\ndata: {\"model\":\"t\"}\n\n"), &mut out);
    assert_eq!(out.concat(), b"\"}\n\ndata: {\"model\":\"new\"}\n\n");
}

#[test]
fn large_events_are_edited_alike_at_every_split() {
    let pad = "x".repeat(70_000);
    let stream = format!(
        "data: {{\"model\":\"t\",\"x\":\"{pad}\",\"message\":{{\"model\":\"t\"}}}}\n\ndata: {{\"model\":\"t\"}}\n\n"
    );
    // Beyond the cap the name stays.
    let expected = stream
        .replace("{\"model\":\"t\",", "{\"model\":\"n\",")
        .replace("data: {\"model\":\"t\"}", "data: {\"model\":\"n\"}");
    for step in [1, 1000, 65_535, 65_536, 65_537, stream.len()] {
        let pieces: Vec<&[u8]> = stream.as_bytes().chunks(step).collect();
        assert!(edit("n", &pieces) == expected.as_bytes(), "{step}");
    }
}

#[test]
fn untouched_chunks_pass_whole_and_uncopied() {
    let chunk = Bytes::from_static(b"data: {\"model\":\"same\"}\n\n: x\n\ndata: [DONE]\n\n");
    let mut out = vec![];
    ModelEditor::new("same").feed(chunk.clone(), &mut out);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].as_ptr(), chunk.as_ptr());
}

#[test]
fn whole_answers() {
    let chat = include_bytes!("../../testdata/chat_nonstream.json");
    let out = rewrite_model_json(chat, "tide-latest").unwrap();
    let expected = String::from_utf8(chat.to_vec()).unwrap().replacen("\"tiny\"", "\"tide-latest\"", 1);
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    for none in
        ["", "{}", "[]", "{\"model\":1}", "{\"data\":[{\"model\":\"t\"}]}", "{\"model\":\"t", "<html>"]
    {
        assert_eq!(rewrite_model_json(none.as_bytes(), "n"), None, "{none}");
    }
}
