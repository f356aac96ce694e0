//! Changes while running, as an operator asks for them.

use forebay_admin::{
    ControlError, EndpointPatch, EndpointStatus, FleetControl, OperatorState, PoolPatch, PoolStatus,
};
use forebay_config::Config;
use forebay_core::{EndpointState, PoolId};
use forebay_fleet::{ScrapeTarget, Target};
use forebay_gate::{PolicyKind, PoolConfig, PoolLoad, Profile};
use forebay_live::EndpointKey;
use parking_lot::Mutex;

use crate::pools::gate_config;
use crate::status::{StatusPage, endpoint_id};

/// How one pool decides now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decides {
    pub(crate) config: PoolConfig,
    /// The counts when it was last compared with another one, or by other prices.
    pub(crate) shadow_since: ShadowCounts,
}

/// Counts of shadow policies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShadowCounts {
    pub(crate) asked: u64,
    pub(crate) agreed: u64,
    pub(crate) difference_ms: f64,
}

impl ShadowCounts {
    fn of(load: &PoolLoad) -> ShadowCounts {
        ShadowCounts {
            asked: load.shadow_asked,
            agreed: load.shadow_agreed,
            difference_ms: load.shadow_dearer_ms - load.shadow_cheaper_ms,
        }
    }
}

/// How every pool decides, by its id.
pub(crate) struct Deciding(Mutex<Vec<Decides>>);

impl Deciding {
    /// As the configuration has it.
    pub(crate) fn new(config: &Config) -> Deciding {
        let decides = |pool| Decides { config: gate_config(pool), shadow_since: ShadowCounts::default() };
        Deciding(Mutex::new(config.pools.iter().map(decides).collect()))
    }

    pub(crate) fn of(&self, pool: PoolId) -> Decides {
        self.0.lock().get(pool.index()).copied().unwrap_or_default()
    }
}

/// What the fleet watches while no operator wants otherwise.
pub(crate) struct Watched {
    pub(crate) probes: Vec<Target<EndpointKey>>,
    pub(crate) scrapes: Vec<ScrapeTarget<EndpointKey>>,
}

impl Watched {
    /// The same, where what is disabled is left in peace.
    fn without(&self, disabled: impl Fn(EndpointKey) -> bool) -> Watched {
        let mut probes = self.probes.clone();
        for target in probes.iter_mut().filter(|target| disabled(target.id)) {
            target.paused = true;
        }
        let scrapes = self.scrapes.iter().filter(|target| !disabled(target.id)).cloned().collect();
        Watched { probes, scrapes }
    }
}

impl StatusPage {
    /// Looks at everything but what is disabled.
    fn watch(&self) {
        let Some(fleet) = self.fleet.upgrade() else { return };
        let disabled = |key| self.members.wanted(key) == Some(EndpointState::Disabled);
        let Watched { probes, scrapes } = self.watched.without(disabled);
        fleet.set_targets(probes);
        fleet.set_scrape_targets(scrapes);
    }
}

impl FleetControl for StatusPage {
    fn patch_endpoint(&self, id: &str, patch: &EndpointPatch) -> Result<EndpointStatus, ControlError> {
        let views = self.proxy.live().endpoints();
        let view = views.into_iter().find(|view| endpoint_id(view.key) == id);
        let view = view.ok_or(ControlError::Unknown)?;
        if let Some(weight) = patch.weight {
            self.proxy.live().set_weight(view.key, weight);
            tracing::info!(url = view.member.name, weight, "an operator wants the endpoint's weight so");
        }
        if let Some(state) = patch.state {
            let wanted = match state {
                OperatorState::Ready => None,
                OperatorState::Draining => Some(EndpointState::Draining),
                OperatorState::Disabled => Some(EndpointState::Disabled),
            };
            let probed = self.watched.probes.iter().any(|target| target.id == view.key);
            self.members.want(view.key, wanted, probed);
            self.watch();
            tracing::info!(
                url = view.member.name,
                state = state.as_str(),
                "an operator wants the endpoint so"
            );
        }
        let endpoints = self.pools().into_iter().flat_map(|pool| pool.endpoints);
        endpoints.into_iter().find(|endpoint| endpoint.id == id).ok_or(ControlError::Unknown)
    }

    fn patch_pool(&self, name: &str, patch: &PoolPatch) -> Result<PoolStatus, ControlError> {
        let at = self.config.pools.iter().position(|pool| pool.name == name);
        let at = at.ok_or(ControlError::Unknown)?;
        let id = PoolId(at as u32);
        let asked = patch.policy.as_deref().map(|word| policy("policy", word)).transpose()?;
        let profile = patch.profile.as_deref().map(profile).transpose()?;
        let shadow = match &patch.shadow_policy {
            None => None,
            Some(None) => Some(None),
            Some(Some(word)) => Some(Some(policy("shadow_policy", word)?)),
        };
        {
            // Held until the Gate knows: two changes come there in their order.
            let mut deciding = self.deciding.0.lock();
            let decides = deciding.get_mut(at).ok_or(ControlError::Unknown)?;
            let config = &mut decides.config;
            // What the shadow is compared with, and what a choice costs.
            let compared = |config: &PoolConfig| (config.policy, config.profile, config.shadow);
            let before = compared(config);
            config.policy = asked.unwrap_or(config.policy);
            config.profile = profile.unwrap_or(config.profile);
            config.shadow = shadow.unwrap_or(config.shadow);
            if before != compared(config) {
                let load = self.proxy.live().pool(id);
                decides.shadow_since = load.as_ref().map(ShadowCounts::of).unwrap_or_default();
            }
            self.proxy.live().configure(id, decides.config);
            let PoolConfig { policy, profile, shadow, .. } = decides.config;
            let shadow = shadow.map(PolicyKind::as_str);
            let (policy, profile) = (policy.as_str(), profile.as_str());
            tracing::info!(pool = name, policy, profile, shadow, "an operator changed how the pool decides");
        }
        self.pools().into_iter().nth(at).ok_or(ControlError::Unknown)
    }
}

fn policy(field: &'static str, word: &str) -> Result<PolicyKind, ControlError> {
    let allowed = || PolicyKind::ALL.iter().map(|kind| kind.as_str()).collect();
    word.parse().map_err(|_| ControlError::Invalid { field, allowed: allowed() })
}

fn profile(word: &str) -> Result<Profile, ControlError> {
    let allowed = || Profile::ALL.iter().map(|profile| profile.as_str()).collect();
    word.parse().map_err(|_| ControlError::Invalid { field: "profile", allowed: allowed() })
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
