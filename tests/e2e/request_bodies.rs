//! Request bodies: bounded, read for what routing needs, and sent on as they are.

use std::time::Duration;

use forebay_tests::backend::{Gate, Step};
use forebay_tests::bodies::{CHAT, DONE, OK_JSON, OK_SSE, chunk, json, ok_json, polite, stream, usage};
use forebay_tests::client::{self, End};
use forebay_tests::http1;

use crate::common::{openai_error, through, through_with};

const MIB: usize = 1 << 20;

/// A chat request of exactly `size` bytes, its `model` the first or the last key.
fn chat_of(size: usize, model_last: bool) -> Vec<u8> {
    let (head, tail): (&[u8], &[u8]) = if model_last {
        (br#"{"messages":[{"role":"user","content":""#, br#""}],"model":"tide-7b"}"#)
    } else {
        (br#"{"model":"tide-7b","messages":[{"role":"user","content":""#, br#""}]}"#)
    };
    let mut body = Vec::with_capacity(size);
    body.extend_from_slice(head);
    // Text with the characters that make scanners stumble.
    let filler = br#"tide \"7b\", {\"model\":\"reef\"} \\ "#;
    while body.len() + filler.len() <= size - tail.len() {
        body.extend_from_slice(filler);
    }
    body.resize(size - tail.len(), b'x');
    body.extend_from_slice(tail);
    body
}

#[tokio::test]
async fn b31_configured_limit_is_exact_on_every_path() {
    const LIMIT: usize = 32 * MIB;
    let (backend, gateway) = through_with("limits: {body: 32MiB}", polite).await;
    for (n, size) in [LIMIT - 1, LIMIT].into_iter().enumerate() {
        let body = chat_of(size, false);
        assert_eq!(gateway.post(CHAT, &body).await.status(), 200, "{size} bytes");
        assert!(backend.request(n).await.body == body, "{size} bytes were changed");
    }
    let over = chat_of(LIMIT + 1, false);
    for path in [CHAT, "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/rerank"] {
        // By its stated length: refused at once, without the body.
        let mut client = gateway.connect().await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            over.len()
        );
        client.send(head.as_bytes()).await;
        openai_error(&client.response().await, 413);
        assert!(client.closes_within(Duration::from_secs(10)).await, "{path}: kept open with a body to come");
    }
    gateway.wait_metric("forebay_rejected_total", &[("reason", "body_too_large")], 5.0).await;
    // Without a stated length: when the bytes are there.
    let mut client = gateway.connect().await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n");
    let _ = client.try_send(&[head.as_bytes(), &http1::chunked(&over, 64 << 10)].concat()).await;
    openai_error(&client.response().await, 413);
    assert_eq!(backend.count(), 2);
    gateway.wait_idle().await;
}

#[tokio::test]
async fn b31_a_client_that_sends_its_too_large_body_all_the_same_gets_the_answer() {
    // A close with unread bytes becomes a reset, which would take the answer away.
    let (_backend, gateway) = through_with("limits: {body: 1MiB}", polite).await;
    let body = chat_of(MIB + MIB / 2, false);
    for _ in 0..5 {
        let mut client = gateway.connect().await;
        let _ = client.try_send(&http1::post(CHAT, &body)).await;
        openai_error(&client.response().await, 413);
    }
}

#[tokio::test]
async fn b31_default_limit_is_64_mib() {
    const LIMIT: usize = 64 * MIB;
    let (backend, gateway) = through(polite).await;
    let mut client = gateway.connect().await;
    client
        .send(format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Length: {}\r\n\r\n", LIMIT + 1).as_bytes())
        .await;
    openai_error(&client.response().await, 413);
    assert_eq!(backend.count(), 0);
    let body = chat_of(LIMIT, true);
    assert_eq!(gateway.post(CHAT, &body).await.status(), 200);
    assert!(backend.request(0).await.body == body);
}

#[tokio::test]
async fn b31_model_behind_ten_megabytes_of_messages() {
    let (backend, gateway) = through(polite).await;
    let body = chat_of(10 * MIB, true);
    assert_eq!(gateway.post(CHAT, &body).await.status(), 200);
    assert!(backend.request(0).await.body == body);
    // The same in chunks of 1 KiB.
    let mut client = gateway.connect().await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(&[head.as_bytes(), &http1::chunked(&body, 1024)].concat()).await;
    assert_eq!(client.response().await.status(), 200);
    assert!(backend.request(1).await.body == body);
    assert_eq!(backend.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn b31_a_slow_body_arrives_whole_and_holds_nobody_up() {
    // 100 KB/s, scaled down from 10 MiB to 200 KB; others are served meanwhile.
    let (backend, gateway) = through(polite).await;
    let body = chat_of(200_000, true);
    let mut slow = gateway.connect().await;
    let bytes = http1::post(CHAT, &body);
    let others = async {
        for _ in 0..20 {
            assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::join!(slow.send_segments(bytes.chunks(2000), Duration::from_millis(20)), others);
    assert_eq!(slow.response().await.status(), 200);
    assert!(backend.requests().iter().any(|r| r.body == body));
}

#[tokio::test]
async fn b31_answer_of_eight_mebibytes_passes() {
    let mut big = br#"{"object":"list","model":"tide-7b","data":[{"embedding":""#.to_vec();
    big.resize(8 * MIB, b'A');
    big.extend_from_slice(br#""}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#);
    let answer = big.clone();
    let (_backend, gateway) = through(move |_| json("200 OK", &answer)).await;
    let response = gateway.post("/v1/embeddings", br#"{"model":"tide-7b","input":"hi"}"#).await;
    assert!(response.is_complete() && response.body == big);
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 5.0).await;
}

#[tokio::test]
async fn b31_memory_is_one_copy_of_each_body() {
    // 64 clients at once, with 2 MiB each where the entry has 10.
    const SIZE: usize = 2 * MIB;
    let gate = Gate::default();
    let held = gate.clone();
    let (backend, gateway) = through(move |_| [vec![Step::Wait(held.clone())], ok_json()].concat()).await;
    gateway.post("/v1/nope", b"{}").await;
    let base = gateway.resident_bytes();
    let request = http1::post(CHAT, &chat_of(SIZE, true));
    let mut clients = Vec::new();
    for _ in 0..64 {
        let mut client = gateway.connect().await;
        client.send(&request).await;
        clients.push(client);
    }
    backend.request(63).await;
    let grown = gateway.resident_bytes().saturating_sub(base);
    let bound = 64 * SIZE as u64 * 3 / 2 + (32 << 20);
    assert!(grown < bound, "64 bodies of {SIZE} bytes took {grown} bytes");
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().await.status(), 200);
    }
    gateway.wait_idle().await;
}

#[tokio::test]
async fn b32_what_is_not_json_is_400_and_reaches_nobody() {
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("cut", br#"{"model":"tide-7b""#.to_vec()),
        ("byte ff", b"\xff".to_vec()),
        ("array", b"[]".to_vec()),
        ("string", br#""x""#.to_vec()),
        ("empty", Vec::new()),
        ("blanks", b" \n ".to_vec()),
        ("2,000 brackets", vec![b'['; 2_000]),
        ("200,000 brackets", vec![b'['; 200_000]),
        (
            "200,000 brackets in a field",
            [br#"{"model":"tide-7b","x":"#.as_slice(), &[b'['; 200_000]].concat(),
        ),
        (
            "NaN",
            br#"{"model":"tide-7b","temperature":NaN,"messages":[{"role":"user","content":"hi"}]}"#.to_vec(),
        ),
        (
            "Infinity",
            br#"{"model":"tide-7b","x":-Infinity,"messages":[{"role":"user","content":"hi"}]}"#.to_vec(),
        ),
        ("trailing comma", br#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],}"#.to_vec()),
        ("two values", [OK_JSON, OK_JSON].concat()),
        (
            "leading zero",
            br#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"seed":01}"#.to_vec(),
        ),
        (
            "bare control character",
            b"{\"model\":\"tide-7b\",\"messages\":[{\"role\":\"user\",\"content\":\"a\nb\"}]}".to_vec(),
        ),
        (
            "raw byte ff in text",
            b"{\"model\":\"tide-7b\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}".to_vec(),
        ),
        (
            "raw surrogate in text",
            b"{\"model\":\"tide-7b\",\"messages\":[{\"role\":\"user\",\"content\":\"\xed\xa0\x80\"}]}"
                .to_vec(),
        ),
        ("NUL byte behind", [OK_JSON, b"\0"].concat()),
    ];
    let (backend, gateway) = through(polite).await;
    let rows_sent = rows.len();
    for (name, body) in rows {
        let response = gateway.post(CHAT, &body).await;
        openai_error(&response, 400);
        assert_eq!(response.json()["error"]["type"], "invalid_request_error", "{name}");
    }
    assert_eq!(backend.count(), 0);
    gateway.wait_metric("forebay_rejected_total", &[("reason", "bad_request")], rows_sent as f64).await;
    assert_eq!(gateway.metric("forebay_endpoint_state", &[("state", "ready")]).await, 1.0);
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
}

#[tokio::test]
async fn b32_byte_order_mark_is_either_refused_or_kept() {
    let (backend, gateway) = through(polite).await;
    let body = [b"\xef\xbb\xbf".as_slice(), OK_JSON].concat();
    let response = gateway.post(CHAT, &body).await;
    if response.status() == 200 {
        assert_eq!(backend.request(0).await.body, body);
    } else {
        openai_error(&response, 400);
        assert_eq!(backend.count(), 0);
    }
}

#[tokio::test]
async fn b32_legal_json_arrives_unchanged() {
    let message = r#""messages":[{"role":"user","content":"hi"}]"#;
    let deep =
        |n: usize| format!(r#"{{"model":"tide-7b",{message},"x":{}{}}}"#, "[".repeat(n), "]".repeat(n));
    let rows: Vec<String> = vec![
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"half \ud83d"}]}"#.into(),
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"x \ude00"}]}"#.into(),
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"a\u0000b"}]}"#.into(),
        format!(r#"{{"model":"tide-7b",{message},"seed":9007199254740993}}"#),
        format!(
            r#"{{"model":"tide-7b",{message},"seed":1e400,"a":-1E-400,"b":123456789012345678901234567890}}"#
        ),
        format!(r#"{{"model":"tide-7b",{message},"temperature":0.1000000000000000055}}"#),
        format!(r#"{{"model":"tide-7b",{message},"seed":-0}}"#),
        format!(r#"{{"model":"\u0074ide-7b",{message}}}"#),
        format!(r#"{{"mod\u0065l":"tide-7b",{message}}}"#),
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"\/path\/ \u00e9 é"}]}"#.into(),
        format!(
            "{{  \"zeta\" : 1 ,\r\n\t{message} , \"model\":\"tide-7b\",\"alpha\":{{\"b\":1,\"a\":2}} }}  \n"
        ),
        format!(r#"{{"x":{{"model":"nested"}},{message},"y":["model","nope"],"model":"tide-7b"}}"#),
        // A key that routing does not read may come twice; that is the engine's to judge.
        format!(r#"{{"model":"tide-7b",{message},"top_p":1,"top_p":0.5}}"#),
        deep(100),
    ];
    let (backend, gateway) = through(polite).await;
    for (n, body) in rows.iter().enumerate() {
        let response = gateway.post(CHAT, body.as_bytes()).await;
        assert_eq!(response.status(), 200, "{body}: {}", response.text());
        assert_eq!(String::from_utf8_lossy(&backend.request(n).await.body), *body);
    }
    // Very deep nesting may be refused, and may not be changed.
    for depth in [2_000, 200_000] {
        let before = backend.count();
        let body = deep(depth);
        let response = gateway.post(CHAT, body.as_bytes()).await;
        if response.status() == 200 {
            assert!(backend.request(before).await.body == body.as_bytes());
        } else {
            openai_error(&response, 400);
        }
    }
}

#[tokio::test]
async fn b32_model_name_with_a_nul_is_another_model() {
    let (backend, gateway) = through(polite).await;
    let body = br#"{"model":"tide-7b\u0000","messages":[{"role":"user","content":"hi"}]}"#;
    let response = gateway.post(CHAT, body).await;
    openai_error(&response, 404);
    assert_eq!(response.json()["error"]["code"], "model_not_found");
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn b32_routing_key_that_comes_twice_is_400() {
    let message = r#""messages":[{"role":"user","content":"hi"}]"#;
    let (backend, gateway) = through(polite).await;
    for (body, key) in [
        (format!(r#"{{"model":"tide-7b",{message},"model":"reef"}}"#), "model"),
        (format!(r#"{{"model":"tide-7b",{message},"mod\u0065l":"tide-7b"}}"#), "model"),
        (format!(r#"{{"model":"tide-7b",{message},"stream":false,"str\u0065am":true}}"#), "stream"),
        (format!(r#"{{"model":"tide-7b",{message},{message}}}"#), "messages"),
        (format!(r#"{{"model":"tide-7b",{message},"max_tokens":1,"max_tokens":2}}"#), "max_tokens"),
        (format!(r#"{{"model":"tide-7b",{message},"model":null}}"#), "model"),
    ] {
        let why = openai_error(&gateway.post(CHAT, body.as_bytes()).await, 400);
        assert!(why.contains(key), "{body}: {why}");
    }
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn b34_null_is_absent_and_extras_pass() {
    let rows = [
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"stream":null,"logprobs":null,"max_tokens":null,"n":null,"user":null,"stop":null,"stream_options":null,"tools":null}"#,
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"max_tokens":100,"max_completion_tokens":50}"#,
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"min_p":0.05,"vllm_xargs":{"a":[1]},"chat_template_kwargs":{"enable_thinking":false}}"#,
        // Numbers are of the right type; whether they make sense is the engine's to judge.
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"max_tokens":0}"#,
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"max_tokens":9223372036854775808}"#,
        r#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"max_tokens":1e999}"#,
    ];
    let (backend, gateway) = through(polite).await;
    for (n, body) in rows.iter().enumerate() {
        let response = gateway.post(CHAT, body.as_bytes()).await;
        assert_eq!(response.status(), 200, "{body}: {}", response.text());
        assert_eq!(String::from_utf8_lossy(&backend.request(n).await.body), *body);
    }
    // Nothing is left over from odd token limits.
    gateway.wait_idle().await;
    for sample in forebay_tests::exposition::parse(&gateway.metrics().await) {
        assert!(sample.value >= 0.0 && sample.value < 1e15, "{sample:?}");
    }
}

#[tokio::test]
async fn b34_wrong_types_of_what_routing_reads_are_400_and_named() {
    let message = r#""messages":[{"role":"user","content":"hi"}]"#;
    let chat = |field: &str| format!(r#"{{"model":"tide-7b",{message},{field}}}"#);
    let rows: Vec<(&str, String, &str)> = vec![
        (CHAT, chat(r#""stream":"true""#), "stream"),
        (CHAT, chat(r#""stream":1"#), "stream"),
        (CHAT, chat(r#""max_tokens":"64""#), "max_tokens"),
        (CHAT, chat(r#""max_completion_tokens":"64""#), "max_completion_tokens"),
        (CHAT, chat(r#""max_tokens":[1]"#), "max_tokens"),
        // A limit that cannot be one: it must not reach the arithmetic.
        (CHAT, chat(r#""max_tokens":-1"#), "max_tokens"),
        (CHAT, chat(r#""model":"""#).replacen(r#""model":"tide-7b","#, "", 1), "model"),
        (CHAT, chat(r#""n":"2""#), "n"),
        (CHAT, format!("{{{message}}}"), "model"),
        (CHAT, format!(r#"{{"model":null,{message}}}"#), "model"),
        (CHAT, format!(r#"{{"model":7,{message}}}"#), "model"),
        (CHAT, r#"{"model":"tide-7b"}"#.into(), "messages"),
        (CHAT, r#"{"model":"tide-7b","messages":null}"#.into(), "messages"),
        (CHAT, r#"{"model":"tide-7b","messages":"hi"}"#.into(), "messages"),
        ("/v1/completions", r#"{"model":"tide-7b"}"#.into(), "prompt"),
        ("/v1/completions", r#"{"model":"tide-7b","prompt":7}"#.into(), "prompt"),
        ("/v1/embeddings", r#"{"model":"tide-7b"}"#.into(), "input"),
    ];
    let (backend, gateway) = through(polite).await;
    for (path, body, field) in rows {
        let response = gateway.post(path, body.as_bytes()).await;
        let why = openai_error(&response, 400);
        assert!(why.contains(field), "{body}: {why}");
        assert_eq!(response.json()["error"]["param"], field, "{body}");
        assert_eq!(response.json()["error"]["type"], "invalid_request_error", "{body}");
    }
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn b34_the_answers_content_type_decides_how_it_is_relayed() {
    // A stream nobody asked for is relayed live; a plain answer to a streamed request, whole.
    let gate = Gate::default();
    let held = gate.clone();
    let (_backend, gateway) = through(move |r| {
        if r.asks_for_stream() {
            return ok_json();
        }
        let mut steps = forebay_tests::bodies::open_stream(&[chunk("a")], Duration::ZERO);
        steps.push(Step::Wait(held.clone()));
        steps.extend(stream(&[usage(41, 17), DONE.to_vec()], Duration::ZERO).into_iter().skip(1));
        steps
    })
    .await;
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_JSON)).await;
    let head = client.head().await;
    assert!(head.get("content-type").unwrap().starts_with("text/event-stream"));
    client.read_until("the first event, live", |got| got == chunk("a")).await;
    gate.open();
    let response = client.rest(head).await;
    assert_eq!(response.body, [usage(41, 17), DONE.to_vec()].concat());
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 41.0).await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_eq!(response.json()["usage"]["prompt_tokens"], 12);
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 53.0).await;
    gateway.wait_outcome("finished", 2.0).await;
}

#[tokio::test]
async fn b35_tools_images_and_unknown_parts_arrive_unchanged() {
    let arguments = format!(r#"{{\"path\":\"C:\\\\x\",\"text\":\"{}\"}}"#, "é\\\\n\\\"q\\\" ".repeat(2_000));
    let image = "A".repeat(300 << 10);
    let rows = [
        format!(
            r#"{{"model":"tide-7b","messages":[
  {{"role":"system","content":[{{"type":"text","text":"be"}},{{"type":"text","text":"brief"}}],"name":"sys"}},
  {{"role":"user","content":[{{"type":"text","text":"look"}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}","detail":"high"}}}},{{"type":"input_audio","input_audio":{{"data":"AAAA","format":"wav"}}}},{{"type":"video_url","video_url":{{"url":"https://v.example/1"}}}}]}},
  {{"role":"assistant","content":null,"refusal":null,"reasoning_content":"hm","tool_calls":[{{"id":"c1","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}},{{"id":"c2","type":"function","function":{{"name":"g","arguments":"{{}}"}}}}]}},
  {{"role":"tool","tool_call_id":"c1","content":[{{"type":"text","text":"done"}}]}},
  {{"role":"tool","tool_call_id":"c2","content":""}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{{"model":"x"}}}}}}]}}"#
        ),
        r#"{"model":"tide-7b","messages":[]}"#.to_string(),
        r#"{"model":"tide-7b","messages":[null,7,"x",[],{},{"role":7,"content":{"a":1}}]}"#.to_string(),
    ];
    let (backend, gateway) = through(polite).await;
    for (n, body) in rows.iter().enumerate() {
        serde_json::from_str::<serde_json::Value>(body).expect("the test's own body");
        let response = gateway.post(CHAT, body.as_bytes()).await;
        assert_eq!(response.status(), 200, "row {n}: {}", response.text());
        assert!(backend.request(n).await.body == body.as_bytes(), "row {n} was changed");
    }
}

#[tokio::test]
async fn b35_affinity_follows_the_text_and_not_its_spelling() {
    // The same first message in three spellings stays on one of four endpoints.
    let mut backends = Vec::new();
    for _ in 0..4 {
        backends.push(forebay_tests::backend::Backend::start(polite).await);
    }
    let urls: Vec<String> = backends.iter().map(|b| b.url()).collect();
    let config = forebay_tests::config::Config::new().pool(
        "chat",
        "tide-7b",
        urls.iter().map(String::as_str),
        "policy: consistent_hash",
    );
    let gateway = forebay_tests::gateway::Gateway::start(&config).await;
    crate::common::wait_endpoints(&gateway, 4).await;
    for prompt in 0..8 {
        let before: Vec<usize> = backends.iter().map(|b| b.count()).collect();
        for body in [
            format!(
                r#"{{"model":"tide-7b","messages":[{{"role":"user","content":"tell me of tide {prompt}"}}]}}"#
            ),
            format!(
                r#"{{ "messages" : [ {{ "content":"tell me of tide {prompt}", "role":"user" }} ], "model":"tide-7b" }}"#
            ),
            format!(
                r#"{{"model":"tide-7b","messages":[{{"role":"user","content":"t\u0065ll me of tide {prompt}"}}]}}"#
            ),
        ] {
            assert_eq!(gateway.post(CHAT, body.as_bytes()).await.status(), 200);
        }
        let hit = backends.iter().zip(&before).filter(|(b, n)| b.count() > **n).count();
        assert_eq!(hit, 1, "prompt {prompt} went to {hit} endpoints");
    }
}

#[tokio::test]
async fn b35_two_choices_interleaved_pass_whole() {
    let choice = |index: u32, delta: &str, reason: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"tide-7b\",\"choices\":[{{\"index\":{index},\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
        )
        .into_bytes()
    };
    let call = |index: u32, rest: &str| format!(r#"{{"tool_calls":[{{"index":{index}{rest}}}]}}"#);
    let pieces = [
        choice(0, r#"{"content":"a"}"#, "null"),
        choice(1, r#"{"content":"b"}"#, "null"),
        choice(0, &call(0, r#","id":"c1","type":"function","function":{"name":"f","arguments":""}"#), "null"),
        choice(0, &call(1, r#","id":"c2","type":"function","function":{"name":"g","arguments":""}"#), "null"),
        choice(0, &call(0, r#","function":{"arguments":"{\"x\""}"#), "null"),
        choice(0, "{}", "\"tool_calls\""),
        // The first choice has finished; the stream has not.
        choice(1, r#"{"content":"c"}"#, "null"),
        choice(1, "{}", "\"stop\""),
        usage(10, 7),
        DONE.to_vec(),
    ];
    let payload = pieces.concat();
    let (backend, gateway) = through(move |_| stream(&pieces, Duration::from_millis(2))).await;
    let body = br#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"n":2,"stream":true,"stream_options":{"include_usage":true}}"#;
    let response = gateway.post(CHAT, body).await;
    assert_eq!((response.body.as_slice(), &response.end), (payload.as_slice(), &End::Complete));
    assert_eq!(backend.request(0).await.body, body);
    gateway.wait_outcome("finished", 1.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "completion")], 7.0).await;
}

#[tokio::test]
async fn multipart_body_is_routed_by_its_model_and_sent_on_unchanged() {
    let mut body = b"--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n".to_vec();
    body.extend((0..=255).cycle().take(100_000));
    body.extend_from_slice(
        b"\r\n--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ntide-7b\r\n--XX--\r\n",
    );
    let (backend, gateway) = through(|_| json("200 OK", br#"{"text":"hello"}"#)).await;
    let kind = [("Content-Type", "multipart/form-data; boundary=XX")];
    let request = http1::request("POST", "/v1/audio/transcriptions", &kind, &body);
    let response = client::exchange(gateway.addr(), &request).await;
    assert_eq!(response.status(), 200, "{}", response.text());
    let got = backend.request(0).await;
    assert!(got.body == body);
    assert_eq!(got.head.get("content-type"), Some(kind[0].1));
}
