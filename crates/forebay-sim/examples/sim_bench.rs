//! Compares policies on a few workloads and measures the simulator's speed.
//!
//! ```text
//! cargo run --release -p forebay-sim --example sim_bench -- [conversation|groups|saas|tasks|chat|agents|bursts|speed] \
//!     [--trace FILE] [--rate R] [--requests N] [--endpoints N] [--seeds N] [--policies a,b,…] \
//!     [--gateways N] [--kv-events MS] [--profile lean] [--copies N] [--first ROWS] [--scrape MS] \
//!     [--without memory,tax,distinct,crowding,speeds,correction,window]
//! ```

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use forebay_gate::{PolicyKind, PoolConfig, Without};
use forebay_sim::baselines::{BaselineKind, Knobs};
use forebay_sim::engine::Profile;
use forebay_sim::fleet::{Fleet, PolicySpec, RunOptions, SimResult, run};
use forebay_sim::workload::{
    ArrivalSpec, Conversations, ConversationsSpec, Groups, GroupsSpec, Length, MooncakeRow, MooncakeTrace,
    Tenants, TenantsSpec, Workload,
};

type AnyError = Box<dyn std::error::Error>;

struct Args(Vec<String>);

impl Args {
    fn text(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|arg| arg == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    fn number(&self, name: &str, default: f64) -> Result<f64, AnyError> {
        self.text(name).map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name} {text}").into()))
    }
}

fn main() -> Result<(), AnyError> {
    let args = Args(std::env::args().skip(1).collect());
    let requests = args.number("--requests", 6_000.0)? as u64;
    let spec = |default: f64| args.number("--rate", default);
    match args.0.first().map(String::as_str) {
        Some("groups") => compare(&args, &|seed| boxed(Groups::new(GroupsSpec::default(), seed)), 8.0, 0),
        Some("saas") => {
            let spec = TenantsSpec::saas(spec(8.0)?, requests);
            compare(&args, &|seed| boxed(Tenants::new(spec.clone(), seed)), 8.0, requests / 10)
        }
        Some("tasks") => {
            let spec = TenantsSpec::tasks(spec(400.0)?, requests);
            compare(&args, &|seed| boxed(Tenants::new(spec.clone(), seed)), 8.0, requests / 10)
        }
        Some("chat") => {
            let spec = blocks(&args, ConversationsSpec::chat(spec(10.0)?, requests / 6))?;
            compare(&args, &|seed| boxed(Conversations::new(spec.clone(), seed)), 8.0, requests / 10)
        }
        Some("agents") => {
            let spec = blocks(&args, ConversationsSpec::agents(spec(1.2)?, requests / 16))?;
            compare(&args, &|seed| boxed(Conversations::new(spec.clone(), seed)), 16.0, requests / 10)
        }
        Some("bursts") => {
            let spec = TenantsSpec {
                arrivals: ArrivalSpec::bursty(spec(15.0)?, 13.0),
                prefix: Length::Fixed(0),
                question: Length::LogNormal { mean: 2_000.0, sigma: 0.9, most: 8_000 },
                answer: Length::LogNormal { mean: 28.0, sigma: 1.2, most: 500 },
                ..TenantsSpec::saas(1.0, requests)
            };
            compare(&args, &|seed| boxed(Tenants::new(spec.clone(), seed)), 4.0, requests / 10)
        }
        Some("speed") => speed(&args),
        _ => conversation(&args),
    }
}

fn blocks(args: &Args, spec: ConversationsSpec) -> Result<ConversationsSpec, AnyError> {
    Ok(ConversationsSpec {
        block_tokens: args.number("--block", f64::from(spec.block_tokens))? as u32,
        ..spec
    })
}

fn boxed(workload: impl Workload + 'static) -> Result<Box<dyn Workload>, AnyError> {
    Ok(Box::new(workload))
}

fn conversation(args: &Args) -> Result<(), AnyError> {
    let rows = rows(args)?;
    let rate = args.number("--rate", 17.0)?;
    let requests = args.number("--requests", 6_000.0)? as u64;
    let copies = args.number("--copies", 0.0)? as usize;
    let make = |seed| boxed(MooncakeTrace::new(Arc::clone(&rows), rate, copies, requests, seed));
    compare(args, &make, 16.0, requests / 10)
}

