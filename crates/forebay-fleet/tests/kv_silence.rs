//! Engines that are not heard, and engines that say where they publish.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[expect(dead_code, reason = "the rest is for other tests")]
mod kv_support;

use std::sync::Arc;
use std::time::Duration;

use forebay_fleet::kv::{KvAddress, KvDiscovery, KvFeeds, KvReset, KvSettings, KvSource};
use kv_support::{Engine, Log, Seen};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

const SILENT_AFTER: Duration = Duration::from_millis(200);

fn bench() -> (KvFeeds, Arc<Log>) {
    let settings = KvSettings {
        silent_after: SILENT_AFTER,
        pause: Duration::from_millis(10),
        pause_max: Duration::from_millis(20),
        ..KvSettings::default()
    };
    let log = Arc::new(Log::default());
    (KvFeeds::new(Handle::current(), log.clone(), settings), log)
}

fn silent(endpoint: &str) -> Seen {
    Seen::Silent { endpoint: endpoint.to_owned(), rank: 0 }
}

fn heard(endpoint: &str) -> Seen {
    Seen::Heard { endpoint: endpoint.to_owned(), rank: 0 }
}

fn batch(endpoint: &str, seq: u64) -> Seen {
    Seen::Batch { endpoint: endpoint.to_owned(), rank: 0, seq }
}

/// A source that nobody can connect to.
async fn nowhere(endpoint: &str) -> KvSource {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let events = format!("tcp://{}", socket.local_addr().unwrap()).parse().unwrap();
    KvSource {
        endpoint: endpoint.to_owned(),
        rank: 0,
        events,
        bind: false,
        topic: String::new(),
        replay: None,
        key: None,
    }
}

#[tokio::test]
async fn a_dead_publisher_is_silent_until_all_it_published_is_known_again() {
    let (feeds, log) = bench();
    let mut engine = Engine::start(true).await;
    feeds.follow(engine.source());
    engine.subscribed().await;
    engine.publish(0).await;
    log.until(|seen| seen.len() == 1).await;
    let source = engine.source();
    // The port closes; the engine itself goes on.
    let closed = engine.close().await;
    log.until(|seen| seen.contains(&silent("e"))).await;
    let mut engine = closed.open(1..4).await;
    assert_eq!(engine.source().events, source.events);
    engine.subscribed().await;
    log.until(|seen| seen.contains(&batch("e", 3))).await;
    engine.publish(4).await;
    log.until(|seen| seen.contains(&batch("e", 4))).await;
    let mut expect = vec![batch("e", 0), silent("e")];
    expect.extend([heard("e"), batch("e", 1), batch("e", 2), batch("e", 3), batch("e", 4)]);
    assert_eq!(log.seen(), expect);
}

#[tokio::test]
async fn without_a_replay_the_next_batch_tells_what_is_known() {
    let (feeds, log) = bench();
    let mut engine = Engine::start(false).await;
    feeds.follow(engine.source());
    engine.subscribed().await;
    engine.publish(0).await;
    log.until(|seen| seen.len() == 1).await;
    let address = engine.address().to_owned();
    drop(engine);
    log.until(|seen| seen.contains(&silent("e"))).await;
    // Another process, whose first batch was before anybody was connected.
    let mut engine = Engine::start_at(&address).await;
    engine.subscribed().await;
    assert_eq!(log.seen().last(), Some(&silent("e")), "a connection alone says nothing");
    engine.publish(5).await;
    log.until(|seen| seen.contains(&batch("e", 5))).await;
    let reset = Seen::Reset { endpoint: "e".to_owned(), rank: 0, why: KvReset::Lost };
    assert_eq!(log.seen(), [batch("e", 0), silent("e"), reset, heard("e"), batch("e", 5)]);
}

#[tokio::test]
async fn a_quiet_engine_is_heard() {
    let (feeds, log) = bench();
    let mut engine = Engine::start(false).await;
    feeds.follow(engine.source());
    engine.subscribed().await;
    engine.publish(0).await;
    log.until(|seen| seen.len() == 1).await;
    // Three that are dead become silent one after the other.
    for name in ["a", "b", "c"] {
        feeds.follow(nowhere(name).await);
        log.until(|seen| seen.contains(&silent(name))).await;
    }
    assert_eq!(log.seen(), [batch("e", 0), silent("a"), silent("b"), silent("c")]);
    assert!(feeds.status().iter().any(|(source, status)| source.endpoint == "e" && status.connected));
}

