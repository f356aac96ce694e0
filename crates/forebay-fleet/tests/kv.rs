//! Subscriptions to publishers made of another implementation of ZeroMQ.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[expect(dead_code, reason = "the rest is for other tests")]
mod kv_support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_fleet::kv::{KvFeeds, KvReset, KvSettings, KvSource, KvStatus};
use kv_support::{Engine, Log, Seen, payload};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

fn settings() -> KvSettings {
    KvSettings {
        message: Duration::from_millis(500),
        pause: Duration::from_millis(10),
        pause_max: Duration::from_millis(50),
        ..KvSettings::default()
    }
}

struct Bench {
    feeds: KvFeeds,
    log: Arc<Log>,
}

impl Bench {
    fn new(settings: KvSettings) -> Bench {
        let log = Arc::new(Log::default());
        Bench { feeds: KvFeeds::new(Handle::current(), log.clone(), settings), log }
    }

    /// Follows `engine` and waits until it knows.
    async fn follow(&self, engine: &mut Engine) {
        self.feeds.follow(engine.source());
        engine.subscribed().await;
    }

    fn status(&self) -> KvStatus {
        self.feeds.status()[0].1
    }

    async fn expect(&self, expect: &[Seen]) {
        self.log.until(|seen| seen.len() >= expect.len()).await;
        assert_eq!(self.log.seen(), expect, "{:?}", self.status());
    }
}

fn batches(range: std::ops::Range<u64>) -> Vec<Seen> {
    range.map(|seq| Seen::Batch { endpoint: "e".to_owned(), rank: 0, seq }).collect()
}

fn reset(why: KvReset) -> Seen {
    Seen::Reset { endpoint: "e".to_owned(), rank: 0, why }
}

#[tokio::test]
async fn batches_of_the_topic_come_in_order() {
    let mut engine = Engine::start(false).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    for seq in 0..3 {
        engine.publish_under("other", seq).await;
        engine.publish(seq).await;
    }
    bench.expect(&batches(0..3)).await;
    let status = bench.status();
    assert!(status.connected);
    assert_eq!((status.connections, status.batches, status.gaps, status.resets), (1, 3, 0, 0));
}

#[tokio::test]
async fn what_was_published_before_is_asked_for_at_once() {
    let mut engine = Engine::start(true).await;
    (0..5).for_each(|seq| engine.remember(seq));
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    bench.expect(&batches(0..5)).await;
    engine.publish(5).await;
    bench.expect(&batches(0..6)).await;
    assert_eq!((bench.status().replayed, bench.status().gaps), (5, 0));
}

#[tokio::test]
async fn a_gap_is_filled_from_the_replay() {
    let mut engine = Engine::start(true).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    engine.publish(0).await;
    bench.expect(&batches(0..1)).await;
    (1..4).for_each(|seq| engine.remember(seq));
    engine.publish(4).await;
    bench.expect(&batches(0..5)).await;
    engine.publish(5).await;
    bench.expect(&batches(0..6)).await;
    let status = bench.status();
    assert_eq!((status.gaps, status.resets), (1, 0));
    assert!(status.replayed >= 4, "4 came with the replay, and 0 perhaps with the first");
}

#[tokio::test]
async fn what_the_engine_no_longer_has_is_forgotten() {
    let mut engine = Engine::start(true).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    engine.publish(0).await;
    bench.expect(&batches(0..1)).await;
    engine.forget_all();
    (7..9).for_each(|seq| engine.remember(seq));
    engine.publish(9).await;
    let expect = [batches(0..1), vec![reset(KvReset::Lost)], batches(7..10)].concat();
    bench.expect(&expect).await;
}

