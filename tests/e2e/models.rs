//! B37 and the registry: names in, targets out, and what is not there.

use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, DONE, OK_JSON, chunk_of, completion, json, polite, stream};
use forebay_tests::client;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::http1;

use crate::common::{openai_error, retry_after, through, wait_endpoints};

const NEW: &str = "tide-7b-2026q3";
const OLD: &str = "tide-7b-2026q2";

/// Answers as the model it was asked for, and mentions names where they must be left alone.
fn as_asked(r: &RequestLog) -> Vec<Step> {
    let body = r.json();
    let model = body["model"].as_str().unwrap().to_string();
    if !r.asks_for_stream() {
        let text = String::from_utf8(completion(&model, 12, 30)).unwrap();
        return json(
            "200 OK",
            text.replace("\"hello\"", &format!("\"I am {model}, \\\"model\\\":\\\"{model}\\\"\"")).as_bytes(),
        );
    }
    let nested = format!(
        "data: {{\"id\":\"1\",\"x\":{{\"model\":\"{model}\"}},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{model}\",\"model\":\"{model}\"}}}}], \"model\" : \"{model}\"}}\n\n"
    );
    stream(
        &[chunk_of(&model, &model), nested.into_bytes(), chunk_of(&model, "b"), DONE.to_vec()],
        Duration::from_millis(2),
    )
}

async fn split_in_two() -> ([Backend; 2], Gateway) {
    let backends = [Backend::start(as_asked).await, Backend::start(as_asked).await];
    backends[0].set_model(NEW);
    backends[1].set_model(OLD);
    let config = Config::new()
        .pool("new", NEW, [backends[0].url().as_str()], "")
        .pool("old", OLD, [backends[1].url().as_str()], "")
        .with(&format!(
            "models:\n\
             \x20 - name: tide-latest\n\
             \x20   targets: [{{model: {NEW}, weight: 90}}, {{model: {OLD}, weight: 10}}]\n\
             \x20 - {{name: t, targets: [{{model: {NEW}, weight: 1}}]}}\n\
             \x20 - {{name: tide-of-a-very-long-name, targets: [{{model: {NEW}, weight: 1}}]}}\n"
        ));
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    (backends, gateway)
}

#[tokio::test]
async fn b37_alias_in_target_out_and_back() {
    let (backends, gateway) = split_in_two().await;
    for alias in ["t", "tide-of-a-very-long-name"] {
        let asked = |stream: bool| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"{alias} {NEW}"}}],"x":{{"model":"{alias}"}},"model":"{alias}","stream":{stream}}}"#
            )
        };
        let plain = gateway.post(CHAT, asked(false).as_bytes()).await;
        let text = String::from_utf8(completion(alias, 12, 30)).unwrap();
        let wanted = text.replace("\"hello\"", &format!("\"I am {NEW}, \\\"model\\\":\\\"{NEW}\\\"\""));
        assert_eq!(plain.text(), wanted, "{alias}");
        let streamed = gateway.post(CHAT, asked(true).as_bytes()).await;
        let nested = format!(
            "data: {{\"id\":\"1\",\"x\":{{\"model\":\"{NEW}\"}},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{NEW}\",\"model\":\"{NEW}\"}}}}], \"model\" : \"{alias}\"}}\n\n"
        );
        let wanted =
            [chunk_of(alias, NEW), nested.into_bytes(), chunk_of(alias, "b"), DONE.to_vec()].concat();
        assert_eq!(streamed.text(), String::from_utf8(wanted).unwrap(), "{alias}");
        for (request, stream) in backends[0].requests().iter().rev().take(2).zip([true, false]) {
            let wanted = asked(stream).replace(
                &format!("}},\"model\":\"{alias}\",\"stream\""),
                &format!("}},\"model\":\"{NEW}\",\"stream\""),
            );
            assert_eq!(String::from_utf8_lossy(&request.body), wanted);
        }
    }
    assert_eq!(backends[1].count(), 0);
}

