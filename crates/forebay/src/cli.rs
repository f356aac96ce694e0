//! The command line.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use forebay_engine::MetricsDialect;
use forebay_load::{DemoTraffic, GroupsTraffic, LoadError, PromptForm};

use crate::simulate::SimulateArgs;

/// A load balancer for AI inference.
#[derive(Parser, Debug)]
#[command(name = "forebay", version, arg_required_else_help = true)]
#[command(
    after_help = "Example:\n  forebay demo --seconds 30\n\nExit status: 0 done, 1 failed, 2 bad usage or configuration."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run simulated engines, the gateway and traffic on this machine.
    #[command(after_help = demo_help())]
    Demo(DemoArgs),
    /// Run the gateway.
    #[command(
        after_help = "Example:\n  forebay serve --config examples/minimal.yaml\n\nWhen it listens it says so in one line of JSON on standard output; logs go to standard error."
    )]
    Serve(ConfigArgs),
    /// Read a configuration and say what is wrong with it.
    #[command(after_help = "Example:\n  forebay check --config examples/minimal.yaml")]
    Check(CheckArgs),
    /// Print the JSON Schema of the configuration.
    #[command(after_help = "Example:\n  forebay schema > forebay.schema.json")]
    Schema(SchemaArgs),
    /// Run one simulated model server.
    #[command(
        after_help = "Example:\n  forebay engine --listen 127.0.0.1:8001 --model tide-7b --profile a100-8b"
    )]
    Engine(EngineArgs),
    /// Send a recorded trace, or a made-up workload, to an OpenAI-compatible URL and sum up.
    #[command(after_help = replay_help())]
    Replay(ReplayArgs),
    /// Read a decision log, decide everything again, and explain.
    #[command(
        after_help = "Example:\n  forebay decisions --log decisions.log --last 3\n\nIt fails when a decision comes out otherwise than the log says. Only the build that wrote a log is sure to decide the same again, on the same kind of machine; a log of another build is named as one."
    )]
    Decisions(DecisionsArgs),
    /// Compare policies on a described fleet, in simulated time.
    #[command(after_help = crate::simulate::help())]
    Simulate(SimulateArgs),
}

fn demo_help() -> String {
    format!(
        "Example:\n  forebay demo --seconds 30 --policy round_robin\n\nEngines: 4 × h100-8b and 4 × a100-8b, model {}.\nTraffic: {}",
        crate::demo::MODEL,
        DemoTraffic::default()
    )
}

fn replay_help() -> String {
    format!(
        "Examples:\n  forebay replay --trace traces/azure_2023_conv.csv --url http://127.0.0.1:8080 --limit 200 --speed 10\n  forebay replay --workload groups --url http://127.0.0.1:8080 --json\n\nThe workload \"groups\": {}.\nIts summary has, besides the usual, what prefix hit one cache for all endpoints would have had and, where the gateway names its endpoints (response_headers: endpoint), how busy the busiest one was; as JSON also each endpoint's share in every 10 s.",
        GroupsTraffic::default()
    )
}

