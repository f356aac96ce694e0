//! One pass over a page of metrics.

use super::{CustomSignal, Dialect, Signals, page::Page, plan::Plan};
use crate::prom;

/// Reads an endpoint's metrics page; made once for each endpoint.
///
/// A page is read in one pass that touches only the lines it needs. Series of
/// several data-parallel ranks become one figure: requests and tokens are
/// summed, of KV usage the highest counts. Of tensor- and pipeline-parallel
/// ranks, which all tell the same, the first counts. Where an engine has
/// renamed a metric and both names are there, the newer counts.
#[derive(Clone, Debug)]
pub struct Reader {
    plan: Plan,
    model: Option<String>,
}

impl Reader {
    /// A reader of `dialect`'s pages. Where a page tells of several models,
    /// only the series of `model` count; when none is labelled so, all do.
    /// Of `custom` the first [`MAX_CUSTOM`](super::MAX_CUSTOM) are read.
    pub fn new(dialect: Dialect, model: Option<&str>, custom: &[CustomSignal]) -> Self {
        Self { plan: Plan::new(dialect, custom), model: model.map(str::to_owned) }
    }

    /// What `page` tells: Prometheus text or OpenMetrics, not compressed. A
    /// page of something else tells nothing.
    pub fn read(&self, page: &[u8]) -> Signals {
        let mut seen = Page::new(&self.plan, self.model.as_deref());
        prom::read_found(
            page,
            &self.plan.filter,
            |name| self.plan.find(name),
            |uses, sample| match sample {
                Some(sample) => seen.add(uses, sample),
                None => seen.add_unreadable(uses),
            },
        );
        seen.signals()
    }
}
