//! Fleets and traffic that several claims share.

use forebay_core::{Priority, Slo};
use forebay_sim::engine::Profile;
use forebay_sim::fleet::{EndpointSpec, Fleet};
use forebay_sim::workload::{Class, Length, TenantsSpec};

use crate::scenario::Traffic;
use crate::workloads;

/// A model of short tasks without generation, one at a time: 10 tokens take
/// 5 ms and 512 tokens 250 ms.
pub(super) const ENCODER: Profile = Profile {
    name: "encoder",
    a: 0.12,
    b: 0.488,
    c: 0.0,
    d: 0.0,
    e: 0.0,
    kv_tokens: 65_536,
    max_num_seqs: 1,
    max_batched_tokens: 512,
    block_size: 16,
};

/// Milliseconds that a task of so many tokens takes there.
pub(super) fn encoder_ms(tokens: u32) -> f64 {
    ENCODER.a + ENCODER.b * f64::from(tokens)
}

/// Prompts and answers of one size on average, with nothing in common.
pub(super) fn plain(prompt: f64, answer: f64) -> Traffic {
    let log_normal = |mean, most| Length::LogNormal { mean, sigma: 0.6, most };
    Traffic::Tenants(TenantsSpec {
        tenants: 1,
        prefix: Length::Fixed(0),
        question: log_normal(prompt, 16_000),
        answer: log_normal(answer, 4_000),
        // Nothing is shared, so that blocks would only cost time.
        block_tokens: 1 << 15,
        ..TenantsSpec::saas(1.0, 1)
    })
}

/// Tasks of so many tokens that have to be done within so many milliseconds.
pub(super) fn tasks(from: u32, to: u32, within_ms: f32, priority: Priority) -> Traffic {
    let slo = Slo { ttft_ms: Some(within_ms), tpot_ms: None };
    Traffic::Tenants(TenantsSpec {
        question: Length::Uniform(from, to),
        block_tokens: 1 << 15,
        class: Class { priority, slo, ..Class::default() },
        ..TenantsSpec::tasks(1.0, 1)
    })
}

/// Half of the endpoints of one class and half of another, which takes so many
/// times as long as its profile says. Weights are 1 until they are set.
pub(super) fn halves(each: usize, fast: &str, slow: &str, slowness: f64) -> Result<Fleet, String> {
    let mut fleet = workloads::fleet(each, fast)?;
    let profile = Profile::by_name(slow).ok_or_else(|| format!("no class {slow}"))?;
    for number in 0..each {
        let mut endpoint = EndpointSpec::new(format!("slow{number}"), profile);
        endpoint.slowness = slowness;
        fleet.endpoints.push(endpoint);
    }
    for endpoint in &mut fleet.endpoints {
        endpoint.host_tokens = 0;
    }
    Ok(fleet)
}
