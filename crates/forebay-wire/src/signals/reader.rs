//! One pass over a page of metrics.

use forebay_core::{LoadReport, Time};

use super::{CustomSignal, Dialect, MAX_CUSTOM, Signals};
use crate::prom;

/// Reads an endpoint's metrics page; made once for each endpoint.
#[derive(Clone, Debug)]
pub struct Reader {
    dialect: Dialect,
    #[expect(dead_code, reason = "selection by model follows")]
    model: Option<String>,
    #[expect(dead_code, reason = "the user's signals follow")]
    custom: Vec<CustomSignal>,
}

impl Reader {
    /// A reader of `dialect`'s pages. Where a page tells of several models,
    /// only the series of `model` count; when none is labelled so, all do.
    /// Of `custom` the first [`MAX_CUSTOM`] are read.
    pub fn new(dialect: Dialect, model: Option<&str>, custom: &[CustomSignal]) -> Self {
        let custom = custom.iter().take(MAX_CUSTOM).cloned().collect();
        Self { dialect, model: model.map(str::to_owned), custom }
    }

    /// What `page` tells.
    pub fn read(&self, page: &[u8]) -> Signals {
        let LoadReport { running, waiting, kv_usage, .. } = match self.dialect {
            Dialect::Vllm => prom::vllm_load(page, Time::ZERO),
            _ => LoadReport::default(),
        };
        Signals { running, waiting, kv_usage, ..Signals::default() }
    }
}
