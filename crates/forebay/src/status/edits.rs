//! Where bodies are not passed on byte for byte.

use forebay_admin::BodyEdit;
use forebay_config::{Engine, ModelAlias, Pool};
use forebay_core::PoolId;
use forebay_live::EndpointView;
use forebay_proxy::Endpoint;

use super::StatusPage;

impl StatusPage {
    /// Every edit that a request may meet now.
    pub(super) fn edits(&self) -> Vec<BodyEdit> {
        let endpoints = self.proxy.live().endpoints();
        let pools = self.config.pools.iter().enumerate();
        let adapters = pools.filter_map(|(i, pool)| self.adapters(PoolId(i as u32), pool, &endpoints));
        self.config.models.iter().map(alias).chain(adapters).collect()
    }

    /// None while nobody can ask the pool for an adapter.
    fn adapters(&self, id: PoolId, pool: &Pool, endpoints: &[EndpointView<Endpoint>]) -> Option<BodyEdit> {
        let mut members = endpoints.iter().filter(|view| view.pools.contains(&id));
        let listed = |view: &EndpointView<Endpoint>| !self.members.adapters(view.key).is_empty();
        let discovered = pool.discover_adapters && members.clone().any(listed);
        if pool.adapters.is_empty() && !discovered {
            return None;
        }
        let on_base = members.any(|view| view.member.names_adapters_on_base());
        Some(BodyEdit {
            model: format!("adapters of {}", pool.model),
            field: "model".to_owned(),
            reason: adapters(&pool.model, on_base),
        })
    }
}

fn alias(alias: &ModelAlias) -> BodyEdit {
    let targets: Vec<&str> = alias.targets.iter().map(|target| &*target.model).collect();
    BodyEdit {
        model: alias.name.clone(),
        field: "model".to_owned(),
        reason: format!("an alias of {}: its value is replaced on the way in and out", targets.join(", ")),
    }
}

/// What the configuration alone says of a pool's adapters; none when nothing.
pub(crate) fn adapters_of(pool: &Pool) -> Option<String> {
    let on_base = pool.engine == Engine::Sglang;
    let asked_for = !pool.adapters.is_empty() || (on_base && pool.discover_adapters);
    asked_for.then(|| format!("adapters of \"{}\": {}", pool.model, adapters(&pool.model, on_base)))
}

fn adapters(model: &str, on_base: bool) -> String {
    if on_base {
        format!(
            "SGLang is sent {model}:ADAPTER for the adapter's own name, which is put back into its answer"
        )
    } else {
        format!(
            "who asks for {model}:ADAPTER is answered under that name, and the engine sent the adapter's own \
             (SGLang the other way round)"
        )
    }
}
