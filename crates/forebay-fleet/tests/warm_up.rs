//! Warm-ups: what is sent, how failures are taken, and that they end.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use forebay_core::EndpointState;
use forebay_fleet::{Fleet, HttpProbe, Membership, WarmUpEnd, WarmUpPlan};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Long enough for a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(30);

struct Owner(Mutex<mpsc::Sender<(u32, WarmUpEnd)>>);

impl Membership for Owner {
    type Id = u32;

    fn set_state(&self, _id: u32, _state: EndpointState) {}

    fn warmed(&self, id: u32, end: &WarmUpEnd) {
        let _ = self.0.lock().expect("no panic").send((id, end.clone()));
    }
}

fn fleet() -> (Fleet<Owner>, mpsc::Receiver<(u32, WarmUpEnd)>) {
    let (told, heard) = mpsc::channel();
    (Fleet::start(Arc::new(Owner(Mutex::new(told))), HttpProbe::new(), 7).expect("a thread"), heard)
}

/// One request that came: its path and its body.
type Came = (String, serde_json::Value);

#[derive(Default)]
struct Seen {
    requests: Vec<Came>,
    open: usize,
    most: usize,
}

/// An HTTP server that answers the n-th request with a status, or never.
struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(h2: bool, answer: impl Fn(usize, &str) -> Option<u16> + Send + Sync + 'static) -> Server {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = oneshot::channel();
        let (shared, answer) = (Arc::clone(&seen), Arc::new(answer));
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let accept = async {
                    loop {
                        let (stream, _) = listener.accept().await.expect("a connection");
                        let (seen, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                        let service = service_fn(move |request| {
                            let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                            async move { Ok::<_, Infallible>(serve(request, &seen, &*answer).await) }
                        });
                        let io = TokioIo::new(stream);
                        if h2 {
                            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                            tokio::spawn(http.serve_connection(io, service));
                        } else {
                            tokio::spawn(
                                hyper::server::conn::http1::Builder::new().serve_connection(io, service),
                            );
                        }
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        Server { address, seen, stop: Some(stop), thread: Some(thread) }
    }

    fn plan(&self, requests: u32) -> WarmUpPlan {
        WarmUpPlan::new(format!("http://{}", self.address), "ti\"de", requests)
    }

    fn requests(&self) -> Vec<Came> {
        self.seen.lock().expect("no panic").requests.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    request: Request<Incoming>,
    seen: &Mutex<Seen>,
    answer: &(impl Fn(usize, &str) -> Option<u16> + Sync),
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let body = serde_json::from_slice(&body).expect("JSON");
    let index = {
        let mut seen = seen.lock().expect("no panic");
        seen.requests.push((path.clone(), body));
        seen.open += 1;
        seen.most = seen.most.max(seen.open);
        seen.requests.len() - 1
    };
    let Some(status) = answer(index, &path) else { return std::future::pending().await };
    // Long enough that those that run at once are seen at once.
    tokio::time::sleep(Duration::from_millis(20)).await;
    seen.lock().expect("no panic").open -= 1;
    let mut response = Response::new(Full::from("{}"));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}

fn end(heard: &mpsc::Receiver<(u32, WarmUpEnd)>) -> (u32, WarmUpEnd) {
    heard.recv_timeout(LIMIT).expect("the end of a warm-up")
}

#[test]
fn so_many_small_inferences_are_asked_for_so_many_at_once() {
    let server = Server::start(false, |_, _| Some(200));
    let (fleet, heard) = fleet();
    fleet.warm_ups().begin(3, WarmUpPlan { concurrency: 4, ..server.plan(20) });
    assert_eq!(end(&heard), (3, WarmUpEnd::Warm));
    let requests = server.requests();
    assert_eq!(requests.len(), 20);
    for (path, body) in requests {
        assert_eq!((&*path, body["model"].as_str()), ("/v1/completions", Some("ti\"de")));
        assert_eq!((body["max_tokens"].as_u64(), body["prompt"].is_string()), (Some(8), true));
    }
    let most = server.seen.lock().expect("no panic").most;
    assert!((2..=4).contains(&most), "{most} at once");
}

#[test]
fn http2_endpoints_are_asked_in_http2() {
    let server = Server::start(true, |_, _| Some(200));
    let (fleet, heard) = fleet();
    fleet.warm_ups().begin(1, WarmUpPlan { h2c: true, ..server.plan(2) });
    assert_eq!(end(&heard), (1, WarmUpEnd::Warm));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn failures_are_tried_again() {
    let server = Server::start(false, |index, _| Some(if index % 2 == 0 { 503 } else { 200 }));
    let (fleet, heard) = fleet();
    fleet.warm_ups().begin(1, server.plan(3));
    assert_eq!(end(&heard), (1, WarmUpEnd::Warm));
    assert_eq!(server.requests().len(), 6);
}

#[test]
fn an_engine_without_completions_is_asked_for_chat() {
    let server = Server::start(false, |_, path| Some(if path == "/v1/completions" { 404 } else { 200 }));
    let (fleet, heard) = fleet();
    fleet.warm_ups().begin(1, server.plan(3));
    assert_eq!(end(&heard), (1, WarmUpEnd::Warm));
    let paths: Vec<_> = server.requests().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths[0], "/v1/completions");
    assert_eq!(paths[1..], ["/v1/chat/completions"; 3]);
    assert!(server.requests()[1].1["messages"][0]["content"].is_string());
}

#[test]
fn an_endpoint_that_takes_no_such_requests_is_soon_let_be() {
    let server = Server::start(false, |_, _| Some(400));
    let (fleet, heard) = fleet();
    fleet.warm_ups().begin(1, WarmUpPlan { concurrency: 8, ..server.plan(100) });
    let (_, WarmUpEnd::GivenUp { answered: 0, why }) = end(&heard) else { panic!("it was warmed") };
    assert!(why.contains("/v1/completions answered 400"), "{why}");
    assert!(server.requests().len() <= 16, "{}", server.requests().len());
}

#[test]
fn an_endpoint_that_does_not_answer_is_let_be_when_the_time_is_over() {
    let server = Server::start(false, |index, _| (index == 0).then_some(200));
    let (fleet, heard) = fleet();
    let limit = Duration::from_secs(1);
    fleet.warm_ups().begin(1, WarmUpPlan { limit, ..server.plan(2) });
    assert_eq!(end(&heard), (1, WarmUpEnd::GivenUp { answered: 1, why: "no answer in time".to_owned() }));
    // Each request has a limit of its own, within the whole.
    fleet
        .warm_ups()
        .begin(2, WarmUpPlan { limit, request_limit: Duration::from_millis(20), ..server.plan(1) });
    let (2, WarmUpEnd::GivenUp { why, .. }) = end(&heard) else { panic!("it was warmed") };
    assert!(why.contains("no complete answer within 20ms"), "{why}");
    assert!(server.requests().len() >= 4, "it was not tried again");
}

#[test]
fn of_a_warm_up_that_was_stopped_nothing_is_told() {
    let server = Server::start(false, |index, _| (index > 1).then_some(200));
    let (fleet, heard) = fleet();
    fleet.warm_ups().begin(1, server.plan(1));
    // Another one takes its place, and is stopped.
    fleet.warm_ups().begin(1, server.plan(1));
    fleet.warm_ups().stop(1);
    fleet.warm_ups().stop(1);
    fleet.warm_ups().begin(2, WarmUpPlan { request_limit: Duration::from_millis(200), ..server.plan(1) });
    assert_eq!(end(&heard), (2, WarmUpEnd::Warm));
    assert!(heard.try_recv().is_err());
}