#[tokio::test]
async fn b37_split_keeps_its_shares_and_every_chunk_its_name() {
    let (backends, gateway) = split_in_two().await;
    let body = r#"{"model":"tide-latest","messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    let mut client = gateway.connect().await;
    for n in 0..400 {
        let response = client.exchange(&http1::post(CHAT, body.as_bytes())).await;
        assert_eq!(http1::count(&response.body, b"\"tide-latest\""), 3, "request {n}: {}", response.text());
        assert!(response.is_complete());
    }
    let share = backends[0].count() as f64 / 400.0;
    assert_eq!(backends[0].count() + backends[1].count(), 400);
    assert!((0.85..=0.95).contains(&share), "the share of 0.9 was {share}");
    for (backend, name) in backends.iter().zip([NEW, OLD]) {
        assert!(backend.requests().iter().all(|r| r.json()["model"] == name));
    }
}

#[tokio::test]
async fn b37_list_has_every_name_once() {
    let (backends, gateway) = split_in_two().await;
    let wanted = ["t", "tide-7b-2026q2", "tide-7b-2026q3", "tide-latest", "tide-of-a-very-long-name"];
    for path in ["/v1/models", "/v1/models/", "/v1/models?x=1"] {
        let list = gateway.get(path).await;
        assert_eq!(list.status(), 200, "{path}: {}", list.text());
        let list = list.json();
        assert_eq!(list["object"], "list");
        let mut names: Vec<&str> =
            list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, wanted, "{path}");
        for model in list["data"].as_array().unwrap() {
            assert_eq!(model["object"], "model");
            assert!(model["created"].is_u64() && model["owned_by"].is_string(), "{model}");
        }
    }
    for name in wanted {
        let one = gateway.get(&format!("/v1/models/{name}")).await;
        assert_eq!((one.status(), one.json()["id"].as_str()), (200, Some(name)));
    }
    let none = gateway.get("/v1/models/nope").await;
    openai_error(&none, 404);
    assert_eq!(none.json()["error"]["code"], "model_not_found");
    assert!(backends.iter().all(|b| b.count() == 0));
}

#[tokio::test]
async fn b37_model_names_with_slashes_and_escapes_are_found() {
    let backend = Backend::start(polite).await;
    backend.set_model("org/tide-7b");
    let config = Config::new().pool("chat", "org/tide-7b", [backend.url().as_str()], "");
    let gateway = Gateway::start(&config).await;
    for path in ["/v1/models/org/tide-7b", "/v1/models/org%2Ftide-7b"] {
        assert_eq!(gateway.get(path).await.json()["id"], "org/tide-7b", "{path}");
    }
}

