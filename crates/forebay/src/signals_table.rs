//! The last signals of every endpoint, for whoever shows them or decides by
//! them outside the Gates.

use std::collections::BTreeMap;

use forebay_core::Time;
use forebay_live::EndpointKey;
use forebay_wire::signals::{Dialect, Signals};
use parking_lot::RwLock;

/// What was last told of one endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// When the figures were true.
    pub(crate) at: Option<Time>,
    pub(crate) signals: Signals,
    /// The engine that was found there, where it was looked for.
    pub(crate) dialect: Option<Dialect>,
    /// Why the last scrape failed; none when it did not.
    pub(crate) failure: Option<&'static str>,
    /// Scrapes that ended well and that did not.
    pub(crate) scrapes: (u64, u64),
}

impl Told {
    /// How many of the operator's signals are not on the endpoint's page.
    pub(crate) fn missing(&self) -> u32 {
        self.signals.custom_missing.iter().map(|missing| u32::from(*missing)).sum()
    }
}

/// By endpoint. Written by the fleet, one endpoint at a time.
#[derive(Debug, Default)]
pub(crate) struct SignalsTable(RwLock<BTreeMap<EndpointKey, Told>>);

impl SignalsTable {
    pub(crate) fn set(&self, id: EndpointKey, at: Time, signals: &Signals) {
        let mut table = self.0.write();
        let told = table.entry(id).or_default();
        told.at = Some(at);
        told.signals.clone_from(signals);
        told.failure = None;
        told.scrapes.0 += 1;
    }

    pub(crate) fn set_dialect(&self, id: EndpointKey, dialect: Dialect) {
        self.0.write().entry(id).or_default().dialect = Some(dialect);
    }

    pub(crate) fn failed(&self, id: EndpointKey, why: &'static str) {
        let mut table = self.0.write();
        let told = table.entry(id).or_default();
        told.failure = Some(why);
        told.scrapes.1 += 1;
    }

    /// What was last told of an endpoint.
    pub(crate) fn get(&self, id: EndpointKey) -> Option<Told> {
        self.0.read().get(&id).cloned()
    }

    /// Reads one endpoint's without copying it.
    pub(crate) fn with<R>(&self, id: EndpointKey, read: impl FnOnce(&Told) -> R) -> Option<R> {
        self.0.read().get(&id).map(read)
    }
}
