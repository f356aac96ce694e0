//! What will be run, checked: fleet, workload, policies, loads and seeds.

use std::path::{Path, PathBuf};

use forebay_core::Slo;

use super::args::SimulateArgs;
use super::fleet::{self, NamedFleet};
use super::made::Made;
use super::policies::{self, Named};
use super::trace_file;
use super::traffic::{self, Load, Source};
use crate::cli::Failure;

/// Everything that the runs need.
pub(super) struct Plan {
    pub(super) fleet: NamedFleet,
    pub(super) source: Source,
    /// The workload's name, and what it is.
    pub(super) workload: String,
    pub(super) described: String,
    pub(super) policies: Vec<Named>,
    pub(super) stages: Vec<Stage>,
    sizing: Sizing,
    pub(super) seeds: Vec<u64>,
    pub(super) slo: Slo,
    pub(super) jobs: usize,
    pub(super) out: Option<PathBuf>,
    /// What the user should know before the results.
    pub(super) remarks: Vec<String>,
}

/// One load and the requests that are played at it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stage {
    pub(super) load: Load,
    /// In each run, and how many of them, the first, do not count.
    pub(super) requests: u64,
    pub(super) warmup: u64,
}

/// The requests of a run: so many at least, and so many for each endpoint.
const LEAST: u64 = 3_000;
const EACH: u64 = 150;
/// What makes a run longer than that ends at so many requests.
const MOST: u64 = 20_000;
/// Seconds that a made-up workload lasts at least: a second of many is no steady load.
const SECONDS: f64 = 60.0;
/// A run lasts so many times as long as its load builds up.
const BUILD_UPS: f64 = 2.0;