#[tokio::test]
async fn b37_unknown_model_is_404_with_close_names() {
    let (backends, gateway) = split_in_two().await;
    for (name, close) in [("nope", None), ("tide-latst", Some("tide-latest")), ("Tide-7b-2026q3", Some(NEW))]
    {
        let body = format!(r#"{{"model":"{name}","messages":[{{"role":"user","content":"hi"}}]}}"#);
        let response = gateway.post(CHAT, body.as_bytes()).await;
        let why = openai_error(&response, 404);
        assert_eq!(response.json()["error"]["code"], "model_not_found", "{name}");
        if let Some(close) = close {
            assert!(why.contains(close), "no close name for {name}: {why}");
        }
    }
    assert!(backends.iter().all(|b| b.count() == 0));
    gateway.wait_metric("forebay_rejected_total", &[("reason", "unknown_model")], 3.0).await;
}

#[tokio::test]
async fn b37_known_model_without_a_ready_endpoint_is_503() {
    let backend = Backend::start(polite).await;
    backend.set_healthy(false);
    let gateway = Gateway::start_unready(&Config::chat([backend.url().as_str()])).await;
    let response = gateway.post(CHAT, OK_JSON).await;
    openai_error(&response, 503);
    retry_after(&response);
    let unknown =
        gateway.post(CHAT, br#"{"model":"nope","messages":[{"role":"user","content":"hi"}]}"#).await;
    openai_error(&unknown, 404);
    assert_eq!(gateway.admin_get("/healthz").await.status(), 200);
    let unready = gateway.admin_get("/readyz").await;
    assert_eq!(unready.status(), 503);
    assert!(unready.text().contains("chat"), "the pool is not named: {}", unready.text());
    gateway.wait_metric("forebay_rejected_total", &[("reason", "not_ready")], 1.0).await;
    // Once its probe succeeds it is used.
    backend.set_healthy(true);
    gateway.wait_ready().await;
    assert_eq!(gateway.admin_get("/readyz?pool=chat").await.status(), 200);
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn anthropic_paths_err_in_their_own_shape() {
    let (backend, gateway) = through(polite).await;
    let unknown = br#"{"model":"nope","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let response = gateway.post("/v1/messages", unknown).await;
    assert_eq!(response.status(), 404);
    let body = response.json();
    assert_eq!(body["type"], "error", "{body}");
    assert_eq!(body["error"]["type"], "not_found_error", "{body}");
    assert!(body["error"]["message"].is_string());
    let broken = gateway.post("/v1/messages", b"[]").await;
    assert_eq!(
        (broken.status(), broken.json()["error"]["type"].as_str()),
        (400, Some("invalid_request_error"))
    );
    let good = br#"{"model":"tide-7b","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(gateway.post("/v1/messages", good).await.status(), 200);
    assert_eq!(backend.request(0).await.body, good);
}

#[tokio::test]
async fn every_path_that_carries_a_model_is_served() {
    let (backend, gateway) = through(polite).await;
    let chat = r#""messages":[{"role":"user","content":"hi"}]"#;
    let rows = [
        (CHAT, chat),
        ("/v1/completions", r#""prompt":"hi""#),
        ("/v1/completions", r#""prompt":[[1,2,3],[4]]"#),
        ("/v1/completions", r#""prompt":["a","b"]"#),
        ("/v1/responses", r#""input":"hi""#),
        ("/v1/responses", r#""input":[{"role":"user","content":"hi"}]"#),
        ("/v1/embeddings", r#""input":"hi""#),
        ("/v1/embeddings", r#""input":[1,2,3]"#),
        ("/v1/rerank", r#""query":"q","documents":["a","b"]"#),
        ("/v1/score", r#""text_1":"a","text_2":["b"]"#),
        ("/v1/moderations", r#""input":"hi""#),
        ("/v1/images/generations", r#""prompt":"a tide""#),
        ("/v1/audio/speech", r#""input":"hi","voice":"x""#),
        ("/v1/messages", r#""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#),
        ("/v1/messages/count_tokens", r#""messages":[{"role":"user","content":"hi"}]"#),
    ];
    for (n, (path, fields)) in rows.iter().enumerate() {
        let body = format!(r#"{{"model":"tide-7b",{fields}}}"#);
        let response = gateway.post(&format!("{path}?beta=true"), body.as_bytes()).await;
        assert_eq!(response.status(), 200, "{path}: {}", response.text());
        let got = backend.request(n).await;
        assert_eq!(got.head.target(), format!("{path}?beta=true"));
        assert_eq!(got.body, body.as_bytes());
    }
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_refused() {
    let (backend, gateway) = through(polite).await;
    for path in [
        "/",
        "/nope",
        "/v1",
        "/v1/nope",
        "/v1/chat",
        "/v1/chat/completions/x",
        "/v2",
        "/v1/chat/completions%00",
        "//v1/models",
    ] {
        let response = gateway.post(path, OK_JSON).await;
        openai_error(&response, 404);
    }
    for (method, path, allowed) in [
        ("GET", CHAT, "POST"),
        ("PUT", CHAT, "POST"),
        ("DELETE", "/v1/embeddings", "POST"),
        ("POST", "/v1/models", "GET"),
    ] {
        let request = http1::request(method, path, &[], b"");
        let response = client::exchange(gateway.addr(), &request).await;
        openai_error(&response, 405);
        let allow = response.head.get("allow").unwrap_or_default();
        assert!(allow.contains(allowed), "{method} {path}: Allow {allow:?}");
    }
    assert_eq!(backend.count(), 0);
    gateway.wait_metric("forebay_rejected_total", &[("reason", "unknown_path")], 9.0).await;
    gateway.wait_metric("forebay_rejected_total", &[("reason", "method_not_allowed")], 4.0).await;
}

#[tokio::test]
async fn paths_of_the_engine_that_are_no_inference_are_not_reachable() {
    let (backend, gateway) = through(polite).await;
    for path in [
        "/metrics",
        "/health",
        "/pause",
        "/resume",
        "/sleep",
        "/wake_up",
        "/reset_prefix_cache",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/server_info",
        "/collective_rpc",
        "/docs",
        "/openapi.json",
        "/flush_cache",
        "/v1/../metrics",
        "/v1/chat/completions/../../../metrics",
        "/v1/%2e%2e/metrics",
        "/V1/chat/completions",
    ] {
        for method in ["GET", "POST"] {
            let body: &[u8] = if method == "POST" { OK_JSON } else { b"" };
            let response = client::exchange(gateway.addr(), &http1::request(method, path, &[], body)).await;
            assert_eq!(response.status(), 404, "{method} {path}: {}", response.text());
        }
    }
    for connection in backend.connections() {
        for line in connection.bytes.split(|b| *b == b'\n').filter(|l| l.ends_with(b"HTTP/1.1\r")) {
            let line = String::from_utf8_lossy(line);
            assert!(!line.contains("..") && !line.contains("pause"), "{line}");
        }
    }
    assert_eq!(backend.count(), 0);
}

#[tokio::test]
async fn answers_carry_a_request_id_and_engines_never_see_control_headers() {
    let backend = Backend::start(polite).await;
    let config = Config::chat([backend.url().as_str()])
        .with("response_headers: {endpoint: true, server_timing: true, held_tokens: true}");
    let gateway = Gateway::start(&config).await;
    let control = [
        ("Content-Type", "application/json"),
        ("x-forebay-priority", "critical"),
        ("x-forebay-session", "s1"),
        ("x-forebay-slo-ttft-ms", "100"),
        ("x-forebay-slo-tpot-ms", "10"),
        ("x-forebay-deadline-ms", "1000"),
        ("x-gateway-inference-objective", "x"),
        ("x-llm-d-slo-ttft-ms", "9"),
    ];
    let mut ids = Vec::new();
    for _ in 0..2 {
        let response =
            client::exchange(gateway.addr(), &http1::request("POST", CHAT, &control, OK_JSON)).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.head.all("x-forebay-endpoint"), [backend.url()]);
        assert_eq!(response.head.count("server-timing"), 1);
        // The prompt is shorter than a block of the index.
        assert_eq!(response.head.all("x-forebay-held-tokens"), ["0"]);
        ids.push(response.head.get("x-request-id").expect("no x-request-id").to_string());
    }
    assert_ne!(ids[0], ids[1]);
    // A client's own is kept.
    let fields = [("Content-Type", "application/json"), ("x-request-id", "mine-1")];
    let response = client::exchange(gateway.addr(), &http1::request("POST", CHAT, &fields, OK_JSON)).await;
    assert_eq!(response.head.all("x-request-id"), ["mine-1"]);
    assert!(gateway.get("/nope").await.head.get("x-request-id").is_some());
    for request in backend.requests() {
        for (name, _) in &request.head.fields {
            let name = name.to_ascii_lowercase();
            for prefix in ["x-forebay-", "x-gateway-", "x-llm-d-"] {
                assert!(!name.starts_with(prefix), "{name} went on to the engine");
            }
        }
    }
}

#[tokio::test]
async fn optional_headers_are_off_by_default() {
    let (_backend, gateway) = through(polite).await;
    let response = gateway.post(CHAT, OK_JSON).await;
    assert_eq!(response.head.get("x-forebay-endpoint"), None);
    assert_eq!(response.head.get("server-timing"), None);
    assert_eq!(response.head.get("x-forebay-held-tokens"), None);
    let labels = [("code", "200"), ("pool", "chat"), ("model", "tide-7b"), ("outcome", "finished")];
    gateway.wait_metric("forebay_requests_total", &labels, 1.0).await;
}
