//! Adapters that endpoints list and no configuration names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_core::{ModelId, PoolId};

use crate::model_route::{Base, Route};

/// Routes at most: names come from engines, whose adapters clients may be
/// allowed to load.
const MAX: usize = 4096;

/// By name, a route to each pool that serves it, never none; the first is for
/// whoever asks for the plain name.
pub(super) type Discovered = BTreeMap<String, Vec<Arc<Route>>>;

/// What the endpoints of each pool list now.
#[derive(Default)]
pub(super) struct Listed(BTreeMap<PoolId, BTreeSet<String>>);

impl Listed {
    /// A pool's endpoints list these adapters now, and no others.
    pub(super) fn set<'a>(&mut self, pool: PoolId, listed: impl Iterator<Item = &'a str>) {
        self.0.insert(pool, listed.take(MAX).map(str::to_owned).collect());
    }

    /// The routes to all of it. `base` finds the route of a pool's own model,
    /// `old` is what there was before, and `next` draws a new id.
    ///
    /// Whoever serves a name goes on serving it while it is listed there. When
    /// it is no longer, the name passes to the next pool that lists it and keeps
    /// its id, since that pool's endpoints are known to list it by that id.
    pub(super) fn routes(
        &self,
        old: &Discovered,
        base: impl Fn(PoolId) -> Option<Arc<Route>>,
        mut next: impl FnMut() -> ModelId,
    ) -> Discovered {
        let mut new = Discovered::new();
        let mut count = 0;
        let lists = |pool: PoolId, name: &str| self.0.get(&pool).is_some_and(|names| names.contains(name));
        for (name, routes) in old {
            let kept: Vec<_> = routes.iter().filter(|route| lists(route.pool.id, name)).cloned().collect();
            count += kept.len();
            if !kept.is_empty() {
                new.insert(name.clone(), kept);
            }
        }
        for (pool, names) in &self.0 {
            let Some(base) = base(*pool) else { continue };
            for name in names {
                let known = new.get(name);
                let there = known.is_some_and(|routes| routes.iter().any(|route| route.pool.id == *pool));
                if there || count >= MAX {
                    continue;
                }
                let id = known.or_else(|| old.get(name)).and_then(|routes| routes.first());
                let id = id.map_or_else(&mut next, |route| route.model_id);
                new.entry(name.clone()).or_default().push(Arc::new(found(&base, name, id)));
                count += 1;
            }
        }
        new
    }
}

/// Counted under the pool's own model, so that names which come and go leave
/// no series behind.
fn found(base: &Route, name: &str, id: ModelId) -> Route {
    Route {
        pool: Arc::clone(&base.pool),
        model: name.to_owned(),
        model_id: id,
        version: None,
        rewrite: None,
        adapter: Some(Base { name: base.model.clone(), id: base.model_id }),
        metrics: base.metrics.clone(),
    }
}