fn rows(args: &Args) -> Result<Arc<[MooncakeRow]>, AnyError> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/mooncake_conversation.jsonl");
    let file = std::fs::File::open(args.text("--trace").unwrap_or(default))?;
    let first = args.number("--first", 1e9)? as usize;
    let mut rows = Vec::new();
    for line in std::io::BufReader::new(file).lines().take(first) {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        let whole = |name: &str| line[name].as_u64().ok_or_else(|| format!("no {name}"));
        let ids = line["hash_ids"].as_array().ok_or("no hash_ids")?;
        rows.push(MooncakeRow {
            timestamp_ms: whole("timestamp")?,
            input_length: whole("input_length")? as u32,
            output_length: whole("output_length")? as u32,
            hash_ids: ids.iter().filter_map(serde_json::Value::as_u64).collect(),
        });
    }
    Ok(rows.into())
}

fn fleet(args: &Args, endpoints: f64) -> Result<Fleet, AnyError> {
    let engine = args.text("--engine").unwrap_or("h100-8b");
    let profile = Profile::by_name(engine).ok_or_else(|| format!("no engine {engine}"))?;
    let mut fleet = Fleet::uniform(args.number("--endpoints", endpoints)? as usize, profile);
    fleet.gateways = args.number("--gateways", 1.0)? as usize;
    fleet.scrape_every = Duration::from_millis(args.number("--scrape", 1_000.0)? as u64);
    let host = args.number("--host-tokens", 0.0)? as u64;
    let slow = args.number("--slow", 1.0)?;
    let half = fleet.endpoints.len() / 2;
    for (number, endpoint) in fleet.endpoints.iter_mut().enumerate() {
        endpoint.host_tokens = host;
        endpoint.slowness = if number < half { slow } else { 1.0 };
    }
    if let Some(ms) = args.text("--share") {
        fleet.share_every = Some(Duration::from_millis(ms.parse()?));
    }
    if let Some(ms) = args.text("--kv-events") {
        fleet.kv_events = Some(Duration::from_millis(ms.parse()?));
    }
    Ok(fleet)
}

type Make<'a> = &'a dyn Fn(u64) -> Result<Box<dyn Workload>, AnyError>;

fn compare(args: &Args, make: Make<'_>, endpoints: f64, warmup: u64) -> Result<(), AnyError> {
    let fleet = fleet(args, endpoints)?;
    let seeds = args.number("--seeds", 1.0)? as u64;
    println!(
        "{:<28} {:>8} {:>8} {:>9} {:>9} {:>7} {:>8} {:>6} {:>8} {:>7} {:>6} {:>6}",
        "policy", "goodput", "±", "ttft", "p99", "tpot", "e2e", "hit", "busiest", "tokens", "fail", "util"
    );
    for policy in policies(args)? {
        let mut results = Vec::new();
        for seed in 1..=seeds {
            let counted = args.text("--counted").map(str::parse).transpose()?;
            let warmup = args.number("--warmup", warmup as f64)? as u64;
            let options = RunOptions { seed, warmup, counted, ..RunOptions::default() };
            results.push(run(&fleet, make(seed)?.as_mut(), &policy, &options)?);
        }
        print_row(&results);
    }
    Ok(())
}

fn policies(args: &Args) -> Result<Vec<PolicySpec>, AnyError> {
    let without = args.text("--without").unwrap_or("");
    let gone = |part: &str| without.split(',').any(|name| name == part);
    let base = PoolConfig {
        without: Without {
            memory: gone("memory"),
            tax: gone("tax"),
            distinct: gone("distinct"),
            crowding: gone("crowding"),
            speeds: gone("speeds"),
            correction: gone("correction"),
            window: gone("window"),
        },
        profile: args.text("--profile").unwrap_or("balanced").parse().map_err(|_| "no such profile")?,
        ..PoolConfig::default()
    };
    let ours = |policy| PolicySpec::Ours(PoolConfig { policy, ..base });
    let all = || {
        let rivals = BaselineKind::ALL.iter().map(|kind| PolicySpec::Baseline(*kind, Knobs::default()));
        PolicyKind::ALL.into_iter().map(ours).chain(rivals).collect()
    };
    args.text("--policies")
        .map_or_else(|| Ok(all()), |names| names.split(',').map(|name| named(name, &ours)).collect())
}

