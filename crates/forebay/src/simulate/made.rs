//! Workloads that are made up.

use std::sync::Arc;

use clap::ValueEnum;
use forebay_sim::workload::{
    ArrivalSpec, Conversations, ConversationsSpec, Groups, GroupsSpec, Length, Priorities, Tenants,
    TenantsSpec, Workload,
};

/// A made-up workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Made {
    Tenants,
    Chat,
    Agents,
    Tasks,
    Bursts,
    Daily,
    Priorities,
    Groups,
}

/// Questions in a conversation, on average.
const CHAT_TURNS: f64 = 6.0;
const AGENT_TURNS: f64 = 18.0;

impl Made {
    pub(super) fn name(self) -> &'static str {
        match self {
            Made::Tenants => "tenants",
            Made::Chat => "chat",
            Made::Agents => "agents",
            Made::Tasks => "tasks",
            Made::Bursts => "bursts",
            Made::Daily => "daily",
            Made::Priorities => "priorities",
            Made::Groups => "groups",
        }
    }

    /// What it is, for people.
    pub(super) fn what(self) -> &'static str {
        match self {
            Made::Tenants => "150 tenants with 6,000 tokens of prompt each, 1,200 more in a question",
            Made::Chat => "people who chat: about six turns with half a minute between them",
            Made::Agents => "agents: 9,000 to 20,000 shared tokens, about eighteen steps",
            Made::Tasks => "short tasks: 10 to 512 tokens in, one out",
            Made::Bursts => "code completion: prompts of about 2,000 tokens in bursts (CV 13)",
            Made::Daily => "the tenants over a day that is squeezed into the run",
            Made::Priorities => {
                "critical requests with tight limits of their own, standard ones, and a batch that may be shed"
            }
            Made::Groups => {
                "conversations in 64 groups with long system prompts, two for each endpoint at a time"
            }
        }
    }

    /// Whether each request waits for another one's end, so that there is no rate to set.
    pub(super) fn is_closed(self) -> bool {
        self == Made::Groups
    }

    /// Whether requests of other priorities than standard have limits of their own.
    pub(super) fn has_limits(self) -> bool {
        self == Made::Priorities
    }

    /// Requests per second for each endpoint that load an `h100-8b` moderately.
    pub(super) fn usual_rate(self) -> f64 {
        match self {
            Made::Tenants | Made::Daily => 1.6,
            Made::Chat => 4.0,
            Made::Agents => 1.2,
            Made::Tasks => 120.0,
            Made::Priorities => 4.0,
            Made::Bursts => 3.0,
            Made::Groups => 0.0,
        }
    }

    /// Seconds that it takes until as many conversations end as begin.
    pub(super) fn build_up(self) -> f64 {
        match self {
            Made::Chat | Made::Agents => 200.0,
            _ => 0.0,
        }
    }

    /// Its requests: `rate` per second, or for a closed loop `concurrency`
    /// conversations at a time; `requests` in all, and perhaps more.
    pub(super) fn make(self, rate: f64, concurrency: usize, requests: u64, seed: u64) -> Box<dyn Workload> {
        match self {
            Made::Tenants => Box::new(Tenants::new(TenantsSpec::saas(rate, requests), seed)),
            Made::Tasks => Box::new(Tenants::new(TenantsSpec::tasks(rate, requests), seed)),
            Made::Bursts => {
                let spec = TenantsSpec {
                    arrivals: ArrivalSpec::bursty(rate, 13.0),
                    prefix: Length::Fixed(0),
                    question: Length::LogNormal { mean: 2_000.0, sigma: 0.9, most: 8_000 },
                    answer: Length::LogNormal { mean: 28.0, sigma: 1.2, most: 500 },
                    ..TenantsSpec::saas(rate, requests)
                };
                Box::new(Tenants::new(spec, seed))
            }
            Made::Daily => {
                let spec = TenantsSpec { arrivals: day(rate, requests), ..TenantsSpec::saas(rate, requests) };
                Box::new(Tenants::new(spec, seed))
            }
            Made::Chat => {
                let spec = ConversationsSpec::chat(rate / CHAT_TURNS, requests);
                Box::new(Conversations::new(spec, seed))
            }
            Made::Agents => {
                let spec = ConversationsSpec::agents(rate / AGENT_TURNS, requests);
                Box::new(Conversations::new(spec, seed))
            }
            Made::Priorities => Box::new(Priorities::new(rate, requests, seed)),
            Made::Groups => {
                let spec = GroupsSpec { conversations: requests, concurrency, ..GroupsSpec::default() };
                Box::new(Groups::new(spec, seed))
            }
        }
    }
}

/// Each hour's load over the day's mean: quiet before dawn, two peaks.
const HOURS: [f64; 24] = [
    0.55, 0.45, 0.38, 0.34, 0.34, 0.40, 0.55, 0.80, 1.10, 1.35, 1.50, 1.52, 1.40, 1.42, 1.52, 1.55, 1.50,
    1.38, 1.22, 1.15, 1.12, 1.05, 0.88, 0.70,
];

/// One day in the time that the requests take at the mean rate.
fn day(rate: f64, requests: u64) -> ArrivalSpec {
    let period = (requests as f64 / rate).max(1.0);
    let mean = HOURS.iter().sum::<f64>() / HOURS.len() as f64;
    let curve: Vec<(f64, f64)> = HOURS
        .iter()
        .enumerate()
        .map(|(hour, load)| (period * hour as f64 / HOURS.len() as f64, rate * load / mean))
        .collect();
    ArrivalSpec { curve: Arc::from(curve), period, cv: 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_makes_requests_and_names_are_as_typed() {
        for made in Made::value_variants() {
            let mut workload = made.make(10.0, 4, 50, 1);
            assert!(workload.next_request().is_some(), "{}", made.name());
            assert_eq!(made.to_possible_value().unwrap().get_name(), made.name());
        }
    }

    #[test]
    fn a_day_keeps_its_mean() {
        let day = day(10.0, 3_000);
        day.validate().unwrap();
        assert_eq!((day.period, day.curve.len()), (300.0, 24));
        let mean = day.curve.iter().map(|(_, rate)| rate).sum::<f64>() / 24.0;
        assert!((mean - 10.0).abs() < 1e-9);
    }
}
