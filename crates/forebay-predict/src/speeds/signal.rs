//! One kind of evidence (first tokens, or decoding) over all endpoints.

use std::collections::BTreeMap;

use forebay_core::Time;
use serde::{Deserialize, Serialize};

use super::blend::{Band, within_class};
use crate::evidence::Evidence;

/// An endpoint that has this many samples' worth of evidence is believed to
/// `1 − 1/e`; its class answers for the rest.
const BELIEF: f64 = 4.0;
/// Samples' worth of "as the constants say" that a class starts with and keeps.
const CLASS_PRIOR: f64 = 3.0;
/// An endpoint believed less than this takes over its class's mean where that
/// explains a sample better than its own.
const YOUNG: f64 = 0.7;
/// A change of an endpoint lasts at least this many seconds; anything shorter
/// is a stall.
const CHANGE_S: f64 = 2.0;
/// Samples after which a class is known so well that a change of it has to
/// last as long as an endpoint's.
const CLASS_KNOWN: u32 = 64;
/// Half the pool's dead band: ln 1.33.
const POOL_HALF: f64 = 0.285;
/// Half an endpoint's dead band while there is little evidence: ln 1.33.
const WIDE: f64 = 0.285;
/// Evidence, in samples, at which the dead band is at its narrowest.
const NARROW_AT: f64 = 10.0;
/// Least half width of a class's dead band against the pool.
const CLASS_LEAST: f64 = 0.12;
/// A deviation has to be this many standard errors.
const ERRORS: f64 = 2.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Signal {
    /// Half the dead band of an endpoint with evidence, and of a class.
    narrow: f64,
    slots: Vec<Slot>,
    classes: BTreeMap<u16, Class>,
    centre: f64,
    pool: Band,
    /// Empty between calls; kept to save the allocation.
    #[serde(skip)]
    class_scratch: Vec<f64>,
    #[serde(skip)]
    pool_scratch: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Slot {
    evidence: Evidence,
    /// How far the endpoint's own evidence is believed, 0 to 1.
    belief: f64,
    /// Logarithm of its deviation from its class, as believed.
    deviation: f64,
    band: Band,
    half: f64,
    /// How far another kind of evidence shows that nothing is wrong, 0 to 1.
    vouched: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Class {
    /// All samples of the class, whichever endpoint they came from.
    pooled: Evidence,
    samples: u32,
    belief: f64,
    members: Vec<u32>,
    /// The 25th percentile of its members.
    centre: f64,
    band: Band,
}

/// What one kind of evidence says of an endpoint, all in logarithms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Of the pool and the class together, dead bands applied.
    pub(super) scale: f64,
    /// How far the class's evidence is believed, 0 to 1.
    pub(super) scale_belief: f64,
    /// Of the endpoint from its class, dead band not applied.
    pub(super) deviation: f64,
    /// Whether the deviation has left its dead band.
    pub(super) deviates: bool,
    /// Half the dead band.
    pub(super) half: f64,
    /// How far the endpoint's own evidence is believed, 0 to 1.
    pub(super) belief: f64,
    /// What is left of the prior.
    pub(super) prior: f64,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot {
            evidence: Evidence::new(0.0, 0.0),
            belief: 0.0,
            deviation: 0.0,
            band: Band::default(),
            half: WIDE,
            vouched: 0.0,
        }
    }
}

fn belief(weight: f64) -> f64 {
    1.0 - (-weight / BELIEF).exp()
}

impl Signal {
    /// `narrow` is half the dead band of an endpoint with evidence.
    pub(super) fn new(narrow: f64) -> Signal {
        Signal {
            narrow,
            slots: Vec::new(),
            classes: BTreeMap::new(),
            centre: 0.0,
            pool: Band::default(),
            class_scratch: Vec::new(),
            pool_scratch: Vec::new(),
        }
    }