#[tokio::test]
async fn a_replay_without_an_answer_ends_in_a_reset() {
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut engine = Engine::start(false).await;
    let source = KvSource { replay: Some(tcp(silent.local_addr().unwrap())), ..engine.source() };
    let quick = Duration::from_millis(100);
    let bench = Bench::new(KvSettings { message: quick, connect: quick, ..settings() });
    bench.feeds.follow(source);
    engine.subscribed().await;
    for seq in [0, 4, 5] {
        engine.publish(seq).await;
    }
    let expect = [batches(0..1), vec![reset(KvReset::Lost)], batches(4..6)].concat();
    bench.expect(&expect).await;
    let status = bench.status();
    assert_eq!((status.gaps, status.resets, status.failed_replays), (1, 1, 2));
}

#[tokio::test]
async fn a_late_subscriber_without_a_replay_takes_what_comes() {
    let mut engine = Engine::start(false).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    engine.publish(7).await;
    bench.expect(&batches(7..8)).await;
    assert_eq!(bench.status().resets, 0, "there was nothing to forget");
}

#[tokio::test]
async fn an_engine_that_restarted_is_noticed_by_its_numbers() {
    let mut engine = Engine::start(false).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    for seq in 0..3 {
        engine.publish(seq).await;
    }
    bench.expect(&batches(0..3)).await;
    let mut engine = engine.restart(1).await;
    engine.subscribed().await;
    engine.publish(0).await;
    let expect = [batches(0..3), vec![reset(KvReset::Restarted)], batches(0..1)].concat();
    bench.expect(&expect).await;
}

#[tokio::test]
async fn a_restart_that_numbers_do_not_show_is_seen_in_the_replay() {
    let mut engine = Engine::start(true).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    for seq in 0..3 {
        engine.publish(seq).await;
    }
    bench.expect(&batches(0..3)).await;
    // The new process has published more than the old one, all of it unheard.
    let mut engine = engine.restart(5).await;
    engine.subscribed().await;
    let expect = [batches(0..3), vec![reset(KvReset::Restarted)], batches(0..5)].concat();
    bench.expect(&expect).await;
    assert_eq!(bench.status().restarts, 1);
}

#[tokio::test]
async fn a_restarted_engine_that_has_said_nothing_is_noticed_too() {
    let mut engine = Engine::start(true).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    engine.publish(0).await;
    bench.expect(&batches(0..1)).await;
    let mut engine = engine.restart(0).await;
    engine.subscribed().await;
    bench.expect(&[batches(0..1), vec![reset(KvReset::Restarted)]].concat()).await;
}

#[tokio::test]
async fn a_broken_connection_to_the_same_process_loses_nothing() {
    let mut engine = Engine::start(true).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    engine.publish(0).await;
    engine.publish(1).await;
    bench.expect(&batches(0..2)).await;
    let mut engine = engine.reconnect(2..6).await;
    engine.subscribed().await;
    bench.expect(&batches(0..6)).await;
    let status = bench.status();
    assert_eq!((status.connections, status.resets, status.restarts), (2, 0, 0));
}

#[tokio::test]
async fn missed_last_batches_are_found_when_it_is_quiet() {
    let mut engine = Engine::start(true).await;
    let bench = Bench::new(KvSettings { idle: Duration::from_millis(50), ..settings() });
    bench.follow(&mut engine).await;
    engine.publish(0).await;
    bench.expect(&batches(0..1)).await;
    engine.remember(1);
    bench.expect(&batches(0..2)).await;
}

#[tokio::test]
async fn a_batch_that_cannot_be_read_is_a_reset() {
    let mut engine = Engine::start(false).await;
    let bench = Bench::new(settings());
    bench.follow(&mut engine).await;
    engine.publish(0).await;
    engine.send(&[b"kv@e", &1u64.to_be_bytes(), b"\xc1"]).await;
    engine.send(&[b"kv@e"]).await;
    engine.publish(2).await;
    let expect = [batches(0..1), vec![reset(KvReset::Unreadable)], batches(2..3)].concat();
    bench.expect(&expect).await;
    assert_eq!(bench.status().unreadable, 2);
}

