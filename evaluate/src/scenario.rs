//! What is played: a fleet, traffic, and how much of it.

use std::sync::Arc;

use forebay_sim::fleet::Fleet;
use forebay_sim::workload::{
    ArrivalSpec, AzureTrace, Conversations, ConversationsSpec, Mix, MooncakeTrace, Tenants, TenantsSpec,
    Workload,
};

use crate::traces::{Azure, Mooncake};

/// Where requests come from. Rates are set when it is played.
#[derive(Clone, Debug)]
pub(crate) enum Traffic {
    /// A trace with shared prefixes, laid over itself as often as the rate takes.
    Mooncake(Mooncake),
    /// A trace of lengths alone.
    Azure(Azure),
    /// Single requests of many tenants.
    Tenants(TenantsSpec),
    /// Conversations and agents; the rate is that of requests, with so many to
    /// a conversation on average.
    Conversations(ConversationsSpec, f64),
    /// Several at a time, each with its share of the rate.
    Mix(Vec<(f64, Traffic)>),
}

impl Traffic {
    /// `requests` requests or a few more at `rate` per second.
    pub(crate) fn play(&self, rate: f64, requests: u64, seed: u64) -> Result<Box<dyn Workload>, String> {
        Ok(match self {
            Traffic::Mooncake(trace) => {
                Box::new(MooncakeTrace::new(Arc::clone(&trace.rows), rate, 0, requests, seed))
            }
            Traffic::Azure(trace) => {
                Box::new(AzureTrace::new(Arc::clone(&trace.rows), rate, 0, requests, seed))
            }
            Traffic::Tenants(spec) => {
                let spec = TenantsSpec { arrivals: at_rate(&spec.arrivals, rate), requests, ..spec.clone() };
                spec.validate().map_err(|e| e.to_string())?;
                Box::new(Tenants::new(spec, seed))
            }
            Traffic::Conversations(spec, turns) => {
                let spec = ConversationsSpec {
                    arrivals: at_rate(&spec.arrivals, rate / turns),
                    conversations: (requests as f64 / turns).ceil() as u64,
                    ..spec.clone()
                };
                spec.validate().map_err(|e| e.to_string())?;
                Box::new(Conversations::new(spec, seed))
            }
            Traffic::Mix(parts) => {
                let mut all = Vec::new();
                for (number, (share, part)) in parts.iter().enumerate() {
                    let some = (requests as f64 * share).round() as u64;
                    all.push(part.play(rate * share, some, seed.wrapping_add(1_000 * number as u64))?);
                }
                Box::new(Mix::new(all).map_err(|(a, b)| format!("blocks of {a} and of {b} tokens"))?)
            }
        })
    }
}

/// The same course of arrivals at another mean rate.
fn at_rate(arrivals: &ArrivalSpec, rate: f64) -> ArrivalSpec {
    let mean = arrivals.curve.iter().map(|(_, rate)| rate).sum::<f64>() / arrivals.curve.len().max(1) as f64;
    let by = rate / mean.max(1e-12);
    ArrivalSpec {
        curve: arrivals.curve.iter().map(|(at, rate)| (*at, rate * by)).collect(),
        ..arrivals.clone()
    }
}

/// A fleet, its traffic, and how much of it counts.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// In tables; lower case.
    pub(crate) name: String,
    pub(crate) fleet: Fleet,
    pub(crate) traffic: Traffic,
    /// Requests that fill the caches and do not count.
    pub(crate) warmup: u64,
    /// Seconds until as many conversations end as begin; they do not count either.
    pub(crate) build_up_s: f64,
    /// Requests that count.
    pub(crate) counted: u64,
}

impl Scenario {
    /// 3,000 requests that count, or 150 for each endpoint where that is more.
    pub(crate) fn new(name: &str, fleet: Fleet, traffic: Traffic, warmup: u64) -> Scenario {
        let counted = 3_000.max(150 * fleet.endpoints.len() as u64);
        Scenario { name: name.to_owned(), fleet, traffic, warmup, build_up_s: 0.0, counted }
    }

    /// The same with something else about the fleet.
    pub(crate) fn with(&self, name: &str, change: impl FnOnce(&mut Fleet)) -> Scenario {
        let mut other = self.clone();
        name.clone_into(&mut other.name);
        change(&mut other.fleet);
        other
    }
}
