//! LoRA adapters: which are known, which are in memory, and what loading costs.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_core::Time;

/// Combinations of running adapters that the metrics page remembers.
const REMEMBERED: usize = 64;

/// All adapters of an engine. Only `slots` of them fit into memory at a time.
pub(crate) struct Adapters {
    known: BTreeMap<String, Adapter>,
    /// The numbers of all adapters there ever were, from 1.
    numbers: BTreeMap<String, u32>,
    slots: Option<u32>,
    load_time: Duration,
    uses: u64,
    /// Each combination of running adapters there was, and when it was last so.
    told: Vec<(String, f64)>,
}

struct Adapter {
    /// Sequences of it that the model has.
    in_flight: u32,
    place: Place,
    /// Larger is later.
    last_use: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Out,
    /// In memory from then on.
    Loading(Time),
    In,
}

impl Adapters {
    /// None is in memory at first; without `slots` there is room for all.
    pub(crate) fn new(names: &[String], slots: Option<u32>, load_time: Duration) -> Adapters {
        let mut adapters = Adapters {
            known: BTreeMap::new(),
            numbers: BTreeMap::new(),
            slots: slots.map(|n| n.max(1)),
            load_time,
            uses: 0,
            told: Vec::new(),
        };
        for name in names {
            adapters.learn(name);
        }
        adapters
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.known.keys().cloned().collect()
    }

    /// Names of those in memory.
    pub(crate) fn resident(&self) -> Vec<String> {
        let resident = self.known.iter().filter(|(_, adapter)| adapter.place == Place::In);
        resident.map(|(name, _)| name.clone()).collect()
    }

    /// Adds an adapter; false when it is there already.
    pub(crate) fn learn(&mut self, name: &str) -> bool {
        if self.known.contains_key(name) {
            return false;
        }
        self.known.insert(name.into(), Adapter { in_flight: 0, place: Place::Out, last_use: 0 });
        let number = self.numbers.len() as u32 + 1;
        self.numbers.entry(name.into()).or_insert(number);
        true
    }

    /// Removes an adapter; false when it is not there.
    pub(crate) fn unlearn(&mut self, name: &str) -> bool {
        self.known.remove(name).is_some()
    }

    /// The number that stands for an adapter in KV events; 0 for none.
    pub(crate) fn number(&self, name: &str) -> u32 {
        self.numbers.get(name).copied().unwrap_or(0)
    }

    /// Whether a sequence can run now. One of an adapter that was removed
    /// meanwhile can.
    pub(crate) fn ready(&self, name: Option<&str>) -> bool {
        name.and_then(|name| self.known.get(name)).is_none_or(|adapter| adapter.place == Place::In)
    }

    /// The model takes a sequence; `unix` is the date.
    pub(crate) fn begin(&mut self, name: &str, unix: f64) {
        self.uses += 1;
        if let Some(adapter) = self.known.get_mut(name) {
            adapter.in_flight += 1;
            adapter.last_use = self.uses;
            if adapter.in_flight == 1 {
                self.note(unix);
            }
        }
    }

    /// The model is rid of a sequence.
    pub(crate) fn end(&mut self, name: &str, unix: f64) {
        if let Some(adapter) = self.known.get_mut(name) {
            adapter.in_flight = adapter.in_flight.saturating_sub(1);
            if adapter.in_flight == 0 {
                self.note(unix);
            }
        }
    }

