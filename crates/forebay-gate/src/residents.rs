//! Which adapters an endpoint serves, and which are loaded there.

use forebay_core::{ModelId, Time};
use serde::{Deserialize, Serialize};

/// Adapters taken to be loaded at one endpoint when it does not say how many fit.
const USUAL_SLOTS: usize = 8;

/// The adapters of one endpoint.
///
/// Engines name the adapters that have requests running; one that was loaded
/// and idles is not named, and one that only waits is not either (vLLM 0.32).
/// So what this gateway sent counts as well: the adapters last used there, as
/// many as fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Residents {
    /// What the endpoint lists; none when it never said.
    listed: Option<Vec<ModelId>>,
    /// Loaded, the latest used last.
    loaded: Vec<(ModelId, Time)>,
    slots: Option<u32>,
}

impl Residents {
    /// The endpoint's own list of adapters, sorted.
    pub(crate) fn list(&mut self, mut adapters: Vec<ModelId>) {
        adapters.sort_unstable();
        self.loaded.retain(|(id, _)| adapters.binary_search(id).is_ok());
        self.listed = Some(adapters);
    }

    /// Whether a request for it may go there.
    pub(crate) fn serves(&self, adapter: ModelId) -> bool {
        self.listed.as_ref().is_none_or(|listed| listed.binary_search(&adapter).is_ok())
    }

    /// Whether the endpoint itself lists it.
    pub(crate) fn lists(&self, adapter: ModelId) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.binary_search(&adapter).is_ok())
    }

    /// Whether it is taken to be loaded.
    pub(crate) fn is_loaded(&self, adapter: ModelId) -> bool {
        self.loaded.iter().any(|(id, _)| *id == adapter)
    }

    /// Whether loading one more drives another out.
    pub(crate) fn is_full(&self) -> bool {
        self.loaded.len() >= self.places()
    }

    /// A request for it was sent there, or the endpoint said that it is running.
    pub(crate) fn used(&mut self, adapter: ModelId, now: Time) {
        self.loaded.retain(|(id, _)| *id != adapter);
        let places = self.places();
        while self.loaded.len() >= places {
            self.loaded.remove(0);
        }
        self.loaded.push((adapter, now));
    }

    /// How many fit, as the endpoint says.
    pub(crate) fn set_slots(&mut self, slots: Option<u32>) {
        if let Some(slots) = slots.filter(|slots| *slots > 0) {
            self.slots = Some(slots.min(256));
        }
    }

    /// The engine began anew: nothing is loaded.
    pub(crate) fn forget(&mut self) {
        self.loaded.clear();
    }

    fn places(&self) -> usize {
        self.slots.map_or(USUAL_SLOTS, |slots| slots as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_adapter_makes_room() {
        let mut residents = Residents::default();
        residents.set_slots(Some(2));
        for (i, id) in [1, 2, 1, 3].into_iter().enumerate() {
            residents.used(ModelId(id), Time::from_nanos(i as u64));
        }
        assert!(residents.is_loaded(ModelId(1)) && residents.is_loaded(ModelId(3)));
        assert!(!residents.is_loaded(ModelId(2)) && residents.is_full());
        residents.forget();
        assert!(!residents.is_loaded(ModelId(1)) && !residents.is_full());
    }

    #[test]
    fn an_endpoint_that_said_nothing_may_serve_everything() {
        let mut residents = Residents::default();
        assert!(residents.serves(ModelId(7)) && !residents.lists(ModelId(7)));
        residents.list(vec![ModelId(3), ModelId(1)]);
        assert!(residents.serves(ModelId(3)) && !residents.serves(ModelId(7)));
    }
}
