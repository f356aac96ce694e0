//! A pool's policy, connections and times.

use crate::PolicyKind;
use crate::choices::{Engine, OrcaAsk, Protocol};
use crate::pool::Pool;

pub(super) fn check(pool: &Pool, path: &str, trusted: bool, warn: &mut impl FnMut(String, &str)) {
    policies(pool, path, trusted, warn);
    without_effect(pool, path, warn);
    connections(pool, path, warn);
}

/// Policies that cannot do what they are for.
fn policies(pool: &Pool, path: &str, trusted: bool, warn: &mut impl FnMut(String, &str)) {
    let weights_differ = pool.endpoints.iter().any(|endpoint| endpoint.weight != pool.endpoints[0].weight);
    if weights_differ && pool.policy == PolicyKind::RoundRobin {
        warn(
            format!("{path}.policy"),
            "round_robin ignores the endpoints' weights; use weighted_round_robin, or remove the weights",
        );
    }
    if pool.policy == PolicyKind::ConsistentHash && pool.endpoints.len() == 1 {
        warn(format!("{path}.policy"), "consistent_hash has no choice with one endpoint");
    }
    if pool.policy == PolicyKind::SessionAffinity && !trusted {
        warn(
            format!("{path}.policy"),
            "without trust_control_headers a session is known only by the `user` of the request's body; requests \
             without it keep to no endpoint",
        );
    }
    if pool.policy == PolicyKind::OrcaWeightedRoundRobin {
        reports(pool, path, warn);
    }
    match pool.shadow_policy {
        Some(shadow) if shadow == pool.policy => {
            warn(format!("{path}.shadow_policy"), "is the policy itself, which always agrees");
        }
        Some(PolicyKind::Learned) => warn(
            format!("{path}.shadow_policy"),
            "learned as a shadow learns nothing, as its choices are never tried: it always chooses as predictive",
        ),
        _ => {}
    }
}

/// What `orca_weighted_round_robin` needs from the endpoints' load reports.
fn reports(pool: &Pool, path: &str, warn: &mut impl FnMut(String, &str)) {
    let metric = match pool.engine {
        Engine::Auto => {
            "(for vLLM named_metrics.kv_cache_usage_perc, for Triton named_metrics.kv_cache_utilization)"
        }
        Engine::Vllm => "(named_metrics.kv_cache_usage_perc)",
        Engine::Triton => "(named_metrics.kv_cache_utilization)",
        _ => "",
    };
    let unnamed = pool.orca.metrics.is_empty() && !metric.is_empty();
    let rest = "without it no weight is ever known and each endpoint goes in turn";
    if pool.orca.ask == OrcaAsk::None {
        let named = if unnamed {
            format!(" and, for what they report, orca.metrics {metric}")
        } else {
            String::new()
        };
        warn(
            format!("{path}.policy"),
            &format!(
                "orca_weighted_round_robin needs load reports, which vLLM and Triton send only when asked; set \
                 orca.ask{named}; {rest}"
            ),
        );
    } else if unnamed {
        warn(
            format!("{path}.orca.metrics"),
            &format!(
                "is empty, and vLLM and Triton report no utilisation but named metrics; name one {metric}: {rest}"
            ),
        );
    }
}

/// Settings that the pool's policies do not read.
fn without_effect(pool: &Pool, path: &str, warn: &mut impl FnMut(String, &str)) {
    let default = Pool::new("", "");
    let uses = |kinds: &[PolicyKind]| {
        [Some(pool.policy), pool.shadow_policy].into_iter().flatten().any(|policy| kinds.contains(&policy))
    };
    let by_price = uses(&[PolicyKind::Predictive, PolicyKind::Learned]);
    if pool.profile != default.profile && !by_price {
        warn(format!("{path}.profile"), "has no effect: only the policies predictive and learned read it");
    }
    // These two go by the predicted time to the first token, which contains it.
    let by_time = uses(&[PolicyKind::LeastLatency, PolicyKind::LeastQueue]);
    if pool.rule.as_ref().is_some_and(|rule| rule.cost_ms.is_some()) && !by_price && !by_time {
        warn(
            format!("{path}.rule.cost_ms"),
            "has no effect: only the policies predictive, learned, least_latency and least_queue count it; filter works \
             with every policy",
        );
    }
    if pool.dynamic_weights && pool.policy == PolicyKind::RoundRobin {
        warn(format!("{path}.weights"), "has no effect: round_robin looks at no weights");
    }
    let affine = [PolicyKind::ConsistentHash, PolicyKind::PrefixAffinity, PolicyKind::SessionAffinity];
    if !uses(&affine) && pool.hash_balance_factor != default.hash_balance_factor {
        warn(
            format!("{path}.hash_balance_factor"),
            "has no effect: only the policies consistent_hash, prefix_affinity and session_affinity read it",
        );
    }
    let orca = uses(&[PolicyKind::OrcaWeightedRoundRobin]);
    if !orca && (pool.orca.weights != default.orca.weights || !pool.orca.metrics.is_empty()) {
        warn(
            format!("{path}.orca"),
            "has metrics or periods without effect: only the policy orca_weighted_round_robin reads them",
        );
    }
    if pool.warm_up.requests == 0 && pool.warm_up.concurrency != default.warm_up.concurrency {
        warn(format!("{path}.warm_up.concurrency"), "has no effect without requests");
    }
}

/// Connections, probes and time limits.
fn connections(pool: &Pool, path: &str, warn: &mut impl FnMut(String, &str)) {
    let default = Pool::new("", "");
    if pool.protocol != Protocol::H2c && pool.h2_connections != default.h2_connections {
        warn(format!("{path}.h2_connections"), "has no effect without protocol: h2c");
    }
    if pool.health.enabled && pool.health.timeout.as_secs() < 1 {
        warn(
            format!("{path}.health.timeout"),
            "is under 1s: engines that are busy with a long prompt answer later than that and would be taken for dead",
        );
    }
    if let Some(total) = pool.timeouts.total {
        let waits = [("first_byte", pool.timeouts.first_byte), ("answer", pool.timeouts.answer)];
        for (name, wait) in waits {
            if wait.is_some_and(|wait| total < wait) {
                warn(
                    format!("{path}.timeouts.total"),
                    &format!("is shorter than {name}, which it makes meaningless"),
                );
            }
        }
    }
}
