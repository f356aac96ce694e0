//! The inputs of the named cases B31, B32, B34 and B35, and the rules for bad bodies.

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::*;

fn scan(body: &str) -> Result<Scan, BodyError> {
    scan_json(Api::Chat, body.as_bytes())
}

fn good(api: Api, body: &str) -> Scan {
    match scan_json(api, body.as_bytes()) {
        Ok(scan) => scan,
        Err(e) => panic!("{e} in {body}"),
    }
}

/// A chat body with `fields` put before its messages.
fn chat(fields: &str) -> String {
    format!(r#"{{"model":"tide-7b",{fields}"messages":[{{"role":"user","content":"hi"}}]}}"#)
}

#[track_caller]
fn refused(api: Api, body: &str, param: Option<&str>, message: &str) {
    let e = scan_json(api, body.as_bytes()).expect_err(body);
    assert_eq!(e.param(), param, "{body}");
    assert_eq!(e.to_string(), message, "{body}");
}

#[test]
fn a_plain_request() {
    let body = chat("\"stream\":true,");
    let scan = good(Api::Chat, &body);
    assert_eq!(scan.model, "tide-7b");
    assert_eq!(&body[scan.model_span.clone()], "\"tide-7b\"");
    assert!(scan.stream && !scan.multipart && !scan.include_usage);
    assert_eq!((scan.choices, scan.prompts, scan.prompt_bytes), (1, 1, 2));
    assert_eq!((scan.max_output_tokens, scan.user_hash, scan.prompt_token_ids), (None, None, 0));
    assert_eq!(scan.prompt_head_hash, xxh3_64(b"hi"));
}

#[test]
fn b31_model_after_ten_megabytes_of_messages() {
    let text = "tide and gate, ".repeat(10 << 16);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}],"model":"tide-7b"}}"#);
    let scan = good(Api::Chat, &body);
    assert_eq!(scan.model, "tide-7b");
    assert_eq!(scan.prompt_bytes, text.len());
    assert_eq!(scan.prompt_head_hash, xxh3_64(&text.as_bytes()[..1024]));
}

#[test]
fn b32_what_is_not_json_is_refused() {
    for body in ["", " ", "{\"model\":\"tide-7b\"", "{\"model\":\"tide-7b\",}", "{\"model\" \"x\"}", "{}x"] {
        assert!(matches!(scan(body), Err(BodyError::NotJson { .. })), "{body}");
    }
    for (raw, at) in [
        (&b"\xff"[..], 0),
        (b"\xef\xbb\xbf{}", 0),
        (b"{\"a\":\"\xed\xa0\x80\"}", 6),
        (b"{\"a\":\"\xff\"}", 6),
    ] {
        let e = scan_json(Api::Chat, raw).unwrap_err();
        assert!(matches!(e, BodyError::NotJson { at: found, .. } if found == at), "{e}");
        assert_eq!(e.param(), None);
    }
    refused(Api::Chat, "[]", None, "the request body must be a JSON object");
    refused(Api::Chat, "\"x\"", None, "the request body must be a JSON object");
    refused(
        Api::Chat,
        &chat("\"temperature\":NaN,"),
        None,
        "the request body is not valid JSON: no value here at byte 33",
    );
    for depth in [2_000, 200_000] {
        assert!(scan(&"[".repeat(depth)).is_err());
        let e = scan(&format!("{{\"model\":\"m\",\"x\":{}", "[".repeat(depth))).unwrap_err();
        assert!(e.to_string().contains("nesting deeper than 512 levels"), "{e}");
    }
}