    pub(super) fn join(&mut self, index: usize, class: u16) {
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Slot::default);
        }
        self.slots[index] = Slot::default();
        let centre = self.centre;
        let entry = self.classes.entry(class).or_insert_with(|| Class::new(centre));
        entry.members.push(index as u32);
        self.settle(index, class);
    }

    pub(super) fn leave(&mut self, index: usize, class: u16) {
        if let Some(class) = self.classes.get_mut(&class) {
            class.members.retain(|member| *member as usize != index);
        }
        self.slots[index] = Slot::default();
    }

    /// Counts a log ratio of an endpoint, for itself and for its class.
    pub(super) fn observe(
        &mut self,
        index: usize,
        class: u16,
        prior: f64,
        log_ratio: f64,
        w: f64,
        now: Time,
    ) {
        let Some(of_class) = self.classes.get_mut(&class) else { return };
        let slot = &mut self.slots[index];
        if slot.evidence.is_new() {
            slot.evidence = Evidence::new(of_class.pooled.mean() + prior, 0.0);
        } else if slot.belief < YOUNG {
            // While a class is far off its constants it moves faster than its
            // endpoints do one by one.
            slot.evidence.anchor(of_class.pooled.mean() + prior, log_ratio);
        }
        slot.evidence.add(log_ratio, w, 0.0, CHANGE_S, now);
        of_class.count(log_ratio - prior, w, now);
        self.believe(index, now);
        self.settle(index, class);
    }

    /// Counts a log ratio of which only slowness may set the endpoint apart from
    /// its class: what is faster than the class moves the class alone. Shows
    /// only when the percentiles are taken next.
    ///
    /// Samples that come in one piece come from wherever requests went. Did they
    /// make that one look faster than endpoints nobody has heard of, all
    /// requests would go there, and nobody would ever hear of the others.
    pub(super) fn observe_slowness(
        &mut self,
        index: usize,
        class: u16,
        prior: f64,
        log_ratio: f64,
        w: f64,
        now: Time,
    ) {
        let Some(of_class) = self.classes.get_mut(&class) else { return };
        let (slot, usual) = (&mut self.slots[index], of_class.pooled.mean() + prior);
        let is_slow = !slot.evidence.is_new() && slot.evidence.mean() > usual;
        if log_ratio > usual || is_slow {
            if slot.evidence.is_new() {
                slot.evidence = Evidence::new(usual, 0.0);
            }
            slot.evidence.add(log_ratio.max(usual), w, 0.0, CHANGE_S, now);
        }
        of_class.count(log_ratio - prior, w, now);
    }

    /// Fades what is old, and takes the percentiles again.
    pub(super) fn refresh(&mut self, now: Time) {
        for index in 0..self.slots.len() {
            self.believe(index, now);
        }
        for class in self.classes.values_mut() {
            class.belief = belief(class.pooled.known_at(now) - CLASS_PRIOR);
        }
        self.take_percentiles();
    }

    /// Carries the evidence of a class over to another step model.
    pub(super) fn rebase(&mut self, class: u16, log_shift: f64) {
        if let Some(class) = self.classes.get_mut(&class) {
            class.pooled.shift(log_shift);
            for index in &class.members {
                self.slots[*index as usize].evidence.shift(log_shift);
            }
            self.take_percentiles();
        }
    }

    /// What there is to read of an endpoint.
    pub(super) fn reading(&self, index: usize, class: u16, prior: f64) -> Reading {
        let slot = &self.slots[index];
        let (class_scale, scale_belief) =
            self.classes.get(&class).map_or((0.0, 0.0), |c| (c.band.read(c.centre - self.centre), c.belief));
        Reading {
            scale: self.pool.read(self.centre) + class_scale,
            scale_belief,
            deviation: slot.deviation,
            deviates: slot.band.outside(),
            half: slot.half,
            belief: slot.belief,
            prior: (1.0 - slot.belief) * prior,
        }
    }

    /// Another kind of evidence (`by`) shows to that degree how fast the
    /// endpoint is: this kind's dead band narrows the less.
    pub(super) fn vouch(&mut self, index: usize, by: &Signal) {
        self.slots[index].vouched = by.slots[index].belief;
    }

    pub(super) fn evidence(&self, index: usize) -> &Evidence {
        &self.slots[index].evidence
    }

    /// How far an endpoint's evidence is believed at `now`, and how far from
    /// its class it has to be.
    fn believe(&mut self, index: usize, now: Time) {
        let slot = &mut self.slots[index];
        let (known, error) = slot.evidence.standing(now);
        slot.belief = belief(known);
        let narrowing = (known / NARROW_AT).min(1.0) * (1.0 - slot.vouched);
        let narrowed = WIDE - (WIDE - self.narrow) * narrowing;
        slot.half = narrowed.max(ERRORS * slot.belief * error);
    }

    fn take_percentiles(&mut self) {
        for class in self.classes.values_mut() {
            for index in &class.members {
                let slot = &self.slots[*index as usize];
                self.class_scratch.push(blended(slot, class));
            }
            self.pool_scratch.extend_from_slice(&self.class_scratch);
            class.centre = lower_quartile(&mut self.class_scratch).unwrap_or(class.centre);
        }
        self.centre = lower_quartile(&mut self.pool_scratch).unwrap_or(self.centre);
        self.pool.follow(self.centre, POOL_HALF);
        for class in self.classes.values_mut() {
            class.band.follow(class.centre - self.centre, self.narrow.max(CLASS_LEAST));
            for index in &class.members {
                settle(&mut self.slots[*index as usize], class);
            }
        }
    }

    fn settle(&mut self, index: usize, class: u16) {
        if let Some(class) = self.classes.get(&class) {
            settle(&mut self.slots[index], class);
        }
    }
}

impl Class {
    fn new(centre: f64) -> Class {
        Class {
            pooled: Evidence::new(0.0, CLASS_PRIOR),
            samples: 0,
            belief: 0.0,
            members: Vec::new(),
            centre,
            band: Band::default(),
        }
    }

    /// Counts a sample of any of its members.
    fn count(&mut self, log_ratio: f64, w: f64, now: Time) {
        self.samples = self.samples.saturating_add(1);
        let span = if self.samples <= CLASS_KNOWN { 0.0 } else { CHANGE_S };
        self.pooled.add(log_ratio, w, CLASS_PRIOR, span, now);
    }
}

/// The log ratio of an endpoint, its class's where it has no evidence itself.
fn blended(slot: &Slot, class: &Class) -> f64 {
    slot.belief * slot.evidence.mean() + (1.0 - slot.belief) * class.pooled.mean()
}

fn settle(slot: &mut Slot, class: &Class) {
    slot.deviation = within_class(blended(slot, class) - class.centre);
    slot.band.follow(slot.deviation, slot.half);
}

/// The 25th percentile (nearest rank, the lower one), leaving `values` empty.
fn lower_quartile(values: &mut Vec<f64>) -> Option<f64> {
    let rank = values.len().checked_sub(1)? / 4;
    let (_, value, _) = values.select_nth_unstable_by(rank, f64::total_cmp);
    let value = *value;
    values.clear();
    Some(value)
}
