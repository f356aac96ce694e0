//! The control plane over real connections.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_admin::{
    BodyEdit, CandidateView, ControlError, ControlPlane, EndpointPatch, EndpointStatus, FleetControl,
    OperatorState, PoolPatch, PoolReadiness, PoolStatus, Readiness, RequestTotals, Status, StatusSource,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

/// A process that says what the test tells it to.
struct Fake {
    serving: AtomicBool,
    draining: AtomicBool,
    ready: AtomicUsize,
    metrics: Mutex<String>,
    endpoint_patches: Mutex<Vec<EndpointPatch>>,
    pool_patches: Mutex<Vec<PoolPatch>>,
}

impl StatusSource for Fake {
    fn status(&self) -> Status {
        let endpoint = |pool: &str, port: u16, state: &str| EndpointStatus {
            id: format!("{pool}-{port}"),
            pool: pool.to_owned(),
            url: format!("http://127.0.0.1:{port}"),
            state: state.to_owned(),
            weight: 2.0,
            in_flight: 3,
            requests: 40,
            ..EndpointStatus::default()
        };
        Status {
            version: "0.1.0".to_owned(),
            uptime_seconds: 12.5,
            config_file: Some("forebay.yaml".to_owned()),
            draining: self.draining.load(SeqCst),
            requests: RequestTotals {
                total: 80,
                rejected: 2,
                retries: 1,
                in_flight: 6,
                client_connections: 4,
            },
            pools: vec![
                PoolStatus {
                    name: "chat".to_owned(),
                    model: "tide-7b".to_owned(),
                    policy: "least_work".to_owned(),
                    ready: self.ready.load(SeqCst),
                    in_flight: 6,
                    endpoints: vec![endpoint("chat", 8001, "ready"), endpoint("chat", 8002, "unready")],
                    ..PoolStatus::default()
                },
                PoolStatus {
                    name: "embed".to_owned(),
                    endpoints: vec![endpoint("embed", 8003, "starting")],
                    ..PoolStatus::default()
                },
            ],
            body_edits: vec![BodyEdit {
                model: "gpt-4".to_owned(),
                field: "model".to_owned(),
                reason: "alias of tide-7b".to_owned(),
            }],
        }
    }

    fn ready(&self) -> Readiness {
        let pool = |name: &str, ready| PoolReadiness { name: name.to_owned(), ready };
        Readiness {
            serving: self.serving.load(SeqCst),
            draining: self.draining.load(SeqCst),
            pools: vec![pool("chat", self.ready.load(SeqCst)), pool("embed & co", 0)],
        }
    }

    fn decisions(&self, last: usize) -> Vec<forebay_admin::DecisionView> {
        vec![
            forebay_admin::DecisionView {
                pool: "chat".to_owned(),
                reason: "only one".to_owned(),
                candidates_priced: vec![CandidateView { wait_ms: 1.5, ..CandidateView::default() }],
                ..Default::default()
            };
            last.min(3)
        ]
    }

    fn metrics(&self) -> String {
        self.metrics.lock().expect("no panic").clone()
    }
}

impl FleetControl for Fake {
    fn patch_endpoint(&self, id: &str, patch: &EndpointPatch) -> Result<EndpointStatus, ControlError> {
        let mut all = self.status().pools.into_iter().flat_map(|pool| pool.endpoints);
        let mut endpoint = all.find(|endpoint| endpoint.id == id).ok_or(ControlError::Unknown)?;
        endpoint.state = patch.state.map_or(endpoint.state, |state| state.as_str().to_owned());
        self.endpoint_patches.lock().expect("no panic").push(patch.clone());
        Ok(endpoint)
    }

