//! The live side: `forebay engine` processes behind `forebay serve`.

use std::process::Stdio;
use std::sync::Arc;

use forebay_gate::PolicyKind;
use forebay_load::{Live, ReplayOptions, Summary, replay};
use forebay_tests::LIMIT;
use forebay_tests::config::Config;
use forebay_tests::gateway::{Gateway, binary};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::{KV_TOKENS, PROFILE, SLO_TPOT_MS, SLO_TTFT_MS};

/// A simulated engine in a process of its own; it is killed with this handle.
struct Engine {
    _child: Child,
    url: String,
}

impl Engine {
    async fn start(time_scale: f64) -> Engine {
        let mut child = Command::new(binary())
            .args(["engine", "--listen", "127.0.0.1:0", "--model", "tide-7b", "--profile", PROFILE])
            .args(["--kv-tokens", &KV_TOKENS.to_string(), "--time-scale", &time_scale.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("cannot start an engine");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(LIMIT, lines.next_line()).await.expect("no engine within the limit").unwrap();
        let line = line.expect("the engine ended");
        let event: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e} in the engine's first line {line:?}"));
        Engine { _child: child, url: format!("http://{}", event["listen"].as_str().unwrap()) }
    }
}

/// A fresh fleet behind a fresh gateway.
pub struct Fleet {
    engines: Vec<Engine>,
    gateway: Gateway,
}

impl Fleet {
    /// Starts so many engines, and the gateway with this policy.
    pub async fn start(count: usize, policy: PolicyKind, time_scale: f64) -> Fleet {
        let mut engines = Vec::new();
        for _ in 0..count {
            engines.push(Engine::start(time_scale).await);
        }
        let fields = format!(
            "engine: vllm\npolicy: {}\nslo: {{ttft: {}ms, tpot: {}ms}}",
            policy.as_str(),
            SLO_TTFT_MS / time_scale,
            SLO_TPOT_MS / time_scale
        );
        let own = format!("accelerator: {PROFILE}");
        let endpoints = engines.iter().map(|engine| (engine.url.as_str(), own.as_str()));
        let config = Config::new().pool_of("chat", "tide-7b", endpoints, &fields).with("drain: {delay: 0s}");
        let gateway = Gateway::start(&config).await;
        gateway.wait_metric("forebay_endpoint_state", &[("state", "ready")], count as f64).await;
        Fleet { engines, gateway }
    }

    /// As the gateway names them.
    pub fn names(&self) -> Vec<String> {
        self.engines.iter().map(|engine| engine.url.clone()).collect()
    }

    /// Sends the trace as these options say, and gives what came of it.
    pub async fn play(&self, options: &ReplayOptions) -> Summary {
        let options = ReplayOptions { url: format!("http://{}", self.gateway.addr()), ..options.clone() };
        let (_stop, stopped) = watch::channel(false);
        let finished = replay(options, Arc::new(Live::default()), stopped).await.unwrap();
        for remark in &finished.remarks {
            println!("{remark}");
        }
        let summary = finished.summary;
        assert_eq!((summary.failed, summary.rejected, summary.token_mismatches), (0, 0, Some(0)));
        summary
    }
}
