use std::rc::Rc;
use std::time::Duration;

use super::answers::EVENT_BYTES;
use super::*;
use crate::copy;
use crate::load::{Answer, ClosedLoop, Connection, Requests, Streams, stream_request};

const LIMIT: Duration = Duration::from_secs(20);

/// Runs `body` with the addresses of a stub and of a copy proxy before it.
fn with_stub<F: Future<Output = ()>>(body: impl FnOnce(SocketAddr, SocketAddr) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let stub = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stub_address = stub.local_addr().unwrap();
        let copy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let copy_address = copy.local_addr().unwrap();
        spawn_local(serve(stub));
        spawn_local(copy::serve(copy, vec![stub_address]));
        tokio::time::timeout(LIMIT, body(stub_address, copy_address)).await.unwrap();
    });
}

fn wish(events: u32, hold: bool) -> Wish {
    Wish { events, pace: Duration::from_millis(1), hold }
}

#[test]
fn answers_whole_and_streamed_on_one_connection() {
    with_stub(|stub, copy| async move {
        for address in [stub, copy] {
            let mut connection = Connection::open(address, &Scratch::new()).await.unwrap();
            for bytes in [1024, 300_000] {
                let requests = Requests::chat(bytes);
                let answer = connection.exchange(requests.get(0), &|| {}).await.unwrap();
                assert!(answer.is_whole(ANSWER_BYTES), "{answer:?}");
            }
            let answer = connection.exchange(&stream_request(wish(5, false)), &|| {}).await.unwrap();
            assert_eq!((answer.status, answer.events), (200, 7));
            assert!(answer.body > 5 * EVENT_BYTES as u64);
        }
    });
}

#[test]
fn answers_probes_and_refuses_chunked_bodies() {
    with_stub(|stub, _| async move {
        for (request, status) in [
            ("GET /health HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        ] {
            let mut connection = Connection::open(stub, &Scratch::new()).await.unwrap();
            let answer: Answer = connection.exchange(request.as_bytes(), &|| {}).await.unwrap();
            assert_eq!(answer.status, status, "{request:?}");
        }
    });
}

#[test]
fn the_closed_loop_counts_answers() {
    with_stub(|_, copy| async move {
        let load = ClosedLoop::start(copy, 3, None, &Rc::new(Requests::chat(1024)), &Scratch::new());
        while load.counters().done() < 50 {
            tokio::task::yield_now().await;
        }
        assert_eq!((load.counters().failed(), load.counters().first_failure()), (0, None));
        load.stop().await;
    });
}

#[test]
fn failures_are_counted_and_named() {
    with_stub(|_, _| async move {
        // Bound and dropped: nothing listens there.
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let load = ClosedLoop::start(closed, 1, None, &Rc::new(Requests::chat(1024)), &Scratch::new());
        while load.counters().failed() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(load.counters().first_failure().unwrap().contains("connect"));
        assert_eq!(load.counters().done(), 0);
        load.stop().await;
    });
}

#[test]
fn streams_are_held_or_end_by_themselves() {
    with_stub(|_, copy| async move {
        let held = Streams::start(copy, 4, wish(2, true), &Scratch::new());
        held.all_have(2).await.unwrap();
        assert_eq!((held.counters().events(), held.counters().done()), (8, 0));
        held.abandon();

        let ending = Streams::start(copy, 4, wish(3, false), &Scratch::new());
        let counters = ending.counters().clone();
        ending.finish().await;
        assert_eq!((counters.done(), counters.events(), counters.failed()), (4, 20, 0));
    });
}
