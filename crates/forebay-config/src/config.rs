//! What the program uses: every value resolved, merged and checked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::choices::{LogFormat, LogLevel};
use crate::pool::Pool;
use crate::prefix::PrefixIndex;
use crate::sections::{Drain, Health, Limits, Retry, Timeouts};

/// A whole configuration, checked.
///
/// [`Config::default`] has every documented default and no pool; `parse` never
/// gives one without a pool.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Where clients connect; at least one.
    pub listen: Vec<Listener>,
    /// Where the control plane listens.
    pub admin: SocketAddr,
    /// The pools, in the file's order; names, models and adapters are unique among them.
    pub pools: Vec<Pool>,
    /// Names that stand for one or several models; every target exists.
    pub models: Vec<ModelAlias>,
    /// Time limits, unless a pool sets its own.
    pub timeouts: Timeouts,
    /// What one client, and all together, may use.
    pub limits: Limits,
    /// How the program ends.
    pub drain: Drain,
    /// Health probes, unless a pool sets its own.
    pub health: Health,
    /// Second attempts, unless a pool sets its own.
    pub retry: Retry,
    /// What is remembered of who holds which prompt prefix.
    pub prefix_index: PrefixIndex,
    /// Where decisions are written to, so that they can be replayed.
    pub decision_log: Option<DecisionLog>,
    /// What is logged, and how.
    pub log: Log,
    /// Worker threads; 0 means one per core.
    pub workers: usize,
    /// Which optional headers answers carry.
    pub response_headers: ResponseHeaders,
    /// Whether `x-forebay-*` request headers are believed, from any client.
    pub trust_control_headers: bool,
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Config {
            listen: vec![Listener { address: loopback(8080), client_half_close: false }],
            admin: loopback(9090),
            pools: Vec::new(),
            models: Vec::new(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            drain: Drain::default(),
            health: Health::default(),
            retry: Retry::default(),
            prefix_index: PrefixIndex::default(),
            decision_log: None,
            log: Log::default(),
            workers: 0,
            response_headers: ResponseHeaders::default(),
            trust_control_headers: false,
        }
    }
}

/// One address that clients connect to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// The address to bind; port 0 takes any free port.
    pub address: SocketAddr,
    /// Whether a client that has closed its sending side still waits for the
    /// answer. When false, end of input means that the client is gone.
    pub client_half_close: bool,
}

/// A name that clients may ask for and that stands for other models.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelAlias {
    /// The name that clients ask for.
    pub name: String,
    /// What it stands for; at least one, and the weights' sum is above 0.
    pub targets: Vec<Target>,
}

/// One share of an alias.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// A model or adapter of some pool.
    pub model: String,
    /// Only that pool's endpoints with this version; there is at least one.
    pub version: Option<String>,
    /// Relative share of the requests, 0 or more.
    pub weight: f64,
}

/// The decision log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecisionLog {
    /// The file; the one before it is kept beside it.
    pub path: PathBuf,
    /// A file of more bytes is put aside and a new one begun.
    pub max_bytes: u64,
}

impl DecisionLog {
    /// The log in a file, everything else as documented.
    pub fn new(path: impl Into<PathBuf>) -> DecisionLog {
        DecisionLog { path: path.into(), max_bytes: 256 << 20 }
    }
}

/// What is logged, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Log {
    /// The least important messages that are logged.
    pub level: LogLevel,
    /// The shape of a line.
    pub format: LogFormat,
    /// Whether every request is logged.
    pub access: bool,
}

/// Which optional headers answers carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResponseHeaders {
    /// `x-forebay-endpoint`: the endpoint that answered.
    pub endpoint: bool,
    /// `server-timing`: where the time went.
    pub server_timing: bool,
    /// `x-forebay-held-tokens`: prompt tokens that the endpoint was taken to hold.
    pub held_tokens: bool,
}
