//! The fleet file: what `forebay simulate` plays traffic against.
//!
//! Its own small format, version 1, read with the same rules as the configuration:
//! unknown fields are refused, and every error of meaning is found at once.

mod kinds;
mod raw;
mod resolve;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::error::Errors;
use crate::{places, resolve as common, syntax};

/// Most endpoints that one fleet may have.
pub const MOST_ENDPOINTS: usize = 20_000;

/// Most pools that one fleet may be split into.
pub const MOST_POOLS: usize = 1_000;

/// A fleet as the user described it, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetFile {
    /// Endpoints that are alike, group by group; at least one, no two of one name.
    pub groups: Vec<FleetGroup>,
    /// So many pools divide the endpoints and the traffic among them, each with gateways of
    /// its own; at least 1, and no more than there are endpoints.
    pub pools: u32,
    /// Gateways before a pool, each with a view of its own; at least 1.
    pub gateways: u32,
    /// What part of the requests comes to each, in any unit; empty: all the same.
    pub gateway_shares: Vec<f64>,
    /// How often gateways tell each other what they have in flight; `None`: never.
    pub share_interval: Option<Duration>,
    /// How often each gateway asks every endpoint for its load.
    pub scrape_interval: Duration,
    /// How late gateways hear what enters and leaves the engines' caches; `None`: they do
    /// not hear of it and go by what they sent.
    pub kv_events_delay: Option<Duration>,
    /// What a gateway takes for one request.
    pub gateway_overhead: Duration,
    /// What happens to endpoints, in the file's order.
    pub events: Vec<FleetFileEvent>,
}

/// Endpoints that are alike.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetGroup {
    /// Its endpoints are `NAME-1`, `NAME-2`, …
    pub name: String,
    /// How fast they are.
    pub hardware: Hardware,
    /// How many; at least 1.
    pub count: usize,
    /// Relative to what `hardware` says: 0.5 takes twice as long; 0.001 to 4.
    pub speed: f64,
    /// Relative capacity as gateways are told; above 0.
    pub weight: f64,
    /// The GPU class as gateways are told; `None`: the class's own name, if there is one.
    pub accelerator: Option<String>,
    /// From a gateway there and back.
    pub round_trip: Duration,
    /// KV memory in tokens; `None`: as the class has it.
    pub kv_tokens: Option<u32>,
    /// Most sequences in one step; `None`: as the class has it.
    pub max_num_seqs: Option<u32>,
    /// Most tokens computed in one step; `None`: as the class has it.
    pub max_batched_tokens: Option<u32>,
    /// KV tokens that host memory keeps beside the accelerator's; 0: none.
    pub host_tokens: u64,
    /// Milliseconds to copy one token back from there; `None`: the simulator's own number.
    pub host_ms_per_token: Option<f64>,
    /// Adapters that fit at a time; `None`: the simulator's own number.
    pub adapter_slots: Option<u32>,
    /// What loading one takes; `None`: the simulator's own number.
    pub adapter_load: Option<Duration>,
}

/// How fast endpoints are.
#[derive(Clone, PartialEq, Debug)]
pub enum Hardware {
    /// A class that the caller knows.
    Class(String),
    /// The user's own measurements; then `kv_tokens` is there.
    Step(StepTimes),
}

/// What one step of an engine takes, in milliseconds; each from 0 to 1,000,000.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StepTimes {
    /// Whatever is in it.
    pub base_ms: f64,
    /// For each token computed, of prompts and of answers.
    pub token_ms: f64,
    /// For each pair of a prompt token and one that it attends to.
    pub pair_ms: f64,
    /// For each token of context of the answers being made.
    pub context_ms: f64,
    /// For each answer being made.
    pub stream_ms: f64,
}

/// Something that happens to endpoints at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetFileEvent {
    /// Since the start.
    pub at: Duration,
    /// The group, by its place in [`FleetFile::groups`].
    pub group: usize,
    /// Which endpoint of it, from 0; `None`: all.
    pub member: Option<usize>,
    /// What.
    pub change: FleetFileChange,
}

/// What happens to an endpoint.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FleetFileChange {
    /// From now on it has this speed, relative to its hardware's; 0.001 to 4.
    Speed(f64),
    /// It breaks off everything in flight and refuses connections.
    Crash {
        /// Until it is back; `None`: it never is.
        back_after: Option<Duration>,
        /// Its cache survives.
        keep_cache: bool,
    },
    /// It becomes a member, empty; it was none before.
    Join,
    /// It takes no new requests; what is in flight goes on.
    Leave,
}

impl FleetFile {
    /// The name of one endpoint.
    pub fn endpoint_name(&self, group: usize, member: usize) -> Option<String> {
        let group = self.groups.get(group).filter(|group| member < group.count)?;
        Some(format!("{}-{}", group.name, member + 1))
    }
}

/// Reads a fleet file. `classes` are the names of hardware that the caller knows; `env`
/// gives the value of an environment variable, or `None` where it is not set.
///
/// # Errors
/// As [`crate::parse`].
pub fn parse_fleet(
    file_name: &str,
    text: &str,
    classes: &[&str],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<FleetFile, Errors> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let places = places::Places::read(text, syntax::options())
        .map_err(|error| syntax::explain(&error, file_name, text, None))?;
    syntax::check_version(file_name, text, &places, "endpoints", env)?;
    let raw: raw::RawFleet = serde_saphyr::from_str_with_options(text, syntax::options())
        .map_err(|error| syntax::explain(&error, file_name, text, Some(&places)))?;
    let source = common::Source { file: file_name, text, places: &places };
    resolve::resolve(&raw, common::Resolver::new(source, env), classes)
}