/// Reads and checks what was asked for.
pub(super) fn make(args: &SimulateArgs) -> Result<Plan, Failure> {
    let fleet = fleet::read(args.fleet.as_deref())?;
    let policies = policies::read(&args.policies)?;
    let mut remarks = Vec::new();
    let (source, described, own_rate, rows) = match (&args.trace, args.workload) {
        (Some(path), _) => {
            let read = trace_file::read(path, args.on_bad_line)?;
            if let Some((line, what)) = &read.skipped.first {
                let lines = read.skipped.lines;
                let plural = if lines == 1 { "" } else { "s" };
                remarks.push(format!(
                    "{}: {lines} line{plural} left out, the first is line {line}: {what}",
                    path.display()
                ));
            }
            let rows = read.trace.requests.len();
            let format = trace_file::format_name(read.trace.format);
            let source = Source::of_trace(&read.trace);
            let rate = source.own_rate();
            let described = format!("{format} of {rows} requests, {rate:.2} a second as recorded");
            (source, described, rate, rows as f64)
        }
        (None, Some(made)) => {
            // By what can be there at all: who joins later takes load, too.
            let rate = made.usual_rate() * fleet.fleet.endpoints.len() as f64;
            (Source::Made(made), made.what().to_owned(), rate, 0.0)
        }
        (None, None) => return Err(Failure::Usage("needs --trace or --workload".to_owned())),
    };
    check_memory(&fleet, &source, &mut remarks)?;
    let loads = loads(args, &source, own_rate, fleet.fleet.endpoints.len())?;
    let build_up = if let Source::Made(made) = source { made.build_up() } else { 0.0 };
    let usual_warmup = if build_up > 0.0 { 1.0 / BUILD_UPS } else { 0.1 };
    let warmup = args.warmup.unwrap_or(usual_warmup);
    if !(0.0..=0.9).contains(&warmup) {
        return Err(Failure::Usage(format!("--warmup: {warmup} is not a share from 0 to 0.9")));
    }
    let endpoints = fleet.fleet.endpoints.len() as u64;
    let sizing = Sizing { asked: args.requests, warmup, rows, own_rate, build_up, endpoints };
    let stages: Vec<Stage> = loads.into_iter().map(|load| sizing.stage(load)).collect();
    for stage in &stages {
        check_length(stage, args.trace.as_deref())?;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let millis = |time: std::time::Duration| Some((time.as_secs_f64() * 1e3) as f32);
    Ok(Plan {
        workload: traffic::title(&source, args.trace.as_deref()),
        described,
        fleet,
        source,
        policies,
        stages,
        sizing,
        seeds: (0..args.seeds).map(|number| args.seed.wrapping_add(number)).collect(),
        slo: Slo { ttft_ms: millis(args.slo_ttft), tpot_ms: millis(args.slo_tpot) },
        jobs: args.jobs.map_or(cores, |jobs| usize::try_from(jobs).unwrap_or(cores)),
        out: args.out.clone(),
        remarks,
    })
}

/// What says how long a run should be.
struct Sizing {
    /// Requests that were asked for.
    asked: Option<u64>,
    /// Share of them that does not count.
    warmup: f64,
    /// Of a trace, and the rate at which it has them; 0 otherwise.
    rows: f64,
    own_rate: f64,
    /// Seconds.
    build_up: f64,
    endpoints: u64,
}

impl Sizing {
    fn stage(&self, load: Load) -> Stage {
        let requests = self.asked.unwrap_or_else(|| self.requests(load));
        Stage { load, requests, warmup: (requests as f64 * self.warmup) as u64 }
    }

    fn requests(&self, load: Load) -> u64 {
        let enough = LEAST.max(EACH * self.endpoints);
        // Casts saturate.
        match load {
            Load::AsRecorded(_) => self.rows as u64,
            Load::Rate(rate) if self.rows > 0.0 => {
                ((self.rows * rate / self.own_rate) as u64).min(MOST).max(enough)
            }
            Load::Rate(rate) if self.build_up > 0.0 => enough.max((rate * self.build_up * BUILD_UPS) as u64),
            Load::Rate(rate) => enough.max(((rate * SECONDS) as u64).min(MOST)),
            Load::Concurrency(_) => enough,
        }
    }
}

/// The loads to run, in the order given.
fn loads(args: &SimulateArgs, source: &Source, own: f64, endpoints: usize) -> Result<Vec<Load>, Failure> {
    let number = |flag: &str, value: f64| {
        if value.is_finite() && (1e-6..=1e7).contains(&value) {
            return Ok(value);
        }
        // Of some numbers nobody reads all digits.
        let long = value.is_finite() && value != 0.0 && !(1e-6..1e12).contains(&value.abs());
        let shown = if long { format!("{value:e}") } else { value.to_string() };
        Err(Failure::Usage(format!("{flag}: {shown} is not a number above 0 and up to 10000000")))
    };
    let scale = args.scale.map(|scale| number("--scale", scale)).transpose()?;
    if let Source::Made(made) = source
        && made.is_closed()
    {
        if args.rate.is_some() || !args.rates.is_empty() {
            return Err(Failure::Usage(format!(
                "--rate: in {} a conversation begins when another one ends; --scale changes how many there are at a time",
                made.name()
            )));
        }
        let at_a_time = (2.0 * endpoints as f64 * scale.unwrap_or(1.0)).round().max(1.0);
        return Ok(vec![Load::Concurrency(at_a_time as usize)]);
    }
    if let Some(rate) = args.rate {
        return Ok(vec![Load::Rate(number("--rate", rate)?)]);
    }
    if !args.rates.is_empty() {
        let mut rates =
            args.rates.iter().map(|rate| number("--rates", *rate)).collect::<Result<Vec<_>, _>>()?;
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        return Ok(rates.into_iter().map(Load::Rate).collect());
    }
    Ok(vec![match (scale, source) {
        (Some(scale), _) => Load::Rate(number("--scale", own * scale)?),
        (None, Source::Made(_)) => Load::Rate(own),
        (None, _) => Load::AsRecorded(own),
    }])
}

/// The longest run: scraping a fleet for longer, most of it idle, never ends.
const DAYS: f64 = 31.0;

/// Refuses a run that lasts too long: a trace with a mistyped time, or a rate near nothing.
fn check_length(stage: &Stage, trace: Option<&Path>) -> Result<(), Failure> {
    let Some(rate) = stage.load.rate() else { return Ok(()) };
    let days = stage.requests as f64 / rate / 86_400.0;
    if days <= DAYS {
        return Ok(());
    }
    let whose = trace.map_or_else(String::new, |path| format!("{}: ", path.display()));
    let shown = if days < 1e6 { format!("{days:.0}") } else { format!("{days:.0e}") };
    Err(Failure::Usage(format!(
        "{whose}{} requests at {rate:.3e} a second last {shown} days, and a run at most {DAYS:.0}; a higher --rate or \
         --scale shortens it, and so does --requests",
        stage.requests
    )))
}

/// Refuses a trace of which a request fits nowhere.
fn check_memory(fleet: &NamedFleet, source: &Source, remarks: &mut Vec<String>) -> Result<(), Failure> {
    let Some((prompt, answer)) = source.longest() else { return Ok(()) };
    let needed = u64::from(prompt) + u64::from(answer);
    let room = |endpoint: &forebay_sim::fleet::EndpointSpec| {
        u64::from(endpoint.profile.blocks()) * u64::from(endpoint.profile.block_size)
    };
    let endpoints = &fleet.fleet.endpoints;
    let Some(largest) = endpoints.iter().max_by_key(|endpoint| room(endpoint)) else { return Ok(()) };
    if needed > room(largest) {
        return Err(Failure::Usage(format!(
            "the fleet cannot hold the longest request: {prompt} prompt + {answer} answer tokens = {needed}, \
             and the largest KV memory, of {}, is {} blocks × {} = {} tokens",
            largest.name,
            largest.profile.blocks(),
            largest.profile.block_size,
            room(largest)
        )));
    }
    let small = endpoints.iter().filter(|endpoint| room(endpoint) < needed).count();
    if small > 0 {
        remarks.push(format!(
            "{small} of {} endpoints cannot hold the longest request ({needed} tokens); sent there, it fails",
            endpoints.len()
        ));
    }
    Ok(())
}

impl Plan {
    /// What is played at a rate that was not asked for; between two that were, it is
    /// no longer than the longer of theirs.
    pub(super) fn stage_at(&self, rate: f64) -> Stage {
        self.sizing.stage(Load::Rate(rate))
    }

    /// Whether there is something to choose load by.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.source, Source::Made(made) if Made::is_closed(made))
    }
}
