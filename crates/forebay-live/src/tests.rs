use std::sync::Arc;
use std::time::Duration;

use forebay_core::*;
use forebay_gate::*;

use crate::{Live, LogError, LogOptions, replay};

const POOL: PoolId = PoolId(0);

fn facts() -> RequestFacts {
    RequestFacts {
        pool: POOL,
        prompt_tokens: 100,
        output_tokens: 50,
        stream: true,
        affinity: 7,
        ..RequestFacts::default()
    }
}

fn pool(live: &Live<&'static str>) -> PoolLoad {
    live.pool(POOL).unwrap()
}

fn live_with(limit: Option<u32>, max_wait: Duration) -> Arc<Live<&'static str>> {
    let live = Live::new(vec![0], Some(1), forebay_prefix::IndexConfig::default());
    let admission = AdmissionConfig { limit, queue: 2, max_wait };
    live.configure(POOL, PoolConfig { admission, ..PoolConfig::default() });
    for name in ["a", "b"] {
        let facts = EndpointFacts::named(name);
        live.join(POOL, facts, EndpointState::Ready, Arc::new(name)).unwrap();
    }
    Arc::new(live)
}

fn finished() -> Outcome {
    Outcome::without_answer(EndKind::Finished, Duration::ZERO)
}

#[tokio::test]
async fn dropping_a_ticket_gives_everything_back() {
    let live = live_with(None, Duration::from_secs(5));
    let ticket = live.admit(facts()).await.unwrap();
    assert_eq!(pool(&live).in_flight, 1);
    drop(ticket);
    assert_eq!((pool(&live).in_flight, live.unsettled()), (0, 0));
    live.admit(facts()).await.unwrap().settle(finished());
    assert_eq!((pool(&live).in_flight, live.unsettled()), (0, 0));
    assert_eq!(live.decisions(10).len(), 2);
}

#[tokio::test]
async fn a_waiting_request_is_woken_by_the_one_that_ends() {
    let live = live_with(Some(1), Duration::from_secs(60));
    let first = live.admit(facts()).await.unwrap();
    let waiting = tokio::spawn({
        let live = Arc::clone(&live);
        async move { live.admit(facts()).await }
    });
    while pool(&live).waiting == 0 {
        tokio::task::yield_now().await;
    }
    first.settle(finished());
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(pool(&live).in_flight, 1);
    drop(second);
    assert_eq!(live.unsettled(), 0);
}

#[tokio::test]
async fn giving_up_while_waiting_or_just_woken_leaks_nothing() {
    let live = live_with(Some(1), Duration::from_secs(60));
    let first = live.admit(facts()).await.unwrap();
    // Polled once, so that it waits; then given up.
    for woken_first in [false, true] {
        let mut wait = Box::pin(live.admit(facts()));
        let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx).is_pending()));
        assert!(poll.await);
        assert_eq!(pool(&live).waiting, 1);
        if woken_first {
            live.set_state(live.endpoints()[0].key, EndpointState::Ready);
        }
        drop(wait);
        assert_eq!(pool(&live).waiting, 0);
    }
    let mut wait = Box::pin(live.admit(facts()));
    let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx).is_pending()));
    assert!(poll.await);
    drop(first); // wakes it
    assert_eq!(pool(&live).in_flight, 1);
    drop(wait); // before it could take its ticket
    assert_eq!((pool(&live).in_flight, live.unsettled()), (0, 0));
}

#[tokio::test]
async fn waiting_too_long_is_refused_without_any_other_event() {
    let live = live_with(Some(1), Duration::from_millis(30));
    let _first = live.admit(facts()).await.unwrap();
    let refusal = live.admit(facts()).await.unwrap_err();
    assert_eq!(refusal.reason, RefuseReason::QueueTimeout);
    assert_eq!(pool(&live).waiting, 0);
}

#[tokio::test]
async fn a_second_choice_is_another_endpoint() {
    let live = live_with(None, Duration::ZERO);
    let mut ticket = live.admit(facts()).await.unwrap();
    let first = *ticket.member().as_ref();
    ticket.repick(RepickReason::Connect).unwrap();
    assert_ne!(*ticket.member().as_ref(), first);
    assert_eq!(ticket.repick(RepickReason::Connect).unwrap_err().reason, RefuseReason::Exhausted);
    drop(ticket);
    assert_eq!(live.unsettled(), 0);
}