#[test]
fn b32_legal_json_is_accepted_however_odd() {
    for fields in [
        r#""seed":9007199254740993,"#,
        r#""temperature":1e400,"top_p":0.1000000000000000055,"x":-0,"#,
        r#""a\/b":"\/","unknown":{"deep":[[{}]]},"#,
        r#"  "seed"  :  1  , "#,
    ] {
        good(Api::Chat, &chat(fields));
    }
    for content in [r"half \ud83d", r"x \ude00"] {
        good(Api::Chat, &format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{content}"}}]}}"#));
    }
}

#[test]
fn b32_the_model_is_decoded() {
    let named = |spelling: &str| good(Api::Other, &format!(r#"{{"model":"{spelling}"}}"#));
    let scan = named(r"\u0074ide-7b");
    assert_eq!(scan.model, "tide-7b");
    assert_eq!(scan.model_span, 9..23);
    assert_eq!(named(r"tide-7b\u0000").model, "tide-7b\0");
    assert_eq!(named(r"\ud83d").model, "\u{fffd}\u{fffd}\u{fffd}");
    assert_eq!(good(Api::Other, r#"{"mod\u0065l":"tide-7b"}"#).model, "tide-7b");
}

#[test]
fn b34_null_is_absent() {
    let scan = good(
        Api::Chat,
        &chat(concat!(
            r#""stream":null,"logprobs":null,"max_tokens":null,"n":null,"user":null,"stop":null,"#,
            r#""stream_options":null,"tools":null,"max_completion_tokens":null,"#
        )),
    );
    assert_eq!(
        scan,
        Scan {
            model_span: scan.model_span.clone(),
            prompt_bytes: scan.prompt_bytes,
            ..good(Api::Chat, &chat(""))
        }
    );
    refused(Api::Chat, r#"{"model":null,"messages":[]}"#, Some("model"), "missing required field 'model'");
    refused(
        Api::Chat,
        r#"{"model":"m","messages":null}"#,
        Some("messages"),
        "missing required field 'messages'",
    );
}

#[test]
fn b34_wrong_types_name_the_field() {
    for stream in ["\"true\"", "1", "[]", "{}"] {
        refused(
            Api::Chat,
            &chat(&format!("\"stream\":{stream},")),
            Some("stream"),
            "field 'stream' must be a boolean",
        );
    }
    for field in ["max_tokens", "max_completion_tokens", "max_output_tokens", "n"] {
        for value in ["-1", "\"64\"", "1.5", "true", "[1]"] {
            refused(
                Api::Chat,
                &chat(&format!("\"{field}\":{value},")),
                Some(field),
                &format!("field '{field}' must be a non-negative whole number"),
            );
        }
    }
    for model in ["1", "\"\"", "[]", "{\"a\":1}", "true"] {
        refused(
            Api::Chat,
            &format!("{{\"model\":{model},\"messages\":[]}}"),
            Some("model"),
            "field 'model' must be a string that is not empty",
        );
    }
    refused(
        Api::Other,
        &format!("{{\"model\":\"{}\"}}", "m".repeat(4097)),
        Some("model"),
        "field 'model' must be at most 4096 bytes long",
    );
    for messages in ["\"hi\"", "{}", "{\"a\":[1]}", "1", "false"] {
        refused(
            Api::Chat,
            &format!("{{\"model\":\"m\",\"messages\":{messages}}}"),
            Some("messages"),
            "field 'messages' must be an array",
        );
    }
    for prompt in ["1", "{}", "true"] {
        for (api, field) in
            [(Api::Completions, "prompt"), (Api::Responses, "input"), (Api::Embeddings, "input")]
        {
            refused(
                api,
                &format!("{{\"model\":\"m\",\"{field}\":{prompt}}}"),
                Some(field),
                &format!("field '{field}' must be a string or an array"),
            );
        }
    }
}

#[test]
fn b34_limits() {
    let limit = |fields: &str| good(Api::Chat, &chat(fields)).max_output_tokens;
    assert_eq!(limit(r#""max_tokens":0,"#), Some(0));
    assert_eq!(limit(r#""max_tokens":9223372036854775808,"#), Some(u32::MAX));
    assert_eq!(limit(r#""max_tokens":100,"max_completion_tokens":50,"#), Some(50));
    assert_eq!(limit(r#""max_completion_tokens":50,"max_tokens":100,"#), Some(50));
    assert_eq!(limit(r#""max_completion_tokens":null,"max_tokens":1e2,"#), Some(100));
    assert_eq!(limit(r#""max_output_tokens":7.0,"#), Some(7));
    good(Api::Chat, &chat(r#""min_p":0.05,"vllm_xargs":{"a":1},"chat_template_kwargs":{},"#));
    // Where nothing is generated they are the engine's to judge.
    good(Api::Embeddings, r#"{"model":"m","input":"x","max_tokens":"many","n":-1}"#);
}

#[test]
fn choices_and_options() {
    let scan = good(Api::Completions, r#"{"model":"m","prompt":"x","n":2,"best_of":5}"#);
    assert_eq!(scan.choices, 5);
    assert_eq!(good(Api::Chat, &chat("\"n\":0,")).choices, 1);
    assert!(good(Api::Chat, &chat(r#""stream_options":{"x":[{}],"include_usage":true},"#)).include_usage);
    for odd in [
        "{\"include_usage\":false}",
        "{}",
        "true",
        "[{\"include_usage\":true}]",
        "{\"include_usage\":[true]}",
    ] {
        assert!(!good(Api::Chat, &chat(&format!("\"stream_options\":{odd},"))).include_usage, "{odd}");
    }
    assert_eq!(good(Api::Chat, &chat(r#""user":"\u0061b","#)).user_hash, Some(xxh3_64(b"ab")));
    assert_eq!(good(Api::Chat, &chat(r#""user":{"id":1},"#)).user_hash, None);
}

#[test]
fn a_field_given_twice_is_refused() {
    for (twice, field) in [
        (r#""model":"a","#, "model"),
        (r#""mod\u0065l":"a","#, "model"),
        (r#""model":null,"#, "model"),
        (r#""messages":[],"#, "messages"),
        (r#""stream":false,"str\u0065am":true,"#, "stream"),
        (r#""n":1,"n":2,"#, "n"),
        (r#""max_tokens":1,"max_tokens":1,"#, "max_tokens"),
    ] {
        refused(Api::Chat, &chat(twice), Some(field), &format!("field '{field}' is given more than once"));
    }
    good(Api::Chat, &chat(r#""seed":1,"seed":2,"x":{"model":1,"model":2},"#));
}

#[test]
fn required_fields() {
    for (api, field) in [
        (Api::Chat, "messages"),
        (Api::Messages, "messages"),
        (Api::CountTokens, "messages"),
        (Api::Completions, "prompt"),
        (Api::Responses, "input"),
        (Api::Embeddings, "input"),
    ] {
        refused(api, r#"{"model":"m"}"#, Some(field), &format!("missing required field '{field}'"));
    }
    good(Api::Completions, r#"{"model":"m","prompt_embeds":"AAAA"}"#);
    good(Api::Embeddings, r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#);
    for api in [Api::Rerank, Api::Score, Api::Pooling, Api::Moderations, Api::Images, Api::Audio, Api::Other]
    {
        good(api, r#"{"model":"m","input":{"odd":1},"prompt":7}"#);
        refused(api, "{}", Some("model"), "missing required field 'model'");
    }
}

#[test]
fn prompts_and_token_ids() {
    let ids = |body: &str| {
        let scan = good(Api::Completions, body);
        (scan.prompts, scan.prompt_bytes, scan.prompt_token_ids)
    };
    assert_eq!(ids(r#"{"model":"m","prompt":"abc"}"#), (1, 3, 0));
    assert_eq!(ids(r#"{"model":"m","prompt":["abc","d\ne"]}"#), (2, 6, 0));
    assert_eq!(ids(r#"{"model":"m","prompt":[1,2,300]}"#), (1, 0, 3));
    assert_eq!(ids(r#"{"model":"m","prompt":[[1,2],[3],[]]}"#), (3, 0, 3));
    assert_eq!(ids(r#"{"model":"m","prompt":[]}"#), (1, 0, 0));
    assert_eq!(ids(r#"{"model":"m","prompt":[null,{"a":[1]},true]}"#), (1, 0, 0));
    let hash = |prompt: &str| {
        good(Api::Completions, &format!(r#"{{"model":"m","prompt":{prompt}}}"#)).prompt_head_hash
    };
    assert_eq!(hash("[1,2]"), xxh3_64(&[1, 0, 0, 0, 2, 0, 0, 0]));
    assert_eq!(hash("[1,2]"), hash("[ 1.0 , 2 ]"));
    assert_ne!(hash("[1,2]"), hash("[1,3]"));
    assert_ne!(hash(r#"["ab","c"]"#), hash(r#"["a","bc"]"#));
    let many: Vec<u32> = (0..5000).collect();
    assert_eq!(ids(&json!({"model": "m", "prompt": many}).to_string()), (1, 0, 5000));
}

#[test]
fn b35_the_hash_sees_text_not_spelling() {
    let hash = |content: &str| {
        good(Api::Chat, &format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]}}"#))
            .prompt_head_hash
    };
    let plain = hash(r#""caf\u00e9 \"x\"""#);
    for same in [
        r#""café \u0022x\"""#,
        r#"[{"type":"text","text":"café \"x\""}]"#,
        r#"[ {"text":"caf\u00E9 \"x\"" , "type":"text"} ]"#,
        r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"café \"x\""}]"#,
        r#"[{"type":"text","text":"café "},{"type":"text","text":"\"x\""}]"#,
    ] {
        assert_eq!(hash(same), plain, "{same}");
    }
    assert_ne!(hash(r#""cafe \"x\"""#), plain);
    assert_ne!(hash(r#""a\ud83d""#), hash(r#""a\ud83e""#));
    // Beyond the head the text does not matter.
    let long = |end: &str| hash(&format!("\"{}{end}\"", "a".repeat(1024)));
    assert_eq!(long("x"), long("y"));
    let nearly = |end: &str| hash(&format!("\"{}{end}\"", "a".repeat(1023)));
    assert_ne!(nearly("x"), nearly("y"));
    assert_eq!(nearly("é"), nearly("ê"), "the head ends within a character");
}

#[test]
fn b35_system_text_comes_first_wherever_its_key_stands() {
    let first = good(
        Api::Messages,
        r#"{"model":"m","system":[{"type":"text","text":"be brief"}],"messages":[{"role":"user","content":"hi"}]}"#,
    );
    let last = good(
        Api::Messages,
        r#"{"model":"m","messages":[{"content":"hi","role":"user"}],"system":"be brief"}"#,
    );
    let chat = good(
        Api::Chat,
        r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}"#,
    );
    assert_eq!(first.prompt_head_hash, last.prompt_head_hash);
    assert_eq!(first.prompt_head_hash, chat.prompt_head_hash);
    assert_eq!(first.prompt_bytes, 10);
    let responses = good(
        Api::Responses,
        r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"instructions":"be brief"}"#,
    );
    assert_eq!(responses.prompt_head_hash, first.prompt_head_hash);
    let text = good(Api::Responses, r#"{"model":"m","input":"hi","instructions":"be brief"}"#);
    assert_eq!(text.prompt_head_hash, first.prompt_head_hash);
}

#[test]
fn b35_tools_images_and_odd_shapes_are_tolerated() {
    let image = format!("data:image/png;base64,{}", "A".repeat(300_000));
    let arguments = json!({"query": "x\"y".repeat(5_000)}).to_string();
    let body = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "sys"}]},
            {"role": "user", "name": "nn", "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": image, "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "QUFB", "format": "wav"}},
                {"type": "video_url", "video_url": {"url": image}},
                {"type": "new_kind", "blob": image},
                "bare", 7, null, [["deep"]],
            ]},
            {"role": "assistant", "content": null, "refusal": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f1", "arguments": arguments}},
                {"id": "c2", "type": "function", "function": {"name": "f2", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "result"}]},
            {"role": "assistant", "reasoning_content": "hmm", "content": {"odd": "shape"}},
            "message", 1, [], null,
        ],
        "n": 2,
        "tools": [{"type": "function", "function": {"name": "f1"}}],
    });
    let scan = good(Api::Chat, &body.to_string());
    assert_eq!(scan.choices, 2);
    let texts = [
        "sys", "nn", "look", "bare", "deep", "f1", &arguments, "f2", "{}", "result", "hmm", "shape",
        "message",
    ];
    let tools = body["tools"].to_string();
    let expected: usize = texts.iter().map(|t| t.len()).sum::<usize>() + tools.len();
    assert_eq!(scan.prompt_bytes, expected);
}

#[test]
fn splicing_changes_the_model_and_nothing_else() {
    let body = r#"{ "messages":[{"role":"user","content":"tide-7b"}] , "model" : "\u0074ide-7b" ,"seed":9007199254740993}"#;
    let scan = good(Api::Chat, body);
    let new = "tide \"α\"\n2";
    let out = splice_model(body.as_bytes(), &scan, new);
    let expected = body.replace(r#""\u0074ide-7b""#, r#""tide \"α\"\n2""#);
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let parts = splice_model_parts(&bytes::Bytes::from(body), &scan, new);
    assert_eq!(parts.concat(), expected.as_bytes());
    assert_eq!(serde_json::from_str::<Value>(&expected).unwrap()["model"], new);
    // The scan of another body does no harm.
    assert_eq!(splice_model(b"{}", &scan, new), b"{}");
}
