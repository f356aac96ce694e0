//! An engine whose KV-cache events are asked for, as TensorRT-LLM wants it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[expect(dead_code, reason = "the rest is for engines that publish")]
mod kv_support;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use forebay_config::Secret;
use forebay_fleet::kv::{KvFeeds, KvReset, KvSettings, KvSource};
use kv_support::{Log, Seen};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// What is answered next: a status and a body. Nothing more: an empty list.
type Answers = Arc<Mutex<VecDeque<(u16, String)>>>;

/// An engine's server, for as long as the set of tasks lives.
async fn serve(answers: Answers) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let answers = answers.clone();
            connections.spawn(async move {
                let mut request = Vec::new();
                loop {
                    while !request.ends_with(b"\r\n\r\n{}") {
                        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    assert!(request.starts_with(b"POST /kv_cache_events HTTP/1.1\r\n"));
                    let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
                    assert!(head.contains("\r\nauthorization: bearer hunter2\r\n"), "{head}");
                    request.clear();
                    let (status, body) = answers.lock().pop_front().unwrap_or((200, "[]".to_owned()));
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
                    if stream.write_all((head + &body).as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, tasks)
}

/// An answer with events of these numbers and ranks.
fn events(of: &[(u64, Option<u32>)]) -> (u16, String) {
    let event = |(id, rank): &(u64, Option<u32>)| {
        let rank = rank.map(|rank| format!(",\"attention_dp_rank\":{rank}")).unwrap_or_default();
        format!("{{\"event_id\":{id},\"data\":{{\"type\":\"removed\",\"block_hashes\":[7]}}{rank}}}")
    };
    (200, format!("[{}]", of.iter().map(event).collect::<Vec<_>>().join(",")))
}

fn batch(rank: u32, seq: u64) -> Seen {
    Seen::Batch { endpoint: "e".to_owned(), rank, seq }
}

fn reset(rank: u32, why: KvReset) -> Seen {
    Seen::Reset { endpoint: "e".to_owned(), rank, why }
}

/// Follows an engine that gives these answers until all that is expected was seen.
async fn follow(
    answers: impl IntoIterator<Item = (u16, String)>,
    expect: &[Seen],
) -> forebay_fleet::kv::KvStatus {
    let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
    let (url, _server) = serve(answers).await;
    let log = Arc::new(Log::default());
    let settings = KvSettings { pause: Duration::from_millis(10), ..KvSettings::default() };
    let feeds = KvFeeds::new(Handle::current(), log.clone(), settings);
    feeds.follow(KvSource::polled("e", &url).with_key(Some(Secret::new("hunter2"))));
    log.until(|seen| seen.len() >= expect.len()).await;
    assert_eq!(log.seen(), expect);
    let (source, status) = feeds.status().remove(0);
    assert_eq!(source.events.to_string(), format!("{url}kv_cache_events"));
    status
}

#[tokio::test]
async fn events_come_in_order_and_by_rank() {
    // Ranks that count together, and ranks that count alone.
    for ids in [[0, 1, 2, 3], [0, 0, 1, 1]] {
        let of = |at: usize| (ids[at], Some(at as u32 % 2));
        let expect: Vec<Seen> = (0..4).map(|at| batch(at as u32 % 2, ids[at])).collect();
        let status = follow([events(&[of(0), of(1)]), events(&[]), events(&[of(2), of(3)])], &expect).await;
        assert_eq!((status.connected, status.connections, status.events), (true, 1, 4));
        assert_eq!((status.gaps, status.resets, status.restarts, status.failures), (0, 0, 0, 0));
    }
}

#[tokio::test]
async fn who_comes_late_has_nothing_to_forget() {
    let status = follow([events(&[(700, None), (701, None)])], &[batch(0, 700), batch(0, 701)]).await;
    assert_eq!((status.gaps, status.resets), (0, 0));
}

#[tokio::test]
async fn what_is_missing_makes_all_ranks_forgotten() {
    let answers = [events(&[(0, Some(0)), (1, Some(1))]), events(&[(5, Some(1)), (6, Some(0))])];
    let lost = [reset(0, KvReset::Lost), reset(1, KvReset::Lost)];
    let expect = [&[batch(0, 0), batch(1, 1)], &lost[..], &[batch(1, 5), batch(0, 6)]].concat();
    let status = follow(answers, &expect).await;
    assert_eq!((status.gaps, status.resets, status.restarts), (1, 1, 0));
}

#[tokio::test]
async fn numbers_that_begin_anew_are_a_restart() {
    let answers = [events(&[(0, None), (1, None)]), (503, String::new()), events(&[(0, None), (1, None)])];
    let again = [reset(0, KvReset::Restarted), batch(0, 0), batch(0, 1)];
    let status = follow(answers, &[&[batch(0, 0), batch(0, 1)], &again[..]].concat()).await;
    assert_eq!((status.restarts, status.resets, status.failures), (1, 0, 1));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_makes_it_forgotten() {
    let answers = [events(&[(3, None)]), (200, "{\"detail\":1}".to_owned()), events(&[(9, None)])];
    let expect = [batch(0, 3), reset(0, KvReset::Unreadable), batch(0, 9)];
    let status = follow(answers, &expect).await;
    assert_eq!((status.unreadable, status.resets, status.gaps), (1, 1, 0));
}
