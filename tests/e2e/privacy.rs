//! What clients send stays out of logs and labels.

use std::time::Duration;

use forebay_tests::backend::{Backend, Step};
use forebay_tests::bodies::{CHAT, DONE, OK_JSON, chunk, finish, polite, response, stream};
use forebay_tests::client::{self, Client};
use forebay_tests::config::Config;
use forebay_tests::exposition;
use forebay_tests::gateway::Gateway;
use forebay_tests::socket::RefusingPort;
use forebay_tests::{http1, wait};

use crate::common::{through, through_with};

const MARKER: &str = "ZEBRA-PROMPT";
const KEY: &str = "sk-user-7QXfW2mK9pLr4TzN";

#[tokio::test]
async fn b43_no_prompt_and_no_credential_in_logs_or_status() {
    let backend = Backend::start(|r| {
        if r.head.target().contains("echo") {
            // An engine that echoes the credential in its error.
            let body =
                format!(r#"{{"error":{{"message":"bad key {KEY}","type":"t","param":null,"code":401}}}}"#);
            return vec![Step::send(response("401 Unauthorized", &[], body.as_bytes()))];
        }
        if r.asks_for_stream() {
            return stream(&[chunk(MARKER), finish("stop"), DONE.to_vec()], Duration::ZERO);
        }
        polite(r)
    })
    .await;
    let port = RefusingPort::new();
    let refusing = format!("http://{}", port.addr);
    let config = Config::chat([backend.url().as_str()])
        .pool("gone", "reef-13b", [refusing.as_str()], "health: {enabled: false}")
        .with("log: {level: trace, format: json, access: true}");
    let gateway = Gateway::start(&config).await;
    let prompt = |model: &str, stream: bool| {
        format!(
            r#"{{"model":"{model}","messages":[{{"role":"user","content":"{MARKER}"}}],"user":"{MARKER}","stream":{stream}}}"#
        )
    };
    let long = format!("Bearer {KEY}{}", "x".repeat(8 << 10));
    let rows: Vec<(String, String, String)> = vec![
        (CHAT.into(), format!("Bearer {KEY}"), prompt("tide-7b", false)),
        (CHAT.into(), format!("Bearer {KEY}"), prompt("tide-7b", true)),
        (format!("{CHAT}?echo=1"), format!("Bearer {KEY}"), prompt("tide-7b", false)),
        (format!("{CHAT}?key={KEY}"), format!("bearer {KEY}"), prompt("tide-7b", false)),
        (CHAT.into(), format!("Basic {KEY}"), prompt("reef-13b", false)),
        (CHAT.into(), "Bearer".into(), prompt("nope", false)),
        (CHAT.into(), format!("Bearer {KEY} b"), format!(r#"{{"model":"tide-7b","messages":"{MARKER}"}}"#)),
        (CHAT.into(), long, format!("{{\"{MARKER}")),
        (format!("/{MARKER}/{KEY}?key={KEY}"), format!("Bearer {KEY}"), prompt("tide-7b", false)),
        (
            CHAT.into(),
            format!("Bearer {KEY}"),
            format!(r#"{{"model":"{MARKER}","messages":[{{"role":"user","content":"hi"}}]}}"#),
        ),
    ];
    for (target, credential, body) in &rows {
        let fields = [
            ("Content-Type", "application/json"),
            ("Authorization", credential.as_str()),
            ("x-api-key", KEY),
            ("Cookie", KEY),
        ];
        client::exchange(gateway.addr(), &http1::request("POST", target, &fields, body.as_bytes())).await;
    }
    // Not even a valid field value.
    let mut raw = Client::connect(gateway.addr()).await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY}");
    raw.send(&[head.as_bytes(), b"\xff\xfe\x01\r\nContent-Length: 2\r\n\r\n{}"].concat()).await;
    raw.response().await;
    // And one that leaves, and one whose head is no HTTP.
    let mut left = Client::connect(gateway.addr()).await;
    let whole = http1::request("POST", CHAT, &[("Authorization", KEY)], prompt("tide-7b", true).as_bytes());
    left.send(&whole[..whole.len() - 5]).await;
    left.reset();
    let mut broken = Client::connect(gateway.addr()).await;
    broken.send(format!("{KEY} {MARKER}\r\n\r\n").as_bytes()).await;
    broken.raw_rest().await;
    let mut outputs = vec![("the metrics".to_string(), gateway.metrics().await)];
    for path in ["/api/v1/status", "/api/v1/endpoints", "/api/v1/decisions?last=50", "/readyz", "/"] {
        outputs.push((path.to_string(), gateway.admin_get(path).await.text()));
    }
    gateway.wait_idle().await;
    assert!(!gateway.logs().is_empty(), "no logs at level trace prove nothing");
    outputs.push(("stderr".to_string(), gateway.logs()));
    outputs.push(("stdout".to_string(), gateway.stdout()));
    for (name, text) in outputs {
        for secret in [MARKER, KEY, "c2stdXNlci03UVhmVzJtSzlwTHI0VHpO"] {
            if let Some(line) = text.lines().find(|l| l.contains(secret)) {
                panic!("{secret} in {name}: {line}");
            }
        }
    }
}

#[tokio::test]
async fn b44_flood_of_names_grows_no_label() {
    // A few thousand where the entry has 50,000: one series each would show at a tenth of that.
    const FLOOD: usize = 3_000;
    let (_backend, gateway) = through(polite).await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    let names = ["q\\\"uote", "back\\\\slash", "new\\nline", "{brace}"];
    // Once through every kind of refusal, so that what is bounded is there before the count.
    let warm = gateway.addr();
    flood(warm, 0, 40, &names).await;
    let before = exposition::parse(&gateway.metrics().await).len();
    let memory = gateway.resident_bytes();
    let mut all = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let addr = gateway.addr();
        all.spawn(async move { flood(addr, 1 + worker * FLOOD / 8, FLOOD / 8, &names).await });
    }
    all.join_all().await;
    let page = gateway.metrics().await;
    let after = exposition::parse(&page).len();
    assert!(after < before + 50, "{before} series became {after}");
    assert!(page.len() < 1 << 20, "a page of {} bytes", page.len());
    let grown = gateway.resident_bytes().saturating_sub(memory);
    assert!(grown < 20 << 20, "resident memory grew by {grown} bytes");
    // A configured model keeps a label of its own.
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    gateway
        .wait_metric("forebay_requests_total", &[("model", "tide-7b"), ("outcome", "finished")], 2.0)
        .await;
}

async fn flood(addr: std::net::SocketAddr, from: usize, count: usize, names: &[&str]) {
    let mut client = Client::connect(addr).await;
    for n in from..from + count {
        let odd = names[n % names.len()];
        let unique = format!("unique-{n}");
        let model = format!(
            r#"{{"model":"{odd}{n}","user":"{unique}","messages":[{{"role":"user","content":"hi"}}]}}"#
        );
        let fields = [
            ("Host", unique.as_str()),
            ("x-tenant", unique.as_str()),
            ("x-request-id", unique.as_str()),
            ("Content-Type", "application/json"),
        ];
        let (request, status) = match n % 4 {
            0 => (http1::request("POST", CHAT, &fields, model.as_bytes()), 404),
            1 => (http1::request("GET", &format!("/v1/models/{unique}"), &fields, b""), 404),
            2 => (http1::request("GET", &format!("/wp-login-{n}.php"), &fields, b""), 404),
            _ => (http1::request(&format!("FOO{n}"), CHAT, &fields, b""), 405),
        };
        let response = client.exchange(&request).await;
        assert_eq!(response.status(), status, "{n}: {}", response.text());
        // The gateway may ask for a new connection after a refusal.
        if response.head.get("connection").is_some_and(|v| v.eq_ignore_ascii_case("close")) {
            client = Client::connect(addr).await;
        }
    }
}

/// Whoever is asked about a request id must find it, also when the gateway
/// refused the request itself.
#[tokio::test]
async fn every_request_has_a_log_line_when_they_are_asked_for() {
    let (_backend, gateway) = through_with("log: {access: true}", polite).await;
    for (id, target, body) in [
        ("id-fine", CHAT, OK_JSON),
        ("id-model", CHAT, br#"{"model":"nope","messages":[]}"#.as_slice()),
        ("id-json", CHAT, b"{".as_slice()),
        ("id-path", "/chat/completions", OK_JSON),
    ] {
        let fields = [("host", "g"), ("content-type", "application/json"), ("x-request-id", id)];
        let mut client = gateway.connect().await;
        client.exchange(&http1::request("POST", target, &fields, body)).await;
        wait::until("the log line", || gateway.logs().contains(id).then_some(())).await;
    }
}