    fn patch_pool(&self, name: &str, patch: &PoolPatch) -> Result<PoolStatus, ControlError> {
        let mut all = self.status().pools.into_iter();
        let pool = all.find(|pool| pool.name == name).ok_or(ControlError::Unknown)?;
        if patch.policy.as_deref() == Some("best") {
            return Err(ControlError::Invalid { field: "policy", allowed: vec!["predictive", "random"] });
        }
        self.pool_patches.lock().expect("no panic").push(patch.clone());
        Ok(pool)
    }
}

struct Admin {
    address: SocketAddr,
    fake: Arc<Fake>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

async fn admin() -> Admin {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let fake = Arc::new(Fake {
        serving: AtomicBool::new(true),
        draining: AtomicBool::new(false),
        ready: AtomicUsize::new(1),
        metrics: Mutex::new("# TYPE a gauge\na 1\n".to_owned()),
        endpoint_patches: Mutex::default(),
        pool_patches: Mutex::default(),
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let plane: Arc<dyn ControlPlane> = fake.clone();
    let task = tokio::spawn(async move { forebay_admin::serve(listener, plane, stopped).await });
    Admin { address, fake, stop: Some(stop), task }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|l| {
            let (n, value) = l.split_once(": ")?;
            n.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Admin {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// Sends bytes on a connection of their own and reads to its end.
    async fn raw(&self, request: &str) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut bytes = Vec::new();
        timeout(LIMIT, stream.read_to_end(&mut bytes)).await.expect("in time").expect("read");
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    async fn ask(&self, method: &str, path: &str) -> Answer {
        self.raw(&format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
    }

    async fn patch(&self, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        self.raw(&format!(
            "PATCH {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).await
    }
}

#[tokio::test]
async fn healthz_says_ok_also_while_draining() {
    let admin = admin().await;
    admin.fake.draining.store(true, SeqCst);
    admin.fake.ready.store(0, SeqCst);
    let answer = admin.get("/healthz").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
}

#[tokio::test]
async fn readyz_needs_listeners_no_drain_and_one_pool_that_can_serve() {
    let admin = admin().await;
    for (serving, draining, ready, expected) in
        [(true, false, 1, 200), (false, false, 1, 503), (true, true, 1, 503), (true, false, 0, 503)]
    {
        admin.fake.serving.store(serving, SeqCst);
        admin.fake.draining.store(draining, SeqCst);
        admin.fake.ready.store(ready, SeqCst);
        let answer = admin.get("/readyz").await;
        assert_eq!(answer.status, expected, "{serving} {draining} {ready}");
        let without = if ready == 0 { json!(["chat", "embed & co"]) } else { json!(["embed & co"]) };
        assert_eq!(
            answer.json(),
            json!({"ready": expected == 200, "draining": draining, "pools_without_ready_endpoint": without})
        );
    }
}

#[tokio::test]
async fn readyz_answers_for_one_pool() {
    let admin = admin().await;
    let answer = admin.get("/readyz?pool=chat").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["pools_without_ready_endpoint"], json!([]));
    for path in ["/readyz?pool=embed%20%26%20co", "/readyz?pool=embed+%26+co"] {
        let answer = admin.get(path).await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json()["pools_without_ready_endpoint"], json!(["embed & co"]));
    }
    let answer = admin.get("/readyz?pool=%22nowhere").await;
    assert_eq!(answer.status, 404);
    let error = &answer.json()["error"];
    assert_eq!(error["code"], "unknown_pool");
    assert_eq!(error["param"], "pool");
    assert_eq!(error["message"], "no pool is called \"\\\"nowhere\"");
    let answer = admin.get("/readyz?pool=a&pool=b").await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("invalid_query")));
}

#[tokio::test]
async fn metrics_are_passed_on_as_prometheus_text() {
    let admin = admin().await;
    let answer = admin.get("/metrics").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "# TYPE a gauge\na 1\n"));
    assert!(answer.header("content-type").expect("a type").starts_with("text/plain; version=0.0.4"));
}

#[tokio::test]
async fn decisions_are_listed_as_many_as_asked_for() {
    let admin = admin().await;
    for (query, count) in [("", 3), ("?last=2", 2), ("?last=0", 0)] {
        let list = admin.get(&format!("/api/v1/decisions{query}")).await.json();
        assert_eq!(list["decisions"].as_array().map(Vec::len), Some(count), "{query}");
    }
    let one = &admin.get("/api/v1/decisions?last=1").await.json()["decisions"][0];
    assert_eq!(one.pointer("/candidates_priced/0/wait_ms"), Some(&json!(1.5)));
    assert_eq!((&one["shadow"], &one["fallback"]), (&json!(null), &json!(false)));
    let bad = admin.get("/api/v1/decisions?last=many").await;
    assert_eq!((bad.status, &bad.json()["error"]["param"]), (400, &Value::from("last")));
}

#[tokio::test]
async fn status_and_endpoints_are_json() {
    let admin = admin().await;
    let answer = admin.get("/api/v1/status").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let status = answer.json();
    for (pointer, expected) in [
        ("/version", json!("0.1.0")),
        ("/uptime_seconds", json!(12.5)),
        ("/config_file", json!("forebay.yaml")),
        ("/draining", json!(false)),
        ("/requests/total", json!(80)),
        ("/requests/in_flight", json!(6)),
        ("/pools/0/policy", json!("least_work")),
        ("/pools/0/ready", json!(1)),
        ("/pools/0/endpoints/1/state", json!("unready")),
        ("/pools/1/endpoints/0/weight", json!(2.0)),
        ("/body_edits/0/field", json!("model")),
    ] {
        assert_eq!(status.pointer(pointer), Some(&expected), "{pointer}");
    }
    let list = admin.get("/api/v1/endpoints").await.json();
    let ids: Vec<_> = list["endpoints"].as_array().expect("a list").iter().map(|e| &e["id"]).collect();
    assert_eq!(ids, ["chat-8001", "chat-8002", "embed-8003"]);
    let first = &list["endpoints"][0];
    for (key, expected) in [
        ("id", json!("chat-8001")),
        ("pool", json!("chat")),
        ("url", json!("http://127.0.0.1:8001")),
        ("state", json!("ready")),
        ("weight", json!(2.0)),
        ("in_flight", json!(3)),
        ("requests", json!(40)),
        ("signal_age_seconds", json!(null)),
        ("kv_events", json!([])),
    ] {
        assert_eq!(first[key], expected, "{key}");
    }
    assert_eq!(first.pointer("/signals/kv_usage"), Some(&json!(null)));
    assert_eq!(&admin.get("/api/v1/endpoints/chat-8001").await.json(), first);
    assert_eq!(admin.get("/api/v1/pools/chat").await.json()["policy"], "least_work");
    for (path, code) in
        [("/api/v1/endpoints/chat-1", "unknown_endpoint"), ("/api/v1/pools/ch%20at", "unknown_pool")]
    {
        let answer = admin.get(path).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!(code)), "{path}");
    }
}

