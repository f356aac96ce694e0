//! The command line of `simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::made::Made;
use super::policies;

/// After the options.
pub(crate) fn help() -> String {
    let workloads: Vec<String> =
        Made::value_variants().iter().map(|made| format!("  {:<10} {}", made.name(), made.what())).collect();
    format!(
        "Examples:\n  forebay simulate --trace traces/mooncake_conversation.jsonl --rate 14\n  \
         forebay simulate --fleet examples/fleet.yaml --workload tenants --policies predictive,least_request,rival-dynamo --out report\n  \
         forebay simulate --trace traces/mooncake_conversation.jsonl --rates 6,10,14,18 --out report\n\n\
         Workloads:\n{}\n\nPolicies, any of ours and any rival's rule (docs/simulation.md):\n{}\n\n\
         A rival's knobs follow its name, in order: rival-p2c:2. `ours`, `rivals` and `all` stand for several.",
        workloads.join("\n"),
        policies::known()
    )
}

/// What to do with a line of a trace that is not a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OnBadLine {
    /// Stop and name it.
    Stop,
    /// Leave it out, and say how many were.
    Skip,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("what").required(true).args(["trace", "workload"])))]
#[command(group(ArgGroup::new("load").args(["rate", "rates", "scale"])))]
pub(crate) struct SimulateArgs {
    /// What is simulated, as docs/simulation.md describes it; 16 × h100-8b behind one gateway if not given.
    #[arg(long, value_name = "FILE")]
    pub(crate) fleet: Option<PathBuf>,
    /// The trace: Mooncake JSONL or Azure CSV.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Instead of a trace: a workload that is made up, as listed below.
    #[arg(long, value_enum, value_name = "NAME", hide_possible_values = true)]
    pub(crate) workload: Option<Made>,
    /// Policies to compare, with commas between; all of ours and all rivals if not given.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub(crate) policies: Vec<String>,
    /// Runs of each policy, each with traffic of its own; confidence intervals are over them.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// The first seed; equal seeds give equal bytes.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Requests per second; if not given, a trace's own, and something moderate for a workload.
    #[arg(long, value_name = "R", value_parser = number, allow_hyphen_values = true)]
    pub(crate) rate: Option<f64>,
    /// Several rates, with commas between, for curves against load.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', value_parser = number, allow_hyphen_values = true)]
    pub(crate) rates: Vec<f64>,
    /// So many times the rate that it has by itself.
    #[arg(long, value_name = "X", value_parser = number, allow_hyphen_values = true)]
    pub(crate) scale: Option<f64>,
    /// Requests in each run; if not given, as many as a trace has, and 3,000 or more for a workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) requests: Option<u64>,
    /// Share of them, the first, that does not count, 0 to 0.9; 0.1 if not given, and more where the load takes longer to build up.
    #[arg(long, value_name = "SHARE", value_parser = number, allow_hyphen_values = true)]
    pub(crate) warmup: Option<f64>,
    /// A good answer's first token comes within so long.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub(crate) slo_ttft: Duration,
    /// And the tokens after it come so fast on average.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = duration)]
    pub(crate) slo_tpot: Duration,
    /// What to do with a line of the trace that is not a request.
    #[arg(long, value_enum, default_value_t = OnBadLine::Stop, conflicts_with = "workload")]
    pub(crate) on_bad_line: OnBadLine,
    /// Runs at a time; the machine's cores if not given. It changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) jobs: Option<u64>,
    /// Write report.html, report.json and report.csv into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A number; whether it is a sensible one is seen with everything else.
fn number(text: &str) -> Result<f64, String> {
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (None, _) => Err("a number is missing".to_owned()),
        (Some(first), Some(second)) if is_number(first) && is_number(second) => {
            Err("these are several numbers; --rates takes several, with commas between and no spaces: 1,2"
                .to_owned())
        }
        (Some(only), None) if is_number(only) => only.parse().map_err(|_| "not a number".to_owned()),
        _ => Err("not a number such as 12 or 0.5, without a unit".to_owned()),
    }
}

/// A time with its unit: 500us, 50ms, 2s, 1m; above 0 and up to a day.
fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("\"{text}\" is not a time such as 50ms or 2s, above 0 and up to 24 hours");
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(bad()),
    };
    let seconds = number.parse::<f64>().map_err(|_| bad())? * scale;
    if !(1e-6..=86_400.0).contains(&seconds) {
        return Err(bad());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_refused_in_plain_words() {
        assert_eq!(number(" 1.5 "), Ok(1.5));
        assert_eq!(number("-3"), Ok(-3.0));
        for text in ["5/s", "x", "10%", "5 req"] {
            assert!(number(text).unwrap_err().contains("without a unit"), "{text}");
        }
        assert!(number("1 2").unwrap_err().contains("commas"));
        assert!(number("").unwrap_err().contains("missing"));
    }

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1_500)));
        for text in ["", "2", "0s", "-1s", "NaNs", "1.2.3s", "2 s", "25h", "infs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