/// Two threads decide, progress, cancel and report at once while the log is
/// rotated; what is left of it replays to the same decisions.
#[test]
fn the_decision_log_replays_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.log");
    let live = live_with(Some(40), Duration::from_secs(60));
    live.record(&LogOptions { path: path.clone(), max_bytes: 1 << 20 }).unwrap();
    let worker = |worker: u64| {
        let live = Arc::clone(&live);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let endpoints = live.endpoints();
                let mut open = Vec::new();
                let mut done = 0;
                for n in 0..3_000u64 {
                    // No faster than the writer: what waits when a file ends is lost.
                    if n % 10 == 0 {
                        let ended = || live.log_counts().map_or(0, |c| c.written + c.lost);
                        while ended() < done {
                            tokio::task::yield_now().await;
                        }
                        done = ended() + 10;
                    }
                    let group = n % 7;
                    let chain =
                        (0..20).map(|i| if i < 8 { group * 100 + i } else { worker << 32 | n << 8 | i });
                    let prefix = Prefix { chain: chain.collect(), block_tokens: 64.0, ..Prefix::default() };
                    let facts = RequestFacts {
                        prompt_tokens: 1300,
                        stream: n % 3 != 0,
                        slo: Slo { ttft_ms: Some(2000.0), tpot_ms: Some(50.0) },
                        prefix,
                        ..facts()
                    };
                    open.push(live.admit(facts).await.unwrap());
                    if n % 50 == 0 {
                        let key = endpoints[(n / 50) as usize % endpoints.len()].key;
                        let report = LoadReport { running: Some(n as u32 % 9), ..LoadReport::default() };
                        live.report(key, report, 64.0);
                        live.network(key, Duration::from_micros(100 + n));
                    }
                    if open.len() > 10 {
                        let mut ticket = open.remove(n as usize % 10);
                        ticket.progress(1);
                        match n % 4 {
                            0 => drop(ticket),
                            1 => {
                                let _ = ticket.repick(RepickReason::Connect);
                            }
                            _ => {
                                let usage = Usage {
                                    completion_tokens: 30,
                                    cached_known: true,
                                    cached_tokens: 512,
                                    ..Usage::default()
                                };
                                let ms = Duration::from_millis;
                                ticket.settle(Outcome {
                                    end: EndKind::Finished,
                                    ttft: Some(ms(5)),
                                    duration: ms(200),
                                    usage: Some(usage),
                                });
                            }
                        }
                    }
                }
            });
        })
    };
    let workers = [worker(1), worker(2)];
    for worker in workers {
        worker.join().unwrap();
    }
    let counts = live.log_counts().unwrap();
    live.end_record();
    assert_eq!((counts.full, counts.failed), (0, 0));
    assert_eq!(live.unsettled(), 0);

    let mut decisions = 0;
    for name in ["decisions.log.1", "decisions.log"] {
        let file = std::fs::File::open(folder.path().join(name)).unwrap();
        let report = replay(std::io::BufReader::new(file), |_, record| {
            decisions += 1;
            assert!(record.top().next().is_some());
        })
        .unwrap();
        assert_eq!(
            (report.mismatches, report.cut_off, report.other_build),
            (0, 0, false),
            "{name}: {report:?}"
        );
        // The last file may have just begun.
        if name.ends_with(".1") {
            assert!(report.snapshots >= 1 && report.decisions > 100, "{name}: {report:?}");
        }
    }
    assert!(decisions > 300);

    // A log that was tampered with does not pass.
    let bytes = std::fs::read(folder.path().join("decisions.log.1")).unwrap();
    let seen = (1..40).any(|n| {
        let mut bytes = bytes.clone();
        let at = bytes.len() / 2 + n * 37;
        bytes[at] ^= 1;
        replay(bytes.as_slice(), |_, _| {}).map_or(true, |report| report.mismatches > 0)
    });
    assert!(seen);

    // One of another build is called that, not damaged and not deciding wrongly.
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let other = [&b"forebay decision log 1 0.0.9 release"[..], &bytes[end..]].concat();
    let report = replay(other.as_slice(), |_, _| {}).unwrap();
    assert_eq!((report.other_build, report.build.as_str()), (true, "0.0.9 release"));
    let unreadable = [&b"forebay decision log 1 0.0.9 release\n\x01\0\0\0\0\0\0\0\xc1"[..]].concat();
    let said = replay(unreadable.as_slice(), |_, _| {}).unwrap_err().to_string();
    assert!(
        said.contains("another build (0.0.9 release; this is ") && said.contains(crate::build()),
        "{said}"
    );
    assert!(matches!(replay(&b"something else\n"[..], |_, _| {}), Err(LogError::NotALog)));
}
