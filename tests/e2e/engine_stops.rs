//! A client that leaves stops the engine: measured at simulated engines, which
//! count what they still generate.

use std::net::SocketAddr;
use std::time::Duration;

use forebay_engine::{Engine, EngineHandle, EngineOptions};
use forebay_sim::engine::Profile;
use forebay_tests::client::Client;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::{http1, wait};
use tokio::time::Instant;

use crate::common::{Dice, wait_endpoints};

/// The promise is 1 s; a busy machine gets some room.
const LIMIT: Duration = Duration::from_secs(3);

async fn engine() -> (String, EngineHandle) {
    let mut options = EngineOptions::new("tide-7b", Profile::by_name("h100-8b").unwrap());
    options.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let engine = Engine::bind(options).await.unwrap();
    let (url, handle) = (format!("http://{}", engine.local_addr()), engine.handle());
    tokio::spawn(engine.run(std::future::pending::<()>()));
    (url, handle)
}

/// Nothing is being answered, generated or kept waiting.
fn is_still(engine: &EngineHandle) -> bool {
    let stats = engine.stats();
    stats.in_flight == 0 && stats.load.running == 0 && stats.load.waiting == 0 && stats.load.blocks_used == 0
}

/// A request that would run for a minute, streamed or not.
fn long_request(kind: usize, streamed: bool) -> Vec<u8> {
    let (path, fields) = [
        ("/v1/chat/completions", r#""messages":[{"role":"user","content":"hi"}],"max_tokens":6000"#),
        ("/v1/completions", r#""prompt":"hi","max_tokens":6000"#),
        ("/v1/messages", r#""messages":[{"role":"user","content":"hi"}],"max_tokens":6000"#),
        ("/v1/responses", r#""input":"hi","max_output_tokens":6000"#),
    ][kind];
    let body =
        format!(r#"{{"model":"tide-7b","ignore_eos":true,"min_tokens":6000,{fields},"stream":{streamed}}}"#);
    http1::post(path, body.as_bytes())
}

fn leave(client: Client, how: usize) -> Option<Client> {
    match how {
        0 => client.reset(),
        1 => client.close(),
        _ => {
            client.half_close();
            return Some(client);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_stops_within_a_second_of_its_client_leaving() {
    let (url, engine) = engine().await;
    let gateway = Gateway::start(&Config::chat([url.as_str()])).await;
    wait_endpoints(&gateway, 1).await;
    let mut dice = Dice(7);
    let mut took = Vec::new();
    for n in 0..24 {
        let mut client = Client::connect(gateway.addr()).await;
        client.send(&long_request(n % 4, n % 8 < 4)).await;
        wait::until("the engine to begin", || (engine.stats().load.running > 0).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(dice.below(60) as u64)).await;
        let left = Instant::now();
        let _open = leave(client, n % 3);
        wait::until("the engine to stop", || is_still(&engine).then_some(())).await;
        took.push(left.elapsed());
    }
    took.sort_unstable();
    println!(
        "from leaving to standing still: median {:?}, slowest {:?}",
        took[took.len() / 2],
        took[took.len() - 1]
    );
    assert!(took[took.len() - 1] < LIMIT, "{took:?}");
    gateway.wait_idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_clients_that_leave_at_random_leave_no_engine_working() {
    let engines = [engine().await, engine().await];
    let urls: Vec<&str> = engines.iter().map(|(url, _)| url.as_str()).collect();
    let gateway = Gateway::start(&Config::chat(urls)).await;
    wait_endpoints(&gateway, 2).await;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..200 {
        let addr = gateway.addr();
        all.spawn(async move {
            let mut dice = Dice(100 + n as u64);
            tokio::time::sleep(Duration::from_millis(dice.below(800) as u64)).await;
            let mut client = Client::connect(addr).await;
            let request = long_request(dice.below(4), dice.below(2) == 0);
            // One in eight leaves in the middle of its request.
            let cut = if dice.below(8) == 0 { dice.below(request.len() - 1) + 1 } else { request.len() };
            client.send(&request[..cut]).await;
            tokio::time::sleep(Duration::from_millis(dice.below(400) as u64)).await;
            if let Some(open) = leave(client, dice.below(3)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(open);
            }
        });
    }
    all.join_all().await;
    let left = Instant::now();
    wait::until("both engines to stop", || engines.iter().all(|(_, e)| is_still(e)).then_some(())).await;
    assert!(left.elapsed() < LIMIT, "{:?}", left.elapsed());
    gateway.wait_idle().await;
    let asked: u64 = engines.iter().map(|(_, e)| e.stats().requests).sum();
    assert!(asked > 100, "only {asked} requests reached an engine: the test proves little");
}
