//! Which prompts have equal blocks, and which have not.

use serde_json::json;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::*;

fn good(api: Api, body: &str) -> Scan {
    match scan_json(api, body.as_bytes()) {
        Ok(scan) => scan,
        Err(e) => panic!("{e} in {body}"),
    }
}

/// The scan of a body in which `PAD` stands for a text that fills blocks, so that
/// all that is rendered before is in one.
fn padded(api: Api, body: &str) -> Scan {
    assert!(body.contains("PAD"), "nothing would be compared: {body}");
    let scan = good(api, &body.replace("PAD", &"pad ".repeat(150)));
    assert!(scan.text_blocks.len() >= 2, "{body}");
    assert_eq!(scan.text_blocks.len(), scan.rendered_bytes / BLOCK_BYTES);
    scan
}

#[track_caller]
fn same(api: Api, bodies: &[&str]) {
    let first = padded(api, bodies[0]);
    for body in &bodies[1..] {
        let scan = padded(api, body);
        assert_eq!(scan.text_blocks, first.text_blocks, "{body}\n{}", bodies[0]);
        assert_eq!(scan.rendered_bytes, first.rendered_bytes, "{body}\n{}", bodies[0]);
    }
}

#[track_caller]
fn all_different(api: Api, bodies: &[&str]) {
    for (nth, body) in bodies.iter().enumerate() {
        for other in &bodies[..nth] {
            assert_ne!(padded(api, body).text_blocks, padded(api, other).text_blocks, "{body}\n{other}");
        }
    }
}

/// The blocks of a text that is rendered already.
fn blocks(text: &[u8]) -> Vec<u64> {
    text.as_chunks::<BLOCK_BYTES>().0.iter().map(|block| xxh3_64(block)).collect()
}

#[test]
fn the_bytes_of_a_conversation() {
    let (question, answer) = ("How deep? ".repeat(40), "Deep. ".repeat(60));
    let body = json!({
        "model": "m",
        "messages": [
            {"role": "user", "content": question},
            {"content": null, "role": "assistant", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "depth", "arguments": "{\"at\":1}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": answer}]},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:,x"}}, {"type": "text", "text": question},
            ]},
        ],
        "tools": [{"type": "function", "function": {"name": "depth", "strict": true, "max": [1, null]}}],
    });
    let media = xxh3_64_with_seed(b"data:,x", 0).to_le_bytes();
    let expected = [
        &b"\xf6\xf9\xfcfunction\xf9\xfcmax\xf8\xfa1\xfanull\xf7\xfcname\xfbdepth\xfcstrict\xfatrue\xf7"[..],
        b"\xfctype\xfbfunction\xf7",
        b"\xffuser\xfe",
        question.as_bytes(),
        b"\xffassistant\xfctool_calls\xf8\xf9\xfcfunction\xf9\xfcarguments\xfb{\"at\":1}\xfcname\xfbdepth\xf7\xf7\xf7",
        b"\xfftool\xfe",
        answer.as_bytes(),
        b"\xffuser\xfd",
        &media,
        b"\xfe",
        question.as_bytes(),
    ]
    .concat();
    let scan = good(Api::Chat, &body.to_string());
    assert_eq!(scan.rendered_bytes, expected.len());
    assert_eq!(scan.text_blocks, blocks(&expected));
}

#[test]
fn plain_prompts_are_their_text() {
    for (api, field) in [(Api::Completions, "prompt"), (Api::Embeddings, "input"), (Api::Other, "input")] {
        let text = "water over the weir, ".repeat(100);
        let scan = good(api, &json!({"model": "m", field: text}).to_string());
        assert_eq!((scan.text_blocks, scan.rendered_bytes), (blocks(text.as_bytes()), text.len()));
        // Only the first of many counts.
        let many = good(api, &json!({"model": "m", field: [text, "another", [1, 2], 3]}).to_string());
        assert_eq!((many.text_blocks, many.rendered_bytes), (blocks(text.as_bytes()), text.len()));
        assert_eq!(many.token_ids_span, None);
    }
    let form = format!(
        "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n{}\r\n--b--\r\n",
        "x".repeat(300)
    );
    let scan = scan_multipart("multipart/form-data; boundary=b", form.as_bytes()).unwrap();
    assert_eq!((scan.text_blocks, scan.rendered_bytes), (blocks(&[b'x'; 300]), 300));
}

