//! The real `forebay serve` as a child process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::LIMIT;
use crate::client::{self, Client, Response};
use crate::config::Config;
use crate::exposition;
use crate::tempdir::TempDir;
use crate::wait;

type Lines = Arc<Mutex<Vec<String>>>;

/// A running gateway; it is killed with this handle.
pub struct Gateway {
    child: Child,
    listen: Vec<SocketAddr>,
    admin: SocketAddr,
    stdout: Lines,
    stderr: Lines,
    readers: Vec<JoinHandle<()>>,
    dir: TempDir,
}

impl Gateway {
    /// Starts it and waits until it is ready.
    pub async fn start(config: &Config) -> Gateway {
        let gateway = Gateway::start_unready(config).await;
        gateway.wait_ready().await;
        gateway
    }

    /// Starts it and waits until it listens.
    pub async fn start_unready(config: &Config) -> Gateway {
        Gateway::start_with(config, &[]).await
    }

    /// As [`Gateway::start_unready`] with environment variables.
    pub async fn start_with(config: &Config, env: &[(&str, &str)]) -> Gateway {
        let dir = TempDir::new();
        let file = dir.write("forebay.yaml", &config.yaml());
        let mut child = Command::new(binary())
            .args(["serve", "--config"])
            .arg(&file)
            .envs(env.iter().copied())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cannot start the gateway");
        let (stdout, reading_stdout) = collect(child.stdout.take().unwrap());
        let (stderr, reading_stderr) = collect(child.stderr.take().unwrap());
        // From here on the drop of the handle ends the child, whatever fails.
        let mut gateway = Gateway {
            child,
            listen: Vec::new(),
            admin: SocketAddr::from(([127, 0, 0, 1], 0)),
            stdout,
            stderr,
            readers: vec![reading_stdout, reading_stderr],
            dir,
        };
        let lines = Arc::clone(&gateway.stdout);
        let line = wait::until("the gateway to listen", || {
            if let Some(line) = lines.lock().iter().find(|l| l.contains("\"listening\"")) {
                return Some(line.clone());
            }
            if let Some(status) = gateway.ended() {
                panic!("the gateway ended with {status} on\n{}\n{}", config.yaml(), gateway.logs());
            }
            None
        })
        .await;
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        gateway.listen = event["listen"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| a.as_str().unwrap().parse().unwrap())
            .collect();
        gateway.admin = event["admin"].as_str().unwrap().parse().unwrap();
        gateway
    }

    /// Waits until `/readyz` is 200.
    pub async fn wait_ready(&self) {
        wait::until_async("/readyz to be 200", async || {
            (self.admin_get("/readyz").await.status() == 200).then_some(())
        })
        .await;
    }

    /// The first data-plane address.
    pub fn addr(&self) -> SocketAddr {
        self.listen[0]
    }

    /// Every data-plane address, in the order of the configuration.
    pub fn listen(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// The control-plane address.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// A new connection to the data plane.
    pub async fn connect(&self) -> Client {
        Client::connect(self.addr()).await
    }

    /// A JSON `POST` to the data plane on a connection of its own.
    pub async fn post(&self, target: &str, body: &[u8]) -> Response {
        client::post(self.addr(), target, body).await
    }

    /// A `GET` to the data plane on a connection of its own.
    pub async fn get(&self, target: &str) -> Response {
        client::get(self.addr(), target).await
    }

    /// A `GET` to the control plane.
    pub async fn admin_get(&self, target: &str) -> Response {
        client::get(self.admin, target).await
    }

    /// The page of `/metrics`.
    pub async fn metrics(&self) -> String {
        let response = self.admin_get("/metrics").await;
        assert_eq!(response.status(), 200, "/metrics: {}", response.text());
        String::from_utf8(response.body).unwrap()
    }

    /// The sum over the series of this name with these labels, 0 when there is none.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        exposition::sum(&self.metrics().await, name, labels).unwrap_or(0.0)
    }

    /// Waits until that sum is `value`.
    pub async fn wait_metric(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            let page = self.metrics().await;
            if exposition::sum(&page, name, labels).unwrap_or(0.0) == value {
                return;
            }
            if tokio::time::Instant::now() >= deadline {
                let seen: Vec<&str> = page.lines().filter(|l| l.starts_with(name)).collect();
                panic!("waited for {name}{labels:?} = {value}; the page has\n{}", seen.join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until `requests_total` with this outcome, over everything else, is `value`.
    pub async fn wait_outcome(&self, outcome: &str, value: f64) {
        self.wait_metric("forebay_requests_total", &[("outcome", outcome)], value).await;
    }

    /// Waits until nothing is in flight at any endpoint.
    pub async fn wait_idle(&self) {
        self.wait_metric("forebay_endpoint_inflight", &[], 0.0).await;
    }

    /// What it has written to stderr so far.
    pub fn logs(&self) -> String {
        self.stderr.lock().join("\n")
    }

    /// What it has written to stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.lock().join("\n")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The directory of its configuration.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with("Threads:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The JSON that the control plane answers a `GET` with.
    pub async fn admin_json(&self, target: &str) -> serde_json::Value {
        let response = self.admin_get(target).await;
        assert_eq!(response.status(), 200, "{target}: {}", response.text());
        response.json()
    }

    /// Sends SIGTERM and waits for the end, which must be a good one.
    pub async fn stop(&mut self) {
        self.terminate();
        let status = self.wait_end().await;
        assert!(status.success(), "the gateway ended with {status}\n{}", self.logs());
    }

    /// Sends SIGTERM to this child.
    pub fn terminate(&self) {
        // The shell's own `kill`: the crate forbids unsafe, and the program of that name may not be installed.
        let status = Command::new("sh").arg("-c").arg(format!("kill -TERM {}", self.pid())).status().unwrap();
        assert!(status.success());
    }

    /// Its exit status when it has ended; then its output is whole.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().unwrap()?;
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        Some(status)
    }

    /// Waits for its end.
    pub async fn wait_end(&mut self) -> ExitStatus {
        wait::until("the gateway to end", || self.ended()).await
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let lines = self.stderr.lock();
            let tail = &lines[lines.len().saturating_sub(40)..];
            eprintln!("--- the gateway's last log lines ---\n{}", tail.join("\n"));
        }
    }
}

fn collect(pipe: impl Read + Send + 'static) -> (Lines, JoinHandle<()>) {
    let lines = Lines::default();
    let sink = Arc::clone(&lines);
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            sink.lock().push(String::from_utf8_lossy(&line).into_owned());
        }
    });
    (lines, reader)
}

/// The binary under test: `FOREBAY_BIN` when set, else the one that cargo
/// builds beside this test, brought up to date once per run.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("FOREBAY_BIN") {
            return PathBuf::from(path);
        }
        let exe = std::env::current_exe().unwrap();
        let profile = exe.parent().and_then(Path::parent).expect("a test binary in target/PROFILE/deps");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "-p", "forebay", "--bin", "forebay"]);
        cargo.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.status().expect("cannot run cargo");
        assert!(status.success(), "cannot build the gateway");
        profile.join("forebay")
    })
}
