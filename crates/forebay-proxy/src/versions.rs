//! Numbers for the versions that a configuration names.

use std::collections::BTreeSet;

use forebay_config::Config;
use forebay_core::VersionId;

/// Every version of a configuration, in order; the same configuration gives
/// the same numbers wherever it is asked.
#[derive(Debug)]
pub struct Versions<'a>(Vec<&'a str>);

impl<'a> Versions<'a> {
    /// The versions of the endpoints.
    pub fn of(config: &'a Config) -> Versions<'a> {
        let named = config.pools.iter().flat_map(|pool| &pool.endpoints).filter_map(|e| e.version.as_deref());
        Versions(named.collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// The number of a version; none when no endpoint has it.
    pub fn id(&self, name: &str) -> Option<VersionId> {
        self.0.binary_search(&name).ok().map(|at| VersionId(at as u32))
    }
}
