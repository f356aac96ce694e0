//! Simulated engines in this process, and what the decision log says of the
//! gateway's choices among them.

use std::path::Path;
use std::process::Command;

use forebay_engine::{Engine, EngineHandle, EngineOptions};
use forebay_sim::engine::Profile;
use forebay_tests::gateway::{Gateway, binary};

/// A running simulated engine; it ends with the test's runtime.
pub struct Sim {
    /// As a configuration names it.
    pub url: String,
    /// A look into it, and a hand on it.
    pub engine: EngineHandle,
    /// Where it publishes KV events, if it does.
    pub kv_events: String,
    /// Where they can be asked for again.
    pub kv_replay: String,
}

/// Starts one that serves `tide-7b`.
pub async fn sim(change: impl FnOnce(&mut EngineOptions)) -> Sim {
    let mut options = EngineOptions::new("tide-7b", Profile::by_name("h100-8b").unwrap());
    change(&mut options);
    let engine = Engine::bind(options).await.unwrap();
    let at = |addr: Option<std::net::SocketAddr>| addr.map(|a| format!("tcp://{a}")).unwrap_or_default();
    let sim = Sim {
        url: format!("http://{}", engine.local_addr()),
        engine: engine.handle(),
        kv_events: at(engine.kv_events_addr()),
        kv_replay: at(engine.kv_replay_addr()),
    };
    tokio::spawn(engine.run(std::future::pending::<()>()));
    sim
}

/// Several alike, this many times as fast as life.
pub async fn sims(n: usize, time_scale: f64) -> Vec<Sim> {
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(sim(|options| options.time_scale = time_scale).await);
    }
    all
}

/// Their URLs.
pub fn urls(sims: &[Sim]) -> Vec<&str> {
    sims.iter().map(|sim| sim.url.as_str()).collect()
}

/// Seconds since the gateway's start, as the decision log counts them.
pub async fn gateway_seconds(gateway: &Gateway) -> f64 {
    gateway.admin_json("/api/v1/status").await["uptime_seconds"].as_f64().unwrap()
}

/// What `forebay decisions` says of a log, with so many of its last decisions
/// explained, and whether it found everything as logged.
pub fn decisions(log: &Path, last: usize) -> (serde_json::Value, bool) {
    let output = Command::new(binary())
        .args(["decisions", "--json", "--last", &last.to_string(), "--log"])
        .arg(log)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&text).unwrap_or_else(|e| {
        panic!("{e} in what it printed: {text}\n{}", String::from_utf8_lossy(&output.stderr))
    });
    (value, output.status.success())
}

/// The tokens that a decision took an endpoint to hold of its prompt; none
/// when that endpoint is not among its explained candidates.
pub fn held_tokens(decision: &serde_json::Value, url: &str) -> Option<f64> {
    let terms = decision["terms"].as_array().unwrap();
    terms.iter().find(|t| t["endpoint"] == url).map(|t| t["held_tokens"].as_f64().unwrap())
}