/// `predictive`, `rival-dynamo`, or `rival-dynamo:4:4` with its knobs.
fn named(name: &str, ours: &dyn Fn(PolicyKind) -> PolicySpec) -> Result<PolicySpec, AnyError> {
    let mut parts = name.split(':');
    let name = parts.next().unwrap_or_default();
    if let Ok(kind) = name.parse::<BaselineKind>() {
        let knobs: Result<Vec<f64>, _> = parts.map(str::parse).collect();
        return Ok(PolicySpec::Baseline(kind, Knobs(knobs?)));
    }
    Ok(ours(name.parse().map_err(|_| format!("no policy {name}"))?))
}

fn print_row(results: &[SimResult]) {
    let n = results.len() as f64;
    let mean = |f: &dyn Fn(&SimResult) -> f64| results.iter().map(f).sum::<f64>() / n;
    let goodput = mean(&|r| r.goodput);
    let deviation = (mean(&|r| (r.goodput - goodput).powi(2)) * n / (n - 1.0).max(1.0)).sqrt();
    println!(
        "{:<28} {:>8.4} {:>8.4} {:>9.1} {:>9.1} {:>7.2} {:>8.3} {:>6.3} {:>8.2} {:>7.2} {:>6.0} {:>6.2}",
        results[0].policy,
        goodput,
        deviation,
        mean(&|r| r.ttft_ms.mean),
        mean(&|r| r.ttft_ms.p99),
        mean(&|r| r.tpot_ms.mean),
        mean(&|r| r.e2e_ms.mean / 1e3),
        mean(&|r| r.prefix_hit),
        mean(&|r| r.busiest),
        mean(&|r| r.busiest_tokens),
        mean(&|r| (r.failed + r.rejected) as f64),
        mean(&|r| r.endpoints.iter().map(|e| e.utilization).sum::<f64>() / r.endpoints.len() as f64),
    );
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn real_nanos() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Nanoseconds that this program was on a core, where the system tells: others
/// may use the machine, too.
fn core_nanos() -> u64 {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    told.and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or_else(real_nanos)
}

/// Simulated requests per second of one core at 1,000 endpoints, by part.
fn speed(args: &Args) -> Result<(), AnyError> {
    let rows = rows(args)?;
    let endpoints = args.number("--endpoints", 1_000.0)?;
    let fleet = fleet(args, endpoints)?;
    let requests = args.number("--requests", 60_000.0)? as u64;
    let rate = args.number("--rate", 1.0 * fleet.endpoints.len() as f64)?;
    for policy in policies(args)? {
        for clocked in [false, true] {
            let mut trace = MooncakeTrace::new(Arc::clone(&rows), rate, 0, requests, 1);
            let clock: Option<&dyn Fn() -> u64> = if clocked { Some(&real_nanos) } else { None };
            let from = core_nanos();
            let result =
                run(&fleet, &mut trace, &policy, &RunOptions { seed: 1, clock, ..RunOptions::default() })?;
            let took = (core_nanos() - from) as f64;
            let each = |ns: u64| ns as f64 / requests as f64 * 1e-3;
            if clocked {
                let p = result.parts;
                println!(
                    "  µs per request: workload {:.2}, look-up {:.2}, pick {:.2}, index {:.2}, settle {:.2}, \
                     engine {:.2}, reports {:.2}, rest {:.2}",
                    each(p.workload),
                    each(p.look_up),
                    each(p.pick),
                    each(p.index),
                    each(p.settle),
                    each(p.engine),
                    each(p.report),
                    each(p.rest)
                );
            } else {
                println!(
                    "{}: {} endpoints, {requests} requests in {:.2} s: {:.0} requests/s, goodput {:.3}, {:.0} s simulated",
                    result.policy,
                    fleet.endpoints.len(),
                    took * 1e-9,
                    requests as f64 / took * 1e9,
                    result.goodput,
                    result.sim_seconds,
                );
            }
        }
    }
    Ok(())
}
