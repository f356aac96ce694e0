//! Which adapters an endpoint serves, and which are loaded there.

use forebay_core::{ModelId, Time};
use serde::{Deserialize, Serialize};

/// Adapters taken to be loaded at one endpoint when it does not say how many fit.
const USUAL_SLOTS: usize = 8;

/// What a request for an adapter finds at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Residence {
    /// It is there.
    Loaded,
    /// A request before this one made the engine load it, since then.
    Loading(Time),
    /// It will have to be loaded.
    Absent,
}

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
    /// Loaded, the latest used last; with since when, while it is being loaded.
    loaded: Vec<(ModelId, Option<Time>)>,
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
    pub(crate) fn residence(&self, adapter: ModelId) -> Residence {
        match self.loaded.iter().find(|(id, _)| *id == adapter) {
            Some((_, None)) => Residence::Loaded,
            Some((_, Some(since))) => Residence::Loading(*since),
            None => Residence::Absent,
        }
    }

    /// Whether loading one more drives another out.
    pub(crate) fn is_full(&self) -> bool {
        self.loaded.len() >= self.places()
    }

    /// A request for it was sent there: from now on it is loading, unless it
    /// is there.
    pub(crate) fn used(&mut self, adapter: ModelId, now: Time) {
        let loading = match self.residence(adapter) {
            Residence::Loaded => None,
            Residence::Loading(since) => Some(since),
            Residence::Absent => Some(now),
        };
        self.put(adapter, loading);
    }

    /// It is there: the endpoint said so.
    pub(crate) fn runs(&mut self, adapter: ModelId) {
        self.put(adapter, None);
    }

    /// It is there: a request for it was answered. When it was used is known
    /// from when that one was sent.
    pub(crate) fn answered(&mut self, adapter: ModelId) {
        if let Some((_, loading)) = self.loaded.iter_mut().find(|(id, _)| *id == adapter) {
            *loading = None;
        }
    }

    fn put(&mut self, adapter: ModelId, loading: Option<Time>) {
        self.loaded.retain(|(id, _)| *id != adapter);
        let places = self.places();
        while self.loaded.len() >= places {
            self.loaded.remove(0);
        }
        self.loaded.push((adapter, loading));
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
        let absent = |residents: &Residents, id| residents.residence(ModelId(id)) == Residence::Absent;
        assert!(!absent(&residents, 1) && !absent(&residents, 3));
        assert!(absent(&residents, 2) && residents.is_full());
        residents.forget();
        assert!(absent(&residents, 1) && !residents.is_full());
    }

    #[test]
    fn an_adapter_is_loading_until_somebody_says_that_it_is_there() {
        let (mut residents, at) = (Residents::default(), Time::from_nanos);
        residents.used(ModelId(1), at(5));
        residents.used(ModelId(1), at(9));
        assert_eq!(residents.residence(ModelId(1)), Residence::Loading(at(5)));
        residents.answered(ModelId(1));
        residents.answered(ModelId(2));
        residents.used(ModelId(1), at(10));
        assert_eq!(residents.residence(ModelId(1)), Residence::Loaded);
        residents.used(ModelId(2), at(11));
        residents.runs(ModelId(2));
        assert_eq!(residents.residence(ModelId(2)), Residence::Loaded);
    }

    #[test]
    fn an_endpoint_that_said_nothing_may_serve_everything() {
        let mut residents = Residents::default();
        assert!(residents.serves(ModelId(7)) && !residents.lists(ModelId(7)));
        residents.list(vec![ModelId(3), ModelId(1)]);
        assert!(residents.serves(ModelId(3)) && !residents.serves(ModelId(7)));
    }
}