#[tokio::test]
async fn changes_are_handed_on_and_answered_with_what_is_now() {
    let admin = admin().await;
    let answer = admin.patch("/api/v1/endpoints/chat-8001", "", r#"{"state":"draining","weight":2}"#).await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("draining")));
    let wanted = EndpointPatch { state: Some(OperatorState::Draining), weight: Some(2.0) };
    assert_eq!(*admin.fake.endpoint_patches.lock().expect("no panic"), [wanted]);

    let body = r#"{"policy":"least_work","profile":"lean","shadow_policy":"random"}"#;
    let answer = admin.patch("/api/v1/pools/chat", "content-type: text/plain\r\n", body).await;
    assert_eq!((answer.status, &answer.json()["name"]), (200, &json!("chat")));
    assert_eq!(admin.patch("/api/v1/pools/chat", "", r#"{"shadow_policy":null}"#).await.status, 200);
    let word = |word: &str| Some(word.to_owned());
    let all =
        PoolPatch { policy: word("least_work"), profile: word("lean"), shadow_policy: Some(word("random")) };
    let none = PoolPatch { shadow_policy: Some(None), ..PoolPatch::default() };
    assert_eq!(*admin.fake.pool_patches.lock().expect("no panic"), [all, none]);
}

#[tokio::test]
async fn a_bad_change_is_refused_with_the_field_and_what_it_may_be() {
    let admin = admin().await;
    let (endpoint, pool) = ("/api/v1/endpoints/chat-8001", "/api/v1/pools/chat");
    for (path, body, status, param, says) in [
        (
            endpoint,
            r#"{"state":"off"}"#,
            400,
            json!("state"),
            "one of ready, draining, disabled, not \"off\"",
        ),
        (endpoint, r#"{"state":null}"#, 400, json!("state"), "not null"),
        (endpoint, r#"{"weight":"2"}"#, 400, json!("weight"), "a number from 0.000001"),
        (endpoint, r#"{"weight":0}"#, 400, json!("weight"), "not 0"),
        (endpoint, r#"{"weight":-1}"#, 400, json!("weight"), "not -1"),
        (endpoint, r#"{"weight":1e300}"#, 400, json!("weight"), "not 1e+300"),
        (endpoint, r#"{"wait":1}"#, 400, json!(null), "unknown field `wait`, expected `state` or `weight`"),
        (endpoint, r#"{"weight":1,"weight":2}"#, 400, json!(null), "duplicate field `weight`"),
        (endpoint, "{}", 400, json!(null), "give state or weight"),
        (endpoint, "", 400, json!(null), "cannot be read"),
        (endpoint, "[", 400, json!(null), "cannot be read"),
        (pool, r#"{"policy":"best"}"#, 400, json!("policy"), "must be one of predictive, random"),
        (pool, r#"{"profile":3}"#, 400, json!("profile"), "must be a name, not 3"),
        (pool, r#"{"policy":null}"#, 400, json!("policy"), "must be a name, not null"),
        (pool, r#"{"polcy":"x"}"#, 400, json!(null), "`policy`, `profile`, `shadow_policy`"),
        (pool, "{}", 400, json!(null), "give policy, profile or shadow_policy"),
        ("/api/v1/pools/chap", r#"{"policy":"random"}"#, 404, json!(null), "no pool \"chap\""),
        ("/api/v1/endpoints/0.1", r#"{"weight":1}"#, 404, json!(null), "no endpoint \"0.1\""),
    ] {
        let answer = admin.patch(path, "", body).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["param"]), (status, &param), "{path} {body}: {error}");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains(says), "{path} {body}: {message}");
    }
    let long = format!("{{\"state\":\"{}\"}}", "x".repeat(20_000));
    assert_eq!(admin.patch(endpoint, "", &long).await.status, 413);
    let from_a_page = admin.patch(endpoint, "origin: http://x\r\n", r#"{"weight":1}"#).await;
    assert_eq!(from_a_page.status, 403);
    assert!(admin.fake.endpoint_patches.lock().expect("no panic").is_empty());
    assert!(admin.fake.pool_patches.lock().expect("no panic").is_empty());
    let answer = admin.ask("DELETE", "/api/v1/pools/chat").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD, PATCH")));
}

#[tokio::test]
async fn the_page_is_html_with_a_policy_that_forbids_scripts() {
    let admin = admin().await;
    let answer = admin.get("/").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(answer.header("content-security-policy").expect("a policy").starts_with("default-src 'none'"));
    for shown in ["tide-7b", "http://127.0.0.1:8002", "unready", "1 of 2 ready", "alias of tide-7b"] {
        assert!(answer.body.contains(shown), "{shown}");
    }
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_refused_in_json() {
    let admin = admin().await;
    for path in ["/nowhere", "/api/v1/status/", "/API/v1/status", "//metrics", "/v1/models", "/%00"] {
        let answer = admin.get(path).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!("unknown_path")), "{path}");
    }
    for (method, path) in
        [("POST", "/metrics"), ("DELETE", "/api/v1/endpoints"), ("PUT", "/"), ("FOO", "/healthz")]
    {
        let answer = admin.ask(method, path).await;
        assert_eq!(answer.status, 405, "{method} {path}");
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "method_not_allowed");
        assert!(error["message"].as_str().expect("text").contains(method));
        assert!(answer.header("allow").expect("allow").contains("GET"));
        assert_eq!(answer.head.to_lowercase().matches("\nallow:").count(), 1, "{}", answer.head);
    }
    let head = admin.ask("HEAD", "/api/v1/status").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[tokio::test]
async fn what_is_not_http_or_too_large_is_refused_and_the_next_is_served() {
    let admin = admin().await;
    assert_eq!(admin.raw("\x16\x03\x01 nonsense\r\n\r\n").await.status, 400);
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\nx-pad: {}\r\n\r\n", "a".repeat(100_000));
    let mut stream = admin.connect().await;
    // It may be closed before all of it is sent.
    let _ = stream.write_all(long.as_bytes()).await;
    let mut start = [0; 12];
    if timeout(LIMIT, stream.read_exact(&mut start)).await.expect("in time").is_ok() {
        assert_eq!(&start, b"HTTP/1.1 431");
    }
    let mut stream = admin.connect().await;
    // A body that nobody reads is neither stored nor taken for a request.
    let body = "GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n".repeat(10_000);
    let request = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answers = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut answers)).await.expect("it is closed");
    let answers = String::from_utf8_lossy(&answers);
    assert!(answers.matches("HTTP/1.1 ").count() <= 1 && !answers.contains("404"), "{answers}");
    assert_eq!(admin.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn idle_and_half_sent_connections_do_not_keep_others_out() {
    let admin = admin().await;
    let mut idle = Vec::new();
    for n in 0..400 {
        let mut stream = admin.connect().await;
        if n % 2 == 0 {
            stream.write_all(b"GET / HT").await.expect("sent");
        }
        idle.push(stream);
    }
    assert_eq!(admin.get("/healthz").await.status, 200);
    // The oldest had to make room.
    let mut byte = [0; 1];
    let end = timeout(LIMIT, idle[0].read(&mut byte)).await.expect("it is closed");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    // The youngest had not.
    let last = idle.last_mut().expect("many");
    last.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut start = [0; 12];
    timeout(LIMIT, last.read_exact(&mut start)).await.expect("in time").expect("read");
    assert_eq!(&start, b"HTTP/1.1 200");
}

#[tokio::test]
async fn clients_that_do_not_read_do_not_hold_up_others() {
    let admin = admin().await;
    *admin.fake.metrics.lock().expect("no panic") = "x".repeat(8 << 20);
    let mut stuck = Vec::new();
    for _ in 0..8 {
        let mut stream = admin.connect().await;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
        stuck.push(stream);
    }
    assert_eq!(admin.get("/healthz").await.status, 200);
    assert_eq!(admin.get("/metrics").await.body.len(), 8 << 20);
}

#[tokio::test]
async fn shutdown_ends_idle_connections_and_returns() {
    let mut admin = admin().await;
    let mut kept = admin.connect().await;
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut start = [0; 12];
    timeout(LIMIT, kept.read_exact(&mut start)).await.expect("in time").expect("read");
    assert_eq!(&start, b"HTTP/1.1 200");
    let address = admin.address;
    admin.stop.take().expect("once").send(()).expect("it runs");
    let mut rest = Vec::new();
    let _ = timeout(LIMIT, kept.read_to_end(&mut rest)).await.expect("it is closed");
    timeout(LIMIT, admin.task).await.expect("it returns").expect("no panic");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