    /// Ends the loads that are over, and begins those of `wanted` that there is
    /// room for, the first ones first: in a free slot, or in that of the idle
    /// adapter unused longest.
    pub(crate) fn settle<'a>(&mut self, now: Time, wanted: impl Iterator<Item = &'a str> + Clone) {
        for adapter in self.known.values_mut() {
            if matches!(adapter.place, Place::Loading(until) if until <= now) {
                adapter.place = Place::In;
            }
        }
        for name in wanted.clone() {
            if self.known.get(name).is_none_or(|adapter| adapter.place != Place::Out) {
                continue;
            }
            let taken = self.known.values().filter(|adapter| adapter.place != Place::Out).count();
            if self.slots.is_some_and(|slots| taken >= slots as usize) {
                let idle = self.known.iter_mut().filter(|(other, adapter)| {
                    adapter.place == Place::In
                        && adapter.in_flight == 0
                        && !wanted.clone().any(|name| name == *other)
                });
                match idle.min_by_key(|(_, adapter)| adapter.last_use) {
                    Some((_, adapter)) => adapter.place = Place::Out,
                    None => return,
                }
            }
            if let Some(adapter) = self.known.get_mut(name) {
                adapter.place = match self.load_time.is_zero() {
                    true => Place::In,
                    false => Place::Loading(now + self.load_time),
                };
            }
        }
    }

    /// When the next load ends.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let ends = self.known.values().filter_map(|adapter| match adapter.place {
            Place::Loading(until) => Some(until),
            _ => None,
        });
        ends.min()
    }

    /// For the metrics page: how many fit, and every combination of running
    /// adapters with its date, the present one last. None without adapters.
    pub(crate) fn report(&mut self, unix: f64) -> Option<(usize, &[(String, f64)])> {
        if self.known.is_empty() {
            return None;
        }
        self.note(unix);
        Some((self.slots.map_or(self.known.len(), |slots| slots as usize), &self.told))
    }

    /// Remembers which adapters run now.
    fn note(&mut self, unix: f64) {
        let running = self.known.iter().filter(|(_, adapter)| adapter.in_flight > 0);
        let running = running.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",");
        self.told.retain(|(before, _)| *before != running);
        if self.told.len() >= REMEMBERED {
            self.told.remove(0);
        }
        self.told.push((running, unix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Duration = Duration::from_millis(10);

    fn three(slots: u32, load_time: Duration) -> Adapters {
        Adapters::new(&["a".into(), "b".into(), "c".into()], Some(slots), load_time)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_load_takes_its_time_and_a_slot() {
        let mut adapters = three(2, LOAD);
        assert!(!adapters.ready(Some("a")) && adapters.ready(None) && adapters.ready(Some("unknown")));
        adapters.settle(at(0), ["a", "b", "c"].into_iter());
        assert_eq!((adapters.resident().len(), adapters.next_time()), (0, Some(at(10))));
        adapters.settle(at(9), ["a", "b", "c"].into_iter());
        assert!(!adapters.ready(Some("a")));
        adapters.settle(at(10), ["a", "b", "c"].into_iter());
        assert_eq!(adapters.resident(), ["a", "b"]);
        assert_eq!(adapters.next_time(), None, "there is no room for the third");
    }

    #[test]
    fn the_idle_one_unused_longest_goes() {
        let mut adapters = three(2, Duration::ZERO);
        adapters.settle(at(0), ["a", "b"].into_iter());
        for name in ["b", "a", "b"] {
            adapters.begin(name, 0.0);
        }
        adapters.settle(at(1), ["c"].into_iter());
        assert!(!adapters.ready(Some("c")), "both run");
        adapters.end("b", 0.0);
        adapters.settle(at(1), ["c"].into_iter());
        assert!(!adapters.ready(Some("c")), "b still has one");
        adapters.end("b", 0.0);
        adapters.end("a", 0.0);
        adapters.settle(at(2), ["c"].into_iter());
        assert_eq!(adapters.resident(), ["b", "c"], "a was used before b");
        adapters.settle(at(3), ["a", "b"].into_iter());
        assert_eq!(adapters.resident(), ["a", "b"], "what others wait for stays");
    }

    #[test]
    fn combinations_stay_on_the_page_with_their_dates() {
        let mut adapters = three(2, Duration::ZERO);
        assert_eq!(adapters.report(1.0).unwrap(), (2, &[(String::new(), 1.0)][..]));
        adapters.begin("b", 2.0);
        adapters.begin("a", 3.0);
        adapters.end("b", 4.0);
        adapters.begin("b", 5.0);
        let told: Vec<(&str, f64)> =
            adapters.report(6.0).unwrap().1.iter().map(|(names, unix)| (names.as_str(), *unix)).collect();
        assert_eq!(told, [("", 1.0), ("b", 2.0), ("a", 4.0), ("a,b", 6.0)]);
    }

    #[test]
    fn numbers_outlive_their_adapters() {
        let mut adapters = three(1, LOAD);
        assert!(!adapters.learn("a") && adapters.unlearn("a") && !adapters.unlearn("a"));
        assert!(adapters.learn("d") && adapters.learn("a"));
        assert_eq!(["a", "b", "c", "d", "x"].map(|name| adapters.number(name)), [1, 2, 3, 4, 0]);
    }
}
