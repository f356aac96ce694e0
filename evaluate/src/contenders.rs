//! Who is compared.

use forebay_gate::{PolicyKind, PoolConfig, Profile, Weights, Without};
use forebay_sim::baselines::{BaselineKind, Knobs};
use forebay_sim::fleet::PolicySpec;

use crate::cell::Contender;

/// One of ours, at its defaults.
pub(crate) fn ours(policy: PolicyKind) -> Contender {
    let config = PoolConfig { policy, ..PoolConfig::default() };
    Contender { name: policy.as_str().to_owned(), policy: PolicySpec::Ours(config) }
}

/// `predictive` as it is installed.
pub(crate) fn predictive() -> Contender {
    ours(PolicyKind::Predictive)
}

/// `predictive` with another profile.
pub(crate) fn profile(profile: Profile) -> Contender {
    let config = PoolConfig { profile, ..PoolConfig::default() };
    Contender { name: format!("predictive ({profile})"), policy: PolicySpec::Ours(config) }
}

/// `predictive` with prices of its own.
pub(crate) fn priced(name: &str, prices: Weights) -> Contender {
    let config = PoolConfig { prices: Some(prices), ..PoolConfig::default() };
    Contender { name: name.to_owned(), policy: PolicySpec::Ours(config) }
}

/// `predictive` without some part.
pub(crate) fn without(name: &str, without: Without) -> Contender {
    let config = PoolConfig { without, ..PoolConfig::default() };
    Contender { name: name.to_owned(), policy: PolicySpec::Ours(config) }
}

/// A rival's rule at its own defaults.
pub(crate) fn rival(kind: BaselineKind) -> Contender {
    Contender { name: kind.as_str().to_owned(), policy: PolicySpec::Baseline(kind, Knobs::default()) }
}

/// … with knobs that were found by tuning.
pub(crate) fn tuned(kind: BaselineKind, knobs: &Knobs) -> Contender {
    Contender { name: format!("{} tuned", kind.as_str()), policy: PolicySpec::Baseline(kind, knobs.clone()) }
}