#[tokio::test]
async fn a_quiet_engine_that_connects_to_us_is_heard() {
    let (feeds, log) = bench();
    let connects = |endpoint: &str| KvSource {
        endpoint: endpoint.to_owned(),
        rank: 0,
        events: "tcp://127.0.0.1:0".parse().unwrap(),
        bind: true,
        topic: format!("kv@{endpoint}"),
        replay: None,
        key: None,
    };
    ["e", "f"].iter().for_each(|endpoint| feeds.follow(connects(endpoint)));
    let address = loop {
        match feeds.listening().as_slice() {
            [(_, bound)] => break bound.to_string(),
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    let (mut e, _f) = (Engine::connected_to(&address).await, Engine::connected_to(&address).await);
    e.publish(0).await;
    log.until(|seen| seen.contains(&batch("e", 0))).await;
    feeds.follow(nowhere("a").await);
    log.until(|seen| seen.contains(&silent("a"))).await;
    assert_eq!(log.seen(), [batch("e", 0), silent("a")], "f has a connection, and nothing to tell");
    // A third one has none: of which it is missing does not show.
    feeds.follow(connects("g"));
    log.until(|seen| seen.contains(&silent("f")) && seen.contains(&silent("g"))).await;
    assert_eq!(log.seen().len(), 4, "e has told of something");
}

/// An engine's HTTP: answers requests one after the other, and the last one for ever.
async fn http(answers: Vec<(u16, String)>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for n in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            assert!(head.starts_with(b"GET /kv_event_sources HTTP/1.1\r\n"), "{head:?}");
            let (status, body) = &answers[n.min(answers.len() - 1)];
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    address
}

fn sources(port: &str) -> String {
    format!(
        r#"{{"0":{{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:{port}","replay_endpoint":null,"topic":"kv@e@"}}}}"#
    )
}

#[tokio::test]
async fn an_engine_is_asked_where_it_publishes_until_it_says_so() {
    let (feeds, log) = bench();
    let mut engine = Engine::start(false).await;
    let port = engine.address().rsplit(':').next().unwrap().to_owned();
    let address = http(vec![(503, String::new()), (200, sources(&port))]).await;
    feeds.discover(KvDiscovery {
        endpoint: "e".to_owned(),
        url: format!("http://{address}/"),
        key: None,
        host: "127.0.0.1".to_owned(),
        fallback: vec![nowhere("e").await],
    });
    engine.subscribed().await;
    engine.publish_under("other", 0).await;
    engine.publish(1).await;
    log.until(|seen| !seen.is_empty()).await;
    assert_eq!(log.seen(), [batch("e", 1)]);
    let (source, status) = feeds.status().remove(0);
    assert_eq!((source.topic.as_str(), source.bind, status.connected), ("kv@e@", false, true));
}

#[tokio::test]
async fn an_engine_that_does_not_say_is_looked_for_at_the_usual_address() {
    // An older vLLM, one whose events are off, and one that would be connected to.
    let elsewhere = sources("1").replace("tcp://*:1", "tcp://127.0.0.1:1");
    for (status, body) in [(404, String::new()), (200, "{}".to_owned()), (200, elsewhere)] {
        let (feeds, log) = bench();
        let mut engine = Engine::start(false).await;
        let address = http(vec![(status, body)]).await;
        feeds.discover(KvDiscovery {
            endpoint: "e".to_owned(),
            url: format!("http://{address}"),
            key: None,
            host: "127.0.0.1".to_owned(),
            fallback: vec![engine.source()],
        });
        engine.subscribed().await;
        engine.publish(0).await;
        log.until(|seen| seen.contains(&batch("e", 0))).await;
        assert!(matches!(feeds.status().as_slice(), [(KvSource { events: KvAddress::Tcp { .. }, .. }, _)]));
        feeds.unfollow("e");
        assert!(feeds.status().is_empty());
    }
}