/// `--config`
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Accepted for symmetry: what serve prints on standard output is JSON anyway.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DecisionsArgs {
    /// The file, as `decision_log` in the configuration names it.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: PathBuf,
    /// Explain so many of the newest decisions.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) last: usize,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SchemaArgs {
    /// Accepted for symmetry: a schema is JSON anyway.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct EngineArgs {
    /// Address to listen on; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    pub(crate) listen: SocketAddr,
    /// Name of the model it pretends to serve.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// Hardware: h100-8b, a100-8b, h100-70b-tp4 or h100-32b-tp2.
    #[arg(long, value_name = "NAME", default_value = "h100-8b")]
    pub(crate) profile: String,
    /// How many times faster than life it runs; honest up to about 10.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) time_scale: f64,
    /// Decides texts and lengths.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Name of a LoRA adapter it serves; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Vec<String>,
    /// Adapters in memory at a time; all if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_loras: Option<u32>,
    /// Milliseconds of its own time that it takes to load an adapter into memory.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) adapter_load_ms: u64,
    /// Longest prompt and answer together, in tokens.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_model_len: Option<u32>,
    /// Requests in one batch at most; the profile's own number if not given.
    #[arg(long, value_name = "N")]
    pub(crate) max_num_seqs: Option<u32>,
    /// KV memory in tokens; the profile's own size if not given.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) kv_tokens: Option<u32>,
    /// Answer 503 when so many requests wait; no limit if not given.
    #[arg(long, value_name = "N")]
    pub(crate) max_queued: Option<u32>,
    /// Whose names its load has: vllm, sglang, llamacpp, tgi or lmdeploy.
    #[arg(long, value_name = "ENGINE", default_value_t)]
    pub(crate) dialect: MetricsDialect,
    /// Let `POST /fault` make it misbehave, for tests.
    #[arg(long)]
    pub(crate) faults: bool,
    /// Publish KV events over ZeroMQ from this address, as vLLM does.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) kv_events: Option<SocketAddr>,
    /// Repeat KV events from this address to who asks.
    #[arg(long, value_name = "ADDRESS", requires = "kv_events")]
    pub(crate) kv_replay: Option<SocketAddr>,
    /// First frame of KV event messages.
    #[arg(long, value_name = "TOPIC", default_value = "")]
    pub(crate) kv_topic: String,
    /// Accepted for symmetry: what engine prints on standard output is JSON anyway.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Stop after so many seconds with a summary; without it, at Ctrl-C.
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<f64>,
    /// The gateway's policy; a wrong name lists them all.
    #[arg(long, value_name = "P", default_value_t, value_parser = policy)]
    pub(crate) policy: forebay_config::PolicyKind,
    /// Fixes the traffic and every tie.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where the gateway listens; a free port if not given.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("what").required(true).args(["trace", "workload"])))]
pub(crate) struct ReplayArgs {
    /// The trace: Mooncake JSONL or Azure CSV.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Instead of a trace: conversations in groups that share a long system prompt.
    #[arg(long, value_enum)]
    pub(crate) workload: Option<Workload>,
    /// Where to send it, with or without /v1.
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// Send only the first N requests of the trace.
    #[arg(long, value_name = "N", conflicts_with = "workload")]
    pub(crate) limit: Option<usize>,
    /// Send so many times faster than recorded; the time scale if not given.
    #[arg(long, value_name = "X", conflicts_with = "workload")]
    pub(crate) speed: Option<f64>,
    /// Groups of the workload; 64 if not given.
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    pub(crate) groups: Option<usize>,
    /// Conversations of the workload; 640 if not given.
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    pub(crate) conversations: Option<u64>,
    /// Start nothing of the workload after so many seconds.
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    pub(crate) seconds: Option<f64>,
    /// Endpoints behind the URL, for the mean that the busiest is compared with; those that answered if not given.
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    pub(crate) endpoints: Option<usize>,
    /// How many times faster than life the engines run; times are reported in their time.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) time_scale: f64,
    /// Name of the model; the first that the server lists if not given.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// How prompts of a trace are sent: exact token ids, or text.
    #[arg(long, value_enum, default_value_t = Prompt::Ids, conflicts_with = "workload")]
    pub(crate) prompt: Prompt,
    /// Token ids are below this.
    #[arg(long, value_name = "N", default_value_t = 32_000, conflicts_with = "workload")]
    pub(crate) vocab: u32,
    /// Requests in flight at most; if not given, unlimited for a trace and 32 for the workload.
    #[arg(long, value_name = "N")]
    pub(crate) max_in_flight: Option<usize>,
    /// Decides the contents of prompts.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads a policy's name, or lists them.
fn policy(name: &str) -> Result<forebay_config::PolicyKind, String> {
    name.parse().map_err(|_| {
        let known: Vec<&str> = forebay_config::PolicyKind::ALL.iter().map(|policy| policy.as_str()).collect();
        format!("there is no such policy; there are {}", known.join(", "))
    })
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// As described below.
    Groups,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Prompt {
    /// Arrays of token ids: the same number of tokens on every engine.
    Ids,
    /// Text of four bytes per token.
    Text,
}

impl From<Prompt> for PromptForm {
    fn from(prompt: Prompt) -> PromptForm {
        match prompt {
            Prompt::Ids => PromptForm::Ids,
            Prompt::Text => PromptForm::Text,
        }
    }
}

/// Why a command ended without doing its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user must change something: usage or configuration.
    Usage(String),
    /// Something went wrong.
    Failed(String),
}

impl Failure {
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::FAILURE,
        }
    }

    /// For `map_err`: something went wrong while doing `what`.
    pub(crate) fn doing<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Failure {
        move |error| Failure::Failed(format!("{what}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Failed(message) => f.write_str(message),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        match error {
            LoadError::Option { .. } | LoadError::Trace(_) => Failure::Usage(error.to_string()),
            _ => Failure::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_replay_is_of_a_trace_or_of_a_workload() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).map(|_| ());
        assert!(parse("forebay replay --url u --trace t --limit 3").is_ok());
        assert!(parse("forebay replay --url u --workload groups --conversations 3 --json").is_ok());
        for line in [
            "forebay replay --url u",
            "forebay replay --url u --trace t --workload groups",
            "forebay replay --url u --trace t --conversations 3",
            "forebay replay --url u --workload groups --speed 2",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
