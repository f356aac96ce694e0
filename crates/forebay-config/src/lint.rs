//! What is allowed and still looks like a mistake.

use std::fmt;

use crate::PolicyKind;
use crate::choices::Protocol;
use crate::config::Config;
use crate::pool::Pool;

/// Something that is allowed and still looks like a mistake. It shows no value that may
/// have come from the environment.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Lint {
    /// The field, such as `pools[0].policy`.
    pub path: String,
    /// What is suspicious, and what to do.
    pub message: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Everything suspicious in a configuration, in the order of the documentation.
pub fn warnings(config: &Config) -> Vec<Lint> {
    let mut lints = Vec::new();
    let mut warn = |path: String, message: &str| lints.push(Lint { path, message: message.to_owned() });
    if !config.admin.ip().to_canonical().is_loopback() {
        warn(
            "admin".to_owned(),
            "the control plane has no access control and is reachable from other machines; keep it on 127.0.0.1 \
             or on a network that only operators reach",
        );
    }
    let open = config.listen.iter().any(|listener| !listener.address.ip().to_canonical().is_loopback());
    if config.trust_control_headers && open {
        warn(
            "trust_control_headers".to_owned(),
            "anyone who reaches `listen` can set priorities and deadlines; keep it on only behind a gateway that \
             sets these headers",
        );
    }
    for (index, pool) in config.pools.iter().enumerate() {
        pool_warnings(pool, &format!("pools[{index}]"), &mut warn);
        if pool.timeouts.first_byte.is_some_and(|wait| config.drain.limit < wait) {
            warn(
                "drain.limit".to_owned(),
                &format!(
                    "is shorter than the first_byte timeout of pools[{index}]: requests that wait in a healthy \
                     engine's queue are cut when the program ends"
                ),
            );
        }
    }
    shared_endpoint_warnings(config, &mut warn);
    lints
}

/// Pools at one address share its connections, which are made as the first says.
fn shared_endpoint_warnings(config: &Config, warn: &mut impl FnMut(String, &str)) {
    for (index, pool) in config.pools.iter().enumerate() {
        let differs = |other: &Pool| {
            let shares = pool.endpoints.iter().any(|e| other.endpoints.iter().any(|o| o.name == e.name));
            let same = other.protocol == pool.protocol
                && other.timeouts.connect == pool.timeouts.connect
                && other.max_dials == pool.max_dials
                && other.h2_connections == pool.h2_connections
                && other.health == pool.health;
            shares && !same
        };
        if let Some(first) = config.pools[..index].iter().position(differs) {
            warn(
                format!("pools[{index}]"),
                &format!(
                    "shares an endpoint with pools[{first}] and differs from it in protocol, timeouts.connect, \
                     max_dials, h2_connections or health; for the shared endpoint pools[{first}] counts"
                ),
            );
        }
    }
}

fn pool_warnings(pool: &Pool, path: &str, warn: &mut impl FnMut(String, &str)) {
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
    let default = Pool::new("", "");
    if pool.policy != PolicyKind::ConsistentHash && pool.hash_balance_factor != default.hash_balance_factor {
        warn(
            format!("{path}.hash_balance_factor"),
            "has no effect: only the policy consistent_hash reads it",
        );
    }
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

#[cfg(test)]
mod tests;