#[test]
fn token_ids_are_four_bytes_each() {
    let ids: Vec<u32> = (0..200).map(|i| i * 7919 % 128_000).collect();
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    for (prompt, first) in [
        (json!(ids), ids.clone()),
        (json!([ids, [1, 2, 3]]), ids.clone()),
        (json!([ids, "text", 7]), ids.clone()),
    ] {
        let body = json!({"model": "m", "n": 1, "prompt": prompt}).to_string();
        let scan = good(Api::Completions, &body);
        assert_eq!((&scan.text_blocks, scan.rendered_bytes), (&blocks(&bytes), bytes.len()), "{body}");
        assert_eq!(token_ids(body.as_bytes(), scan.token_ids_span.unwrap()), Some(first), "{body}");
    }
    let read = |prompt: &str| {
        let body = format!(r#"{{"model":"m","prompt": {prompt} }}"#);
        token_ids(body.as_bytes(), good(Api::Completions, &body).token_ids_span?)
    };
    assert_eq!(read("[ 1.0 ,2e1, 4294967296 ]"), Some(vec![1, 20, u32::MAX]));
    assert_eq!(read("[[5]]"), Some(vec![5]));
    for none in ["[]", "[[]]", "\"1\"", "[\"a\",1]", "[[\"a\",1]]", "[1,\"a\"]", "[-1]", "[1.5]", "[[1,[2]]]"]
    {
        assert_eq!(read(none), None, "{none}");
    }
    // The place in another body does no harm.
    for span in [0..0, 0..3, 1..100, 50..60] {
        assert_eq!(token_ids(b"{}x", span), None);
    }
    assert_eq!(good(Api::Responses, r#"{"model":"m","input":[1,2]}"#).token_ids_span, None);
    // The prompt goes before the input, as it is rendered.
    let both = r#"{"model":"m","input":[3,4],"prompt":[1,2]}"#;
    assert_eq!(token_ids(both.as_bytes(), good(Api::Other, both).token_ids_span.unwrap()), Some(vec![1, 2]));
}

#[test]
fn spelling_and_top_level_order_change_nothing() {
    same(
        Api::Chat,
        &[
            r#"{"model":"m","tools":[{"type":"function","n":1}],"messages":[{"role":"user","content":"café \"x\" PAD"}]}"#,
            r#"{"messages":[{"role":"user","content":"café \"x\" PAD"}],"model":"m","tools":[{"type":"function","n":1}]}"#,
            "{\"tools\" : [ {\"type\":\"\\u0066unction\" ,\n\"\\u006e\": 1 }],\"messages\":\t[{\"role\":\"us\\u0065r\",\"content\":\"caf\\u00e9 \\u0022x\\\" PAD\"}],\"model\":\"m\"}",
            r#"{"model":"m","tools":[{"type":"function","n":1}],"messages":[{"content":"café \"x\" PAD","role":"user"}]}"#,
            r#"{"model":"m","tools":[{"type":"function","n":1,"cache_control":{"type":"x"}}],"messages":[{"content":[{"text":"café \"x\" PAD","type":"text"}],"role":"user"}]}"#,
            r#"{"stream":true,"model":"other","tools":[{"type":"function","n":1}],"messages":[{"role":"user","content":[{"type":"text","text":"café \"x\" PAD","cache_control":{"type":"ephemeral"}}]}],"user":"u","cache_salt":"s"}"#,
        ],
    );
    same(
        Api::Messages,
        &[
            r#"{"model":"m","system":"be brief","tools":[{"name":"f"}],"messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"PAD"}],"system":"be brief","tools":[{"name":"f"}]}"#,
            r#"{"tools":[{"name":"f"}],"messages":[{"role":"user","content":"PAD"}],"system":[{"type":"text","text":"be brief"}],"model":"m"}"#,
        ],
    );
    same(
        Api::Responses,
        &[
            r#"{"model":"m","instructions":"be brief","input":"PAD"}"#,
            r#"{"model":"m","input":"PAD","instructions":"be brief"}"#,
            r#"{"model":"m","input":[{"role":"user","content":"PAD"}],"instructions":"be brief","tools":[]}"#,
            r#"{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"PAD"}]}],"instructions":"be brief","tools":null}"#,
        ],
    );
    // Where the end of a long body says that more is to come.
    let long = "x ".repeat(5000);
    for later in [r#""tools":[{"name":"f"}]"#, r#""tools": [{"name":"f"}]"#] {
        same(
            Api::Chat,
            &[
                &format!(r#"{{"model":"m",{later},"messages":[{{"role":"user","content":"{long}PAD"}}]}}"#),
                &format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{long}PAD"}}],{later}}}"#),
            ],
        );
    }
    // A wrong guess costs time, nothing else.
    same(
        Api::Chat,
        &[
            &format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{long}PAD"}}]}}"#),
            &format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"{long}PAD"}}],"x":{{"tools":1}}}}"#
            ),
            &format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{long}PAD"}}],"tools":null}}"#),
        ],
    );
}

