//! What scraping costs: CPU time of the fleet's thread alone, in cores.
//!
//! ```text
//! ulimit -n 8192
//! cargo run --release -p forebay-fleet --example scrape_cost [SECONDS]
//! ```
//!
//! A stub server for each endpoint, in this process, answers with the page of
//! 72 kB that a vLLM with 8 running requests gave. The servers run on another
//! thread. Measured is what the system has charged to the one thread named
//! `fleet`, user and system time together (`utime` and `stime` of
//! `/proc/self/task/TID/stat`), between two points in time after every
//! endpoint has been found out and read. With it goes the kernel's work for
//! that thread's own reads and writes, and not the servers'. Both share the
//! machine, so wall time would say nothing.
//!
//! Beside it stand the number of pages read a second, of which a machine that
//! is too slow reads fewer than it should, the CPU time for each, and the
//! memory of the whole process with its servers.

#![allow(clippy::expect_used, reason = "an example says what is wrong by panicking")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forebay_core::EndpointState;
use forebay_fleet::{Fleet, HttpProbe, Membership, ScrapeTarget, Scraped};
use forebay_wire::signals::Signals;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

const PAGE: &str = include_str!("../../forebay-wire/tests/signals/vllm_loaded.prom");
const MODELS: &str = r#"{"object":"list","data":[{"id":"tiny","object":"model","owned_by":"vllm"}]}"#;

/// Counts what it is told.
#[derive(Default)]
struct Counting {
    reports: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
}

impl Membership for Counting {
    type Id = u32;

    fn set_state(&self, _: u32, _: EndpointState) {}

    fn signals(&self, _: u32, _: Instant, signals: &Signals) {
        assert_eq!(signals.running, Some(8), "the page has been read");
        self.reports.fetch_add(1, Relaxed);
    }

    fn scrape_failed(&self, _: u32, _: &'static str) {
        self.failures.fetch_add(1, Relaxed);
    }

    fn scraped(&self, _: u32, scraped: &Scraped) {
        self.bytes.fetch_add(scraped.bytes as u64, Relaxed);
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(10);
    println!("{} bytes a page, {seconds} s each, CPU time of the fleet's thread", PAGE.len());
    for (endpoints, interval) in [(100, 50), (1_000, 1_000)] {
        measure(endpoints, Duration::from_millis(interval), seconds);
    }
}

fn measure(endpoints: u32, interval: Duration, seconds: u64) {
    let servers = Builder::new_multi_thread().worker_threads(1).thread_name("stub").enable_all().build();
    let servers = servers.expect("a thread");
    let counting = Arc::new(Counting::default());
    let fleet = Fleet::start(Arc::clone(&counting), HttpProbe::new(), 1).expect("a thread");
    let targets = (0..endpoints).map(|id| {
        let url = format!("http://{}", serve(&servers));
        ScrapeTarget { interval_min: interval, ..ScrapeTarget::new(id, url) }
    });
    fleet.set_scrape_targets(targets.collect());
    let here = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let wait = |time| here.block_on(async { tokio::time::sleep(time).await });
    while counting.reports.load(Relaxed) < 3 * u64::from(endpoints) {
        wait(Duration::from_millis(10));
    }
    let read = || (cpu_of("fleet"), counting.reports.load(Relaxed), counting.bytes.load(Relaxed));
    let (before, started) = (read(), Instant::now());
    wait(Duration::from_secs(seconds));
    let (after, took) = (read(), started.elapsed().as_secs_f64());
    let (cpu, reports, bytes) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    println!(
        "{endpoints:5} endpoints every {:4} ms: {:.3} core, {:.0} of {:.0} pages/s, {:.1} MB/s, \
         {:.1} us of CPU a page, {} failures, {} MB of memory",
        interval.as_millis(),
        cpu / took,
        reports as f64 / took,
        f64::from(endpoints) / interval.as_secs_f64(),
        bytes as f64 / took / 1e6,
        cpu / reports as f64 * 1e6,
        counting.failures.load(Relaxed),
        resident() / 1000,
    );
}

/// CPU seconds of this process's threads with this name.
fn cpu_of(name: &str) -> f64 {
    let mut ticks = 0;
    for task in std::fs::read_dir("/proc/self/task").expect("this needs Linux's /proc").flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        // The name is in parentheses, and may hold spaces.
        let Some((head, rest)) = stat.rsplit_once(')') else { continue };
        if head.split_once('(').is_some_and(|(_, thread)| thread == name) {
            // Fields 14 and 15; the rest begins with the third.
            ticks += rest.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum::<u64>();
        }
    }
    // A tick is a hundredth of a second on every Linux there is (USER_HZ).
    ticks as f64 / 100.0
}

/// Memory of the whole process, in kB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    line.and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

fn serve(servers: &Runtime) -> SocketAddr {
    let listener = servers.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("bound");
    servers.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    address
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let page = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    // One copy for all connections: what is left is the memory of the fleet.
    static ANSWERS: OnceLock<[String; 2]> = OnceLock::new();
    let [metrics, models] = ANSWERS.get_or_init(|| [page(PAGE), page(MODELS)]);
    stream.set_nodelay(true)?;
    let mut request = Vec::new();
    loop {
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let body = if request.starts_with(b"GET /metrics") { metrics } else { models };
        request.clear();
        stream.write_all(body.as_bytes()).await?;
    }
}
