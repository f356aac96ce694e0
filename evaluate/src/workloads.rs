//! The fleets and the traffic of the comparison.
//!
//! Policies are tuned on some and judged on others: those for tuning are the
//! first half of the conversation trace and tenants on another engine.

use std::time::Duration;

use forebay_sim::engine::Profile;
use forebay_sim::fleet::Fleet;
use forebay_sim::workload::{ArrivalSpec, ConversationsSpec, Length, TenantsSpec};

use crate::scenario::{Scenario, Traffic};
use crate::traces::{Part, azure, mooncake};

/// A workload and the loads that it is judged at, in requests per second.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) scenario: Scenario,
    pub(crate) rates: [f64; 6],
    /// What it is, for people.
    pub(crate) what: &'static str,
}

/// KV tokens that host memory keeps for each endpoint: with those of the
/// accelerator about three million.
const HOST_TOKENS: u64 = 2_573_000;

/// So many endpoints of a class, with a host tier, one gateway that hears of
/// the engines' caches 50 ms late and asks for their load every second.
pub(crate) fn fleet(endpoints: usize, class: &str) -> Result<Fleet, String> {
    let profile = Profile::by_name(class).ok_or_else(|| format!("no class {class}"))?;
    let mut fleet = Fleet::uniform(endpoints, profile);
    for endpoint in &mut fleet.endpoints {
        endpoint.host_tokens = HOST_TOKENS;
    }
    fleet.kv_events = Some(Duration::from_millis(50));
    Ok(fleet)
}

/// The second half of the conversation trace on so many h100-8b; caches are
/// filled by what comes before.
pub(crate) fn conversation(endpoints: usize) -> Result<Scenario, String> {
    let traffic = Traffic::Mooncake(mooncake("mooncake_conversation.jsonl", Part::SecondHalf)?);
    Ok(Scenario::new("conversation", fleet(endpoints, "h100-8b")?, traffic, 500 * endpoints as u64))
}

/// The synthetic Mooncake trace on so many h100-8b.
pub(crate) fn synthetic(endpoints: usize) -> Result<Scenario, String> {
    let traffic = Traffic::Mooncake(mooncake("mooncake_synthetic.jsonl", Part::Whole)?);
    Ok(Scenario::new("synthetic", fleet(endpoints, "h100-8b")?, traffic, 400 * endpoints as u64))
}

/// 400 tenants by Zipf's law with prefixes of 1,000 to 8,000 tokens.
pub(crate) fn tenants(endpoints: usize) -> Result<Scenario, String> {
    let spec = TenantsSpec {
        tenants: 400,
        zipf: 1.0,
        block_tokens: 128,
        prefix: Length::Uniform(1_000, 8_000),
        question: Length::LogNormal { mean: 600.0, sigma: 1.0, most: 8_000 },
        answer: Length::LogNormal { mean: 300.0, sigma: 0.8, most: 2_000 },
        ..TenantsSpec::saas(1.0, 1)
    };
    let traffic = Traffic::Tenants(spec);
    Ok(Scenario::new("tenants", fleet(endpoints, "h100-8b")?, traffic, 150 * endpoints as u64))
}

/// People who chat.
pub(crate) fn chat(endpoints: usize) -> Result<Scenario, String> {
    let spec = ConversationsSpec { block_tokens: 128, ..ConversationsSpec::chat(1.0, 1) };
    let traffic = Traffic::Conversations(spec, 6.0);
    let scenario = Scenario::new("chat", fleet(endpoints, "h100-8b")?, traffic, 0);
    Ok(Scenario { build_up_s: 200.0, ..scenario })
}

/// Agents: long shared prompts, many steps.
pub(crate) fn agents(endpoints: usize) -> Result<Scenario, String> {
    // As coarse as the traces: every block that moves between tiers is news.
    let spec = ConversationsSpec { block_tokens: 512, ..ConversationsSpec::agents(1.0, 1) };
    let traffic = Traffic::Conversations(spec, 18.0);
    let scenario = Scenario::new("agents", fleet(endpoints, "h100-8b")?, traffic, 0);
    Ok(Scenario { build_up_s: 200.0, ..scenario })
}

/// Azure's code completion: no shared prefixes, short answers, bursts.
pub(crate) fn code(endpoints: usize) -> Result<Scenario, String> {
    let traffic = Traffic::Azure(azure("azure_2023_code.csv")?);
    let mut scenario = Scenario::new("code", fleet(endpoints, "h100-8b")?, traffic, 500);
    scenario.counted = 6_000;
    Ok(scenario)
}

/// The conversation trace where half of the endpoints take twice as long;
/// gateways are told nothing of it.
pub(crate) fn mixed(endpoints: usize) -> Result<Scenario, String> {
    Ok(conversation(endpoints)?.with("mixed", |fleet| {
        for endpoint in fleet.endpoints.iter_mut().skip(endpoints / 2) {
            endpoint.slowness = 2.0;
        }
    }))
}

/// What policies are judged on.
pub(crate) fn judged() -> Result<Vec<Judged>, String> {
    let judged = |scenario, rates, what| Judged { scenario, rates, what };
    Ok(vec![
        judged(
            conversation(16)?,
            [8.0, 12.0, 15.0, 18.0, 21.0, 24.0],
            "the second half of Mooncake's conversation trace on 16 × h100-8b",
        ),
        judged(
            synthetic(16)?,
            [6.0, 10.0, 15.0, 20.0, 25.0, 30.0],
            "Mooncake's synthetic trace on 16 × h100-8b",
        ),
        judged(
            tenants(16)?,
            [60.0, 80.0, 100.0, 115.0, 130.0, 145.0],
            "400 tenants (Zipf) with prefixes of 1,000 to 8,000 tokens on 16 × h100-8b",
        ),
        judged(
            chat(8)?,
            [90.0, 110.0, 125.0, 140.0, 160.0, 180.0],
            "people who chat, half a minute between six turns, on 8 × h100-8b",
        ),
        judged(
            agents(16)?,
            [6.0, 12.0, 18.0, 24.0, 30.0, 38.0],
            "agents with 9,000 to 20,000 shared tokens and eighteen steps on 16 × h100-8b",
        ),
        judged(
            code(4)?,
            [6.0, 9.0, 12.0, 15.0, 18.0, 21.0],
            "Azure's code completion, in bursts, without shared prefixes, on 4 × h100-8b",
        ),
        judged(
            mixed(16)?,
            [4.0, 7.0, 10.0, 13.0, 16.0, 19.0],
            "the conversation trace where 8 of 16 endpoints take twice as long",
        ),
    ])
}

/// What policies are tuned on, each at one load.
pub(crate) fn training() -> Result<Vec<(Scenario, f64)>, String> {
    let first = Traffic::Mooncake(mooncake("mooncake_conversation.jsonl", Part::FirstHalf)?);
    let conversation = Scenario::new("training-conversation", fleet(16, "h100-8b")?, first, 8_000);
    let saas = Traffic::Tenants(TenantsSpec {
        arrivals: ArrivalSpec::poisson(1.0),
        question: Length::LogNormal { mean: 1_200.0, sigma: 0.5, most: 8_000 },
        answer: Length::LogNormal { mean: 1_000.0, sigma: 0.5, most: 4_000 },
        block_tokens: 256,
        ..TenantsSpec::saas(1.0, 1)
    });
    let saas = Scenario::new("training-tenants", fleet(8, "h100-32b-tp2")?, saas, 1_000);
    Ok(vec![(conversation.clone(), 16.0), (conversation, 19.0), (saas.clone(), 7.0), (saas, 9.0)])
}
