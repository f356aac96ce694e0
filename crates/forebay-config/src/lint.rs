//! What is allowed and still looks like a mistake.

mod pool;
mod prefix;
mod shared;
mod signals;

use std::fmt;

use crate::config::Config;
use crate::prefix::PrefixIndex;

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
        let path = format!("pools[{index}]");
        pool::check(pool, &path, config.trust_control_headers, &mut warn);
        signals::check(pool, &path, &mut warn);
        prefix::check(pool, &path, &mut warn);
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
    let index = &config.prefix_index;
    if index.snapshot.is_none() && index.snapshot_interval != PrefixIndex::default().snapshot_interval {
        warn("prefix_index.snapshot_interval".to_owned(), "has no effect without snapshot");
    }
    prefix::publishers(config, &mut warn);
    shared::check(config, &mut warn);
    lints
}

#[cfg(test)]
mod tests;