#[test]
fn apis_of_one_engine_share_prompts() {
    let chat = padded(
        Api::Chat,
        r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"PAD"}]}"#,
    );
    for (api, body) in [
        (Api::Messages, r#"{"model":"m","messages":[{"role":"user","content":"PAD"}],"system":"be brief"}"#),
        (
            Api::CountTokens,
            r#"{"model":"m","messages":[{"role":"user","content":"PAD"}],"system":"be brief"}"#,
        ),
        (Api::Responses, r#"{"model":"m","input":"PAD","instructions":"be brief"}"#),
    ] {
        assert_eq!(padded(api, body).text_blocks, chat.text_blocks, "{body}");
    }
}

#[test]
fn what_is_absent_is_not_rendered() {
    same(
        Api::Chat,
        &[
            r#"{"model":"m","messages":[{"role":"assistant","content":"a"},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"assistant","content":"a","refusal":null,"audio":null,"tool_calls":null,"id":"x"},{"role":"user","content":[{"text":""},{"text":"PAD"}]}],"tools":null}"#,
        ],
    );
    same(
        Api::Chat,
        &[
            r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","index":null,"function":{"name":"f","arguments":null}}]},{"role":"user","content":"PAD"}]}"#,
        ],
    );
    same(
        Api::Messages,
        &[
            r#"{"model":"m","messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"PAD"}],"system":null,"tools":[]}"#,
            r#"{"model":"m","system":"","messages":[{"role":"user","content":"PAD"}]}"#,
        ],
    );
}

#[test]
fn shapes_are_told_apart() {
    all_different(
        Api::Chat,
        &[
            r#"{"model":"m","messages":[{"role":"user","content":"ab"},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"system","content":"ab"},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"abPAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"bPAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"usera","content":"b"},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":[{"text":"a"},{"text":"b"}]},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","name":"ab"},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","name":"a","content":"b"},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","reasoning_content":"ab"},{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","tools":[{"name":"ab"}],"messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","tools":[{"na":"meab"}],"messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","tools":[{"name":["ab"]}],"messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","tools":[{"name":"a","b":{}}],"messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","tools":[{"name":"a"},{"b":{}}],"messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","tools":[{"name":1}],"messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","tools":[{"name":"1"}],"messages":[{"role":"user","content":"PAD"}]}"#,
            r#"{"model":"m","tools":[{"name":null}],"messages":[{"role":"user","content":"PAD"}]}"#,
        ],
    );
}

#[test]
fn tool_calls_and_results_count() {
    let chat = |name: &str, arguments: &str, result: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"assistant","tool_calls":[{{"id":"c","function":{{"name":"{name}","arguments":{arguments}}}}}]}},{{"role":"tool","tool_call_id":"c","content":"{result}"}},{{"role":"user","content":"PAD"}}]}}"#
        )
    };
    all_different(
        Api::Chat,
        &[
            &chat("f", r#""{\"url\":1}""#, "r"),
            &chat("g", r#""{\"url\":1}""#, "r"),
            &chat("f", r#""{\"url\":2}""#, "r"),
            &chat("f", r#""{\"url\":1}""#, "s"),
            // Arguments as an object are the caller's own, whatever their keys.
            &chat("f", r#"{"url":1,"type":"a"}"#, "r"),
            &chat("f", r#"{"url":1,"type":"b"}"#, "r"),
            &chat("f", r#"{"url":1,"id":{"type":"b"}}"#, "r"),
        ],
    );
    let claude = |input: &str, result: &str| {
        format!(
            r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"f","input":{input}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":{result}}}]}},{{"role":"user","content":"PAD"}}]}}"#
        )
    };
    all_different(
        Api::Messages,
        &[
            &claude(r#"{"source":"a"}"#, r#""r""#),
            &claude(r#"{"source":"b"}"#, r#""r""#),
            &claude(r#"{"source":"a"}"#, r#""s""#),
            &claude(
                r#"{"source":"a"}"#,
                r#"[{"type":"text","text":"r"},{"type":"image","source":{"data":"AA"}}]"#,
            ),
            &claude(
                r#"{"source":"a"}"#,
                r#"[{"type":"text","text":"r"},{"type":"image","source":{"data":"AB"}}]"#,
            ),
        ],
    );
    same(
        Api::Messages,
        &[
            &claude(r#"{"source":"a"}"#, r#""r""#),
            &claude(r#"{"source":"\u0061"}"#, r#"[{"type":"text","text":"r","cache_control":{}}]"#),
        ],
    );
    let items = |call: &str| format!(r#"{{"model":"m","input":[{call},{{"role":"user","content":"PAD"}}]}}"#);
    all_different(
        Api::Responses,
        &[
            &items(r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#),
            &items(r#"{"type":"function_call","call_id":"c","name":"f","arguments":"[]"}"#),
            &items(r#"{"type":"function_call","call_id":"c","name":"g","arguments":"{}"}"#),
            &items(r#"{"type":"function_call_output","call_id":"c","output":"{}"}"#),
            &items(r#"{"type":"function_call_output","call_id":"c","output":"f"}"#),
            &items(r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"f"}]}"#),
            &items(r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"f"}]}"#),
        ],
    );
    same(
        Api::Responses,
        &[
            &items(
                r#"{"type":"function_call","id":"1","call_id":"c","name":"f","arguments":"{}","status":"completed"}"#,
            ),
            &items(r#"{"name":"f","arguments":"{}","call_id":"d","type":"function_call"}"#),
        ],
    );
}

#[test]
fn media_match_themselves_and_nothing_else() {
    let part = |part: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{part},{{"type":"text","text":"PAD"}}]}}]}}"#
        )
    };
    let url = "data:image\\/png;base64,AAAA\\/BBBB";
    let plain = url.replace('\\', "");
    let parts = [
        part(&format!(r#"{{"type":"image_url","image_url":{{"url":"{plain}"}}}}"#)),
        part(r#"{"type":"image_url","image_url":{"url":"https://e.example/1.png"}}"#),
        part(r#"{"type":"image_url","image_url":{"url":"https://e.example/2.png"}}"#),
        part(r#"{"type":"image_url","image_url":{"url":"https://e.example/2.png","detail":"low"}}"#),
        part(r#"{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}"#),
        part(r#"{"type":"input_audio","input_audio":{"data":"AAAB","format":"wav"}}"#),
        part(r#"{"type":"file","file":{"file_data":"AAAA","filename":"a.pdf"}}"#),
        part(r#"{"type":"video_url","video_url":{"url":"https://e.example/1.mp4"}}"#),
        part(r#"{"type":"new_kind","blob":"data:a/b,1"}"#),
        part(r#"{"type":"new_kind","blob":"data:a/b,2"}"#),
        part(r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}"#),
        part(r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAB"}}"#),
        part(r#"{"type":"x","image_embeds":[1,2]}"#),
        part(r#"{"type":"x","image_embeds":[2,1]}"#),
        part(r#"{"type":"x","image_embeds":[true]}"#),
        part(r#"{"type":"x","image_embeds":[false]}"#),
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    all_different(Api::Chat, &parts);
    same(
        Api::Chat,
        &[
            parts[0],
            &part(&format!(r#"{{ "image_url":{{"url":"{url}"}} , "type":"image_url","image_url":null}}"#)),
            &part(&format!(r#"{{"type":"input_image","image_url":"{plain}","detail":"auto"}}"#)),
        ],
    );
    // A picture is a few bytes, however large.
    let big = part(&format!(r#"{{"image_url":"{}"}}"#, "A".repeat(100_000)));
    assert!(padded(Api::Chat, &big).rendered_bytes < 1000);
}

#[test]
fn a_turn_begins_with_the_turn_before() {
    let turn = |texts: &[String]| {
        let messages: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(nth, text)| {
                let role = ["user", "assistant"][nth % 2];
                // As some clients do: the last message is marked for the cache.
                if nth + 1 == texts.len() {
                    json!({"role": role, "content": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]})
                } else {
                    json!({"role": role, "content": text})
                }
            })
            .collect();
        good(Api::Messages, &json!({"model": "m", "system": "s", "messages": messages}).to_string())
    };
    let texts: Vec<String> = (0..7).map(|nth| format!("{nth} é\n").repeat(100 + nth)).collect();
    let mut before = turn(&texts[..1]);
    for end in 2..7 {
        let now = turn(&texts[..end]);
        assert!(now.text_blocks.starts_with(&before.text_blocks));
        assert!(now.rendered_bytes > before.rendered_bytes);
        before = now;
    }
}

#[test]
fn salts() {
    let salt = |fields: &str| good(Api::Other, &format!(r#"{{"model":"m"{fields}}}"#)).cache_salt;
    assert_eq!(salt(""), None);
    assert_eq!(salt(r#","cache_salt":"a\u0062""#), Some(xxh3_64(b"ab")));
    // Nothing about it is a reason to refuse; engines take the last.
    for odd in ["null", "1", "[\"a\"]", "{\"a\":{}}", "true"] {
        assert_eq!(salt(&format!(r#","cache_salt":{odd}"#)), None, "{odd}");
        assert_eq!(salt(&format!(r#","cache_salt":{odd},"cache_salt":"ab""#)), Some(xxh3_64(b"ab")));
    }
    for api in [Api::Chat, Api::Messages] {
        let body = r#"{"model":"m","messages":[],"cache_salt":"ab"}"#;
        assert_eq!(good(api, body).cache_salt, Some(xxh3_64(b"ab")));
    }
}

#[test]
fn what_has_no_prompt_has_no_blocks() {
    for (api, body) in [
        (Api::Rerank, r#"{"model":"m","query":"PAD","documents":["PAD"]}"#),
        (Api::Score, r#"{"model":"m","text_1":"PAD","text_2":["PAD"]}"#),
        (Api::Completions, r#"{"model":"m","prompt_embeds":"PAD"}"#),
        (Api::Other, r#"{"model":"m","x":"PAD"}"#),
    ] {
        let scan = good(api, &body.replace("PAD", &"pad ".repeat(150)));
        assert_eq!((scan.text_blocks, scan.rendered_bytes), (vec![], 0), "{body}");
    }
}
