//! HTTP/1 messages: lengths, hop-by-hop fields, authorities, old clients.

use std::time::Duration;

use forebay_tests::backend::{Backend, Gate, Step};
use forebay_tests::bodies::{
    self, CHAT, DONE, LAST_CHUNK, OK_JSON, OK_SSE, SSE_HEAD, chunk, completion, polite, response,
};
use forebay_tests::client::{self, Client, End};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::http1::{self, Head};

use crate::common::{openai_error, through, through_with};

/// What must not become a request of its own.
const SMUGGLED: &str = "GET /admin HTTP/1.1\r\nHost: g\r\n\r\n";

#[tokio::test]
async fn b16_two_framings_never_smuggle_a_request() {
    // Either it is refused, or the coding wins and the connection ends; the last
    // column says where only a refusal is right.
    let rows = [
        ("length, then coding", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", false),
        ("coding, then length", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", false),
        ("blank before the colon", "Content-Length: 6\r\nTransfer-Encoding : chunked\r\n", true),
        ("unknown coding", "Content-Length: 6\r\nTransfer-Encoding: xchunked\r\n", true),
        ("chunked not last", "Content-Length: 6\r\nTransfer-Encoding: chunked, identity\r\n", true),
        ("chunked twice", "Content-Length: 6\r\nTransfer-Encoding: chunked, chunked\r\n", false),
        (
            "two coding lines",
            "Content-Length: 6\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            false,
        ),
        (
            "two coding lines that differ",
            "Content-Length: 6\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            true,
        ),
        ("tab before the value", "Content-Length: 6\r\nTransfer-Encoding:\tchunked\r\n", false),
        ("vertical tab before the value", "Content-Length: 6\r\nTransfer-Encoding: \x0bchunked\r\n", true),
        ("folded line", "Content-Length: 6\r\nTransfer-Encoding:\r\n chunked\r\n", true),
        ("two lengths", "Content-Length: 6\r\nContent-Length: 7\r\n", true),
        ("a list of lengths", "Content-Length: 6, 7\r\n", true),
        ("a signed length", "Content-Length: +6\r\n", true),
    ];
    let (backend, gateway) = through(polite).await;
    let (mut clean, mut passed) = (0, 0);
    for (name, framing, must_refuse) in rows {
        // The entry's own body, and one that is a good request when read as chunked.
        for body in [b"0\r\n\r\n".to_vec(), http1::chunked(OK_JSON, 1000)] {
            let mut bytes =
                format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\n{framing}\r\n")
                    .into_bytes();
            bytes.extend(&body);
            bytes.extend(SMUGGLED.as_bytes());
            let mut client = gateway.connect().await;
            client.send(&bytes).await;
            let (answer, end) = client.raw_rest().await;
            assert_ne!(end, End::Limit, "{name}: the client's connection stays open");
            let statuses: Vec<u16> = answer
                .split(|b| *b == b'\n')
                .filter(|l| l.starts_with(b"HTTP/1."))
                .map(|l| Head::parse(&[l, b"\n\r\n\r\n"].concat()).map_or(0, |(h, _)| h.status()))
                .collect();
            assert!(statuses.len() <= 1, "{name}: two answers {statuses:?}: the rest was read as a request");
            match statuses[..] {
                [] | [400] | [501] => {}
                [200] if !must_refuse => passed += 1,
                _ => panic!("{name}: {statuses:?}"),
            }
            clean += 1;
            assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200, "a clean request after {name}");
        }
    }
    let requests = backend.requests();
    assert_eq!(requests.len(), clean + passed, "a refused request went on");
    for request in &requests {
        assert_eq!(request.head.target(), CHAT, "{:?}", request.head);
        assert_eq!(request.body, OK_JSON, "{:?}", request.head);
        let framings = request.head.count("content-length") + request.head.count("transfer-encoding");
        assert_eq!(framings, 1, "{:?}", request.head);
    }
    assert_eq!(backend.errors(), Vec::<String>::new());
    for connection in backend.connections() {
        assert_eq!(http1::find(&connection.bytes, b"/admin"), None);
    }
}

#[tokio::test]
async fn b16_legal_spellings_of_the_coding_are_understood() {
    let (backend, gateway) = through(polite).await;
    for (n, field) in
        ["Transfer-Encoding:\tchunked", "transfer-encoding: Chunked ", "TRANSFER-ENCODING:chunked"]
            .iter()
            .enumerate()
    {
        let head = format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\n{field}\r\n\r\n");
        let answer =
            client::exchange(gateway.addr(), &[head.as_bytes(), &http1::chunked(OK_JSON, 9)].concat()).await;
        assert_eq!(answer.status(), 200, "{field:?}");
        assert_eq!(backend.request(n).await.body, OK_JSON);
    }
}

#[tokio::test]
async fn b16_unknown_coding_alone_is_refused() {
    let (backend, gateway) = through(polite).await;
    for coding in ["xchunked", "chunked, identity", "gzip", "identity", ""] {
        let mut client = gateway.connect().await;
        let head = format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: {coding}\r\n\r\n");
        client.send(&[head.as_bytes(), &http1::chunked(OK_JSON, 1000), SMUGGLED.as_bytes()].concat()).await;
        let (answer, end) = client.raw_rest().await;
        assert_ne!(end, End::Limit, "{coding:?}");
        let status = Head::parse(&answer).map_or(400, |(h, _)| h.status());
        assert!(matches!(status, 400 | 501), "{coding:?}: {status}");
    }
    assert_eq!(backend.count(), 0);
}

/// One gateway with three aliases: shorter and longer than the target, and in several bytes per character.
async fn with_aliases(backend: &Backend) -> Gateway {
    backend.set_model("tide-7b-2026q3");
    let config = Config::new().pool("chat", "tide-7b-2026q3", [backend.url().as_str()], "").with(
        "models:\n\
         \x20 - {name: t, targets: [{model: tide-7b-2026q3, weight: 1}]}\n\
         \x20 - {name: tide-latest-and-greatest, targets: [{model: tide-7b-2026q3, weight: 1}]}\n\
         \x20 - {name: \"模型-7b\", targets: [{model: tide-7b-2026q3, weight: 1}]}\n",
    );
    Gateway::start(&config).await
}

#[tokio::test]
async fn b17_lengths_are_right_after_the_model_is_rewritten() {
    let backend = Backend::start(|r| {
        let fields = [
            ("Content-Type", "application/json"),
            ("Server", "uvicorn"),
            ("Date", "Sun, 29 Nov 2026 12:00:00 GMT"),
            ("Connection", "keep-alive"),
        ];
        let body = completion("tide-7b-2026q3", 12, 30);
        if r.index % 2 == 0 {
            return vec![Step::send(response("200 OK", &fields, &body))];
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: uvicorn\r\nDate: Sun, 29 Nov 2026 12:00:00 GMT\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (a, b) = body.split_at(150);
        vec![Step::send(head), Step::send(http1::chunk(a)), Step::send(http1::chunk(b)), Step::send(LAST_CHUNK)]
    })
    .await;
    let gateway = with_aliases(&backend).await;
    let request = |model: &str| {
        format!(
            r#"{{ "model" : "{model}","messages":[{{"role":"user","content":"tide-7b-2026q3 {model}"}}]}}"#
        )
    };
    let mut client = gateway.connect().await;
    let mut n = 0;
    for alias in ["t", "tide-latest-and-greatest", "模型-7b", "tide-7b-2026q3"] {
        for framing in ["length", "chunked"] {
            let asked = request(alias);
            let answer = client.exchange(&http1::post(CHAT, asked.as_bytes())).await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
            assert!(answer.is_complete(), "{alias} {framing}: {:?}", answer.end);
            assert_eq!(
                answer.text(),
                String::from_utf8(completion(alias, 12, 30)).unwrap(),
                "{alias} {framing}"
            );
            for field in ["content-length", "transfer-encoding", "date", "server"] {
                assert!(answer.head.count(field) <= 1, "{alias} {framing}: {:?}", answer.head);
            }
            assert_eq!(answer.head.count("content-length") + answer.head.count("transfer-encoding"), 1);
            let got = backend.request(n).await;
            let wanted = asked.replacen(&format!("\"{alias}\""), "\"tide-7b-2026q3\"", 1);
            assert_eq!(String::from_utf8_lossy(&got.body), wanted, "{alias}");
            for field in ["content-length", "transfer-encoding", "date", "server"] {
                assert!(got.head.count(field) <= 1, "{:?}", got.head);
            }
            n += 1;
        }
    }
    assert_eq!(backend.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn b19_hop_by_hop_fields_stop_at_the_gateway() {
    let (backend, gateway) = through_with("workers: 1", |_| {
        let fields = [
            ("Content-Type", "application/json"),
            ("Connection", "x-hop"),
            ("X-Hop", "1"),
            ("Keep-Alive", "timeout=2"),
            ("X-End-To-End", "1"),
        ];
        vec![Step::send(response("200 OK", &fields, &completion("tide-7b", 1, 1)))]
    })
    .await;
    let fields = [
        ("Content-Type", "application/json"),
        ("Connection", "close, X-Internal-Trace"),
        ("X-Internal-Trace", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authorization", "Basic eA=="),
        ("Proxy-Connection", "keep-alive"),
        ("TE", "trailers"),
        ("Trailer", "X-Sum"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AA"),
        ("X-End-To-End", "1"),
    ];
    let mut client = gateway.connect().await;
    let answer = client.exchange(&http1::request("POST", CHAT, &fields, OK_JSON)).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    for field in ["x-hop", "keep-alive"] {
        assert_eq!(answer.head.get(field), None, "{:?}", answer.head);
    }
    assert!(!answer.head.all("connection").iter().any(|v| v.contains("x-hop")), "{:?}", answer.head);
    assert_eq!(answer.head.get("x-end-to-end"), Some("1"));
    assert!(client.closes_within(Duration::from_secs(5)).await, "the client asked for a close");
    let got = backend.request(0).await;
    for field in [
        "x-internal-trace",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
        "http2-settings",
    ] {
        assert_eq!(got.head.get(field), None, "{field} went on to the engine");
    }
    assert!(
        got.head.all("connection").iter().all(|v| v.eq_ignore_ascii_case("keep-alive")),
        "{:?}",
        got.head
    );
    assert_eq!(got.head.get("x-end-to-end"), Some("1"));
    // The client's `close` is the client's affair: the engine's connection is used again.
    client::exchange(gateway.addr(), &http1::request("POST", CHAT, &fields, OK_JSON)).await;
    assert_eq!(backend.request(1).await.connection, got.connection);
}

#[tokio::test]
async fn b19_nominated_control_fields_cannot_be_stripped() {
    let (backend, gateway) = through(polite).await;
    let plain = [("Content-Type", "application/json"), ("Authorization", "Bearer x")];
    client::exchange(gateway.addr(), &http1::request("POST", CHAT, &plain, OK_JSON)).await;
    let wanted = backend.request(0).await.head;
    for nominated in
        ["Authorization", "Content-Length", "Host", "Content-Type", "content-length, transfer-encoding"]
    {
        let fields = [plain[0], plain[1], ("Connection", nominated)];
        let before = backend.count();
        let answer = client::exchange(gateway.addr(), &http1::request("POST", CHAT, &fields, OK_JSON)).await;
        if answer.status() == 400 {
            assert_eq!(backend.count(), before, "{nominated}: refused and sent on all the same");
            continue;
        }
        assert_eq!(answer.status(), 200, "{nominated}: {}", answer.text());
        let got = backend.request(before).await;
        assert_eq!(got.body, OK_JSON, "{nominated}");
        for field in ["authorization", "content-length", "host"] {
            assert_eq!(got.head.all(field), wanted.all(field), "{nominated}");
        }
    }
    assert_eq!(backend.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn b20_a_host_is_the_endpoints_own_name() {
    // A TLS endpoint with a name (the entry's `https://llm.internal:8443`) needs
    // TLS to engines, which is not in this version; the rule is the same for a
    // plain name.
    let backend = Backend::start(polite).await;
    let port = backend.addr().port();
    let url = format!("http://localhost:{port}");
    let gateway = Gateway::start(&Config::chat([url.as_str()])).await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(backend.request(0).await.head.all("host"), [format!("localhost:{port}")]);
}

#[tokio::test]
async fn b20_a_host_is_kept_where_the_pool_says_so() {
    let backend = Backend::start(polite).await;
    let config = Config::new().pool("chat", "tide-7b", [backend.url().as_str()], "preserve_host: true");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(backend.request(0).await.head.all("host"), ["gw.example"]);
}

#[tokio::test]
async fn b20_b_c_d_missing_double_and_broken_hosts_are_refused() {
    let (backend, gateway) = through(polite).await;
    for host in [
        "Host: gw.example\r\nHost: other.example\r\n",
        "Host: gw.example\r\nHost: gw.example\r\n",
        "",
        "Host: a,b\r\n",
        "Host: a b\r\n",
        "Host: [::1\r\n",
        "Host: a/b\r\n",
        "Host: user@a\r\n",
        "Host: a:8x\r\n",
    ] {
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\n{host}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            OK_JSON.len()
        );
        let answer = client::exchange(gateway.addr(), &[head.as_bytes(), OK_JSON].concat()).await;
        assert_eq!(answer.status(), 400, "{host:?}: {}", answer.text());
    }
    assert_eq!(backend.count(), 0);
    for good in ["[::1]:8080", "gw.example:80", "127.0.0.1", "GW.EXAMPLE."] {
        let request = http1::request("POST", CHAT, &[("Host", good)], OK_JSON);
        assert_eq!(client::exchange(gateway.addr(), &request).await.status(), 200, "{good}");
    }
}

#[tokio::test]
async fn b20_e_f_absolute_form_and_forwarded_host() {
    let (backend, gateway) = through(polite).await;
    let request = http1::request(
        "POST",
        &format!("http://other.example{CHAT}?x=1"),
        &[("Host", "gw.example"), ("X-Forwarded-Host", "evil")],
        OK_JSON,
    );
    assert_eq!(client::exchange(gateway.addr(), &request).await.status(), 200);
    let got = backend.request(0).await;
    assert_eq!(got.head.target(), format!("{CHAT}?x=1"));
    assert_eq!(got.head.all("host"), [backend.addr().to_string()]);
    // An absolute form with an empty path is a request for the root.
    let request = http1::request("GET", "http://other.example", &[("Host", "gw.example")], b"");
    assert_eq!(client::exchange(gateway.addr(), &request).await.status(), 404);
}

fn http10(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {CHAT} HTTP/1.0\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn b22_http10_client_gets_a_bare_stream_and_a_close() {
    let rows = ["", "Connection: keep-alive\r\n", "Expect: 100-continue\r\n"];
    let gates: Vec<Vec<Gate>> = rows.iter().map(|_| (0..4).map(|_| Gate::default()).collect()).collect();
    let held = gates.clone();
    let (_backend, gateway) = through(move |r| {
        let mut steps = vec![Step::send(SSE_HEAD)];
        for (n, gate) in held[r.index][..3].iter().enumerate() {
            steps.extend([Step::Wait(gate.clone()), Step::send(http1::chunk(&chunk(&n.to_string())))]);
        }
        steps.push(Step::Wait(held[r.index][3].clone()));
        steps.push(Step::send([http1::chunk(DONE), LAST_CHUNK.to_vec()].concat()));
        steps
    })
    .await;
    for (fields, gates) in rows.iter().zip(&gates) {
        let mut client = gateway.connect().await;
        client.send(&http10(fields, OK_SSE)).await;
        gates[0].open();
        let head = client.head().await;
        assert_eq!(head.status(), 200, "{fields:?}");
        assert_eq!(head.get("transfer-encoding"), None, "{fields:?}: {head:?}");
        assert_eq!(head.get("content-length"), None, "{fields:?}: {head:?}");
        for (n, gate) in gates[..3].iter().enumerate() {
            // Flushed one by one: the next gate opens only when this event is here.
            gate.open();
            let event = chunk(&n.to_string());
            client.read_until("the event without chunk framing", |got| got == event).await;
        }
        gates[3].open();
        let rest = client.rest(head).await;
        assert_eq!((rest.body.as_slice(), rest.end), (DONE, End::Fin), "{fields:?}");
    }
}

#[tokio::test]
async fn b22_http10_client_gets_a_plain_answer() {
    let (backend, gateway) = through(|r| {
        if r.index % 2 == 0 {
            return bodies::ok_json();
        }
        vec![Step::send(
            [
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                    .as_slice(),
                &http1::chunked(&completion("tide-7b", 12, 30), 50),
            ]
            .concat(),
        )]
    })
    .await;
    for fields in ["", "Connection: keep-alive\r\n"] {
        for engine in ["length", "chunked"] {
            let mut client = gateway.connect().await;
            client.send(&http10(fields, OK_JSON)).await;
            let answer = client.response().await;
            assert_eq!(answer.status(), 200, "{fields:?} {engine}");
            assert_eq!(answer.head.get("transfer-encoding"), None);
            assert_eq!(answer.body, completion("tide-7b", 12, 30), "{fields:?} {engine}");
            assert!(answer.is_complete());
            let stays = answer.head.get("connection").is_some_and(|v| v.eq_ignore_ascii_case("keep-alive"));
            if fields.is_empty() {
                assert!(!stays);
            }
            if !stays {
                assert!(
                    answer.end == End::Fin || client.closes_within(Duration::from_secs(5)).await,
                    "an HTTP/1.0 client would wait for ever"
                );
            }
        }
    }
    assert_eq!(backend.errors(), Vec::<String>::new());
    assert_eq!(backend.count(), 4);
}

#[tokio::test]
async fn errors_to_http10_clients_close_too() {
    let (_backend, gateway) = through(polite).await;
    let mut client = gateway.connect().await;
    client.send(b"GET /nope HTTP/1.0\r\n\r\n").await;
    let answer = client.response().await;
    openai_error(&answer, 404);
    assert!(answer.end == End::Fin || client.closes_within(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (_backend, gateway) = through(|r| {
        let seed = r.json()["seed"].as_u64().unwrap();
        let body = completion(&format!("answer-{seed}"), 1, 1);
        // The first takes longest.
        let pause = Duration::from_millis(100u64.saturating_sub(seed * 50));
        [vec![Step::Sleep(pause)], bodies::json("200 OK", &body)].concat()
    })
    .await;
    let bytes: Vec<u8> = (0..3)
        .flat_map(|n| {
            http1::post(
                CHAT,
                format!(r#"{{"model":"tide-7b","messages":[{{"role":"user","content":"hi"}}],"seed":{n}}}"#)
                    .as_bytes(),
            )
        })
        .collect();
    let mut client = Client::connect(gateway.addr()).await;
    client.send(&bytes).await;
    for n in 0..3 {
        assert_eq!(client.response().await.json()["model"], format!("answer-{n}"));
    }
}
