//! One requested name on its way to one pool.

use std::sync::Arc;

use forebay_core::{ModelId, TenantId, VersionId};
use forebay_metrics::RouteMetrics;
use forebay_predict::OutputLengths;

use crate::pool_route::PoolRoute;

/// One requested name on its way to one pool.
pub(crate) struct Route {
    pub(crate) pool: Arc<PoolRoute>,
    /// The name the client asked for.
    pub(crate) model: String,
    /// The model or adapter that answers: the same for every name that leads there.
    pub(crate) model_id: ModelId,
    /// The only version of the endpoints that it may go to.
    pub(crate) version: Option<VersionId>,
    /// The name the engine knows, where it is another one.
    pub(crate) rewrite: Option<String>,
    /// The base model, where this name leads to a LoRA adapter.
    pub(crate) adapter: Option<Base>,
    pub(crate) metrics: RouteMetrics,
}

/// The model under an adapter: its pool's own.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) name: String,
    pub(crate) id: ModelId,
}

impl Route {
    /// What the engines call what answers: the model, or the adapter.
    pub(crate) fn engine_name(&self) -> &str {
        self.rewrite.as_deref().unwrap_or(&self.model)
    }

    /// What the engines call the model, and the adapter on it where it is one.
    pub(crate) fn names(&self) -> (&str, Option<&str>) {
        match &self.adapter {
            Some(base) => (&base.name, Some(self.engine_name())),
            None => (self.engine_name(), None),
        }
    }

    /// The adapter's id, where this name leads to one.
    pub(crate) fn adapter_id(&self) -> Option<ModelId> {
        self.adapter.is_some().then_some(self.model_id)
    }

    /// How many tokens one answer to this tenant usually has. An adapter that
    /// has not answered yet is taken to answer like its base model.
    pub(crate) fn usual_output(&self, tenant: TenantId) -> f64 {
        self.usual_of(&self.pool.outputs.lock(), tenant)
    }

    fn usual_of(&self, outputs: &OutputLengths, tenant: TenantId) -> f64 {
        let base = || self.adapter.as_ref().and_then(|base| outputs.known(base.id, tenant.0));
        outputs
            .known(self.model_id, tenant.0)
            .or_else(base)
            .unwrap_or_else(|| outputs.expect(self.model_id, tenant.0))
    }

    /// So many answers had so many tokens in all.
    pub(crate) fn learn_output(&self, tenant: TenantId, tokens: u64, answers: u32) {
        let mut outputs = self.pool.outputs.lock();
        let usual = self.usual_of(&outputs, tenant);
        let answers = u64::from(answers.max(1));
        // No single answer counts for more than a few of the usual ones: what
        // engines state is theirs to state.
        let each = (tokens.saturating_add(answers / 2) / answers).min((usual * 8.0) as u64 + 1024);
        let each = u32::try_from(each).unwrap_or(u32::MAX);
        outputs.observe_after(usual, self.model_id, tenant.0, each);
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::{Config, Pool};
    use forebay_metrics::Metrics;

    use super::*;
    use crate::registry::{Registry, RegistryBuilder};

    const NOBODY: TenantId = TenantId(0);

    fn registry() -> Registry {
        let pool = Pool { adapters: vec!["sql".to_owned()], ..Pool::new("chat", "tide-7b") };
        RegistryBuilder::build(&Config { pools: vec![pool], ..Config::default() }, &Metrics::new("0"), 0)
    }

    #[test]
    fn an_answer_of_one_token_is_expected_to_have_one() {
        let route = registry().route("tide-7b", 0).unwrap();
        assert_eq!(route.usual_output(NOBODY), 200.0);
        for _ in 0..8000 {
            route.learn_output(NOBODY, 1, 1);
        }
        assert!(route.usual_output(NOBODY) < 1.5, "{}", route.usual_output(NOBODY));
    }

    #[test]
    fn several_answers_of_one_request_are_counted_apart() {
        let route = registry().route("tide-7b", 0).unwrap();
        for _ in 0..1000 {
            route.learn_output(NOBODY, 400, 4);
        }
        assert!((route.usual_output(NOBODY) - 100.0).abs() < 1.0, "{}", route.usual_output(NOBODY));
    }

    #[test]
    fn adapters_start_from_their_base_and_learn_their_own() {
        let registry = registry();
        let (base, sql) = (registry.route("tide-7b", 0).unwrap(), registry.route("sql", 0).unwrap());
        for _ in 0..1000 {
            base.learn_output(NOBODY, 900, 1);
        }
        assert_eq!(sql.usual_output(NOBODY), base.usual_output(NOBODY));
        sql.learn_output(NOBODY, 100, 1);
        assert!((600.0..800.0).contains(&sql.usual_output(NOBODY)), "{}", sql.usual_output(NOBODY));
    }

    #[test]
    fn absurd_statements_are_taken_for_a_few_answers() {
        let route = registry().route("tide-7b", 0).unwrap();
        for _ in 0..20 {
            route.learn_output(NOBODY, 50, 1);
        }
        route.learn_output(NOBODY, u64::MAX - 1, 1);
        route.learn_output(NOBODY, u64::MAX, u32::MAX);
        assert!(route.usual_output(NOBODY) < 500.0, "{}", route.usual_output(NOBODY));
    }
}