#[tokio::test]
async fn what_is_no_publisher_is_tried_again() {
    let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bench = Bench::new(settings());
    let events = tcp(http.local_addr().unwrap());
    bench.feeds.follow(KvSource {
        endpoint: "e".to_owned(),
        rank: 0,
        events,
        bind: false,
        topic: String::new(),
        replay: None,
        key: None,
    });
    for _ in 0..3 {
        let (mut stream, _) = http.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await.unwrap();
    }
    assert!(bench.log.seen().is_empty());
    assert!(bench.status().failures >= 2 && !bench.status().connected);
}

#[tokio::test]
async fn dropped_feeds_close_their_connections() {
    let engine = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bench = Bench::new(settings());
    let source = |endpoint: &str| KvSource {
        endpoint: endpoint.to_owned(),
        rank: 0,
        events: tcp(engine.local_addr().unwrap()),
        bind: false,
        topic: String::new(),
        replay: None,
        key: None,
    };
    bench.feeds.follow(source("a"));
    let (mut a, _) = engine.accept().await.unwrap();
    bench.feeds.follow(source("b"));
    let (mut b, _) = engine.accept().await.unwrap();
    let mut end = Vec::new();
    bench.feeds.unfollow("a");
    a.read_to_end(&mut end).await.unwrap();
    assert_eq!(bench.feeds.status().len(), 1);
    drop(bench.feeds);
    b.read_to_end(&mut end).await.unwrap();
}

#[tokio::test]
async fn engines_may_connect_to_us() {
    let bench = Bench::new(settings());
    let listen = tcp("127.0.0.1:0".parse().unwrap());
    for (endpoint, rank, topic) in [("a", 0, "kv@a"), ("a", 1, "kv@a"), ("b", 0, "kv@b")] {
        bench.feeds.follow(KvSource {
            endpoint: endpoint.to_owned(),
            rank,
            events: listen.clone(),
            bind: true,
            topic: topic.to_owned(),
            replay: None,
            key: None,
        });
    }
    let address = loop {
        match bench.feeds.listening().as_slice() {
            [(_, bound)] => break bound.to_string(),
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    let mut engines = Vec::new();
    for _ in 0..3 {
        engines.push(Engine::connected_to(&address).await);
    }
    for (at, topic, rank) in
        [(0, "kv@a", 0u8), (1, "kv@a", 1), (2, "kv@b", 0), (2, "kv@c", 0), (2, "kv@b", 1)]
    {
        engines[at].send(&[topic.as_bytes(), &0u64.to_be_bytes(), &payload(0.0, rank)]).await;
        engines[at].send(&[topic.as_bytes(), &1u64.to_be_bytes(), &payload(1.0, rank)]).await;
    }
    bench.log.until(|seen| seen.len() >= 6).await;
    let mut seen = bench.log.seen();
    seen.sort();
    let expect = [("a", 0, 0), ("a", 0, 1), ("a", 1, 0), ("a", 1, 1), ("b", 0, 0), ("b", 0, 1)];
    let expect = expect.map(|(endpoint, rank, seq)| Seen::Batch { endpoint: endpoint.to_owned(), rank, seq });
    assert_eq!(seen, expect);
    // The last of them takes the listener with it.
    bench.feeds.unfollow("a");
    assert_eq!(bench.feeds.listening().len(), 1);
    bench.feeds.unfollow("b");
    assert_eq!(bench.feeds.listening(), []);
}

#[tokio::test]
async fn a_unix_socket_that_somebody_left_is_taken_over() {
    let folder = std::env::temp_dir().join(format!("forebay-kv-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("kv.ipc");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let bench = Bench::new(settings());
    bench.feeds.follow(KvSource {
        endpoint: "e".to_owned(),
        rank: 0,
        events: format!("ipc://{}", path.display()).parse().unwrap(),
        bind: true,
        topic: String::new(),
        replay: None,
        key: None,
    });
    while bench.feeds.listening().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    let mut greeting = [0; 64];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!((greeting[0], greeting[9]), (0xff, 0x7f));
    std::fs::remove_dir_all(folder).unwrap();
}

fn tcp(address: SocketAddr) -> forebay_fleet::kv::KvAddress {
    format!("tcp://{address}").parse().unwrap()
}
