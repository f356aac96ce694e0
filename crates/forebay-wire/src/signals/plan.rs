//! What a reader looks for, worked out once.

use super::{
    Combine, CustomSignal, Dialect, MAX_CUSTOM,
    sources::{self, Field, Join, Source},
};
use crate::prom::NameFilter;

/// Where one series' value goes.
#[derive(Clone, Debug)]
pub(super) struct Use {
    /// Index into [`Plan::slots`].
    pub(super) slot: usize,
    /// Labels that must have these values.
    pub(super) only: Vec<(String, String)>,
    /// The figure is the number in this label, not the value.
    pub(super) label: Option<&'static str>,
}

/// One figure to fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) field: Field,
    pub(super) join: Join,
    /// Of two with the same field the younger counts, when it was met at all.
    age: u8,
    /// Series of one group choose together whether the model's own count.
    pub(super) group: usize,
}

/// How many groups there are: the engine's, its backend's, each of the user's.
pub(super) const GROUPS: usize = 2 + MAX_CUSTOM;

/// Names to look for, and what to do with them.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) filter: NameFilter,
    /// By name.
    wanted: Vec<(String, Vec<Use>)>,
    pub(super) slots: Vec<Slot>,
    /// The slots of every field, the youngest first.
    pub(super) fields: Vec<(Field, Vec<usize>)>,
}

impl Plan {
    pub(super) fn new(dialect: Dialect, custom: &[CustomSignal]) -> Self {
        let mut plan = Self { filter: NameFilter::new([]), wanted: vec![], slots: vec![], fields: vec![] };
        for source in sources::PROCESS.iter().chain(sources::of(dialect)) {
            plan.add_source(source, source.name, source.age);
            let [own, dynamos] = sources::TRTLLM_PREFIXES;
            if let Some(rest) = source.name.strip_prefix(own) {
                plan.add_source(source, &format!("{dynamos}{rest}"), source.age + 1);
            }
        }
        for (at, signal) in custom.iter().take(MAX_CUSTOM).enumerate() {
            let join = match signal.combine {
                Combine::Sum => Join::Sum,
                Combine::Max => Join::Max,
                Combine::Mean => Join::Mean,
            };
            let slot = plan.slot(Slot { field: Field::Custom(at), join, age: 0, group: 2 + at });
            plan.want(signal.metric.clone(), Use { slot, only: signal.labels.clone(), label: None });
        }
        plan.collect_fields();
        plan.filter = NameFilter::new(plan.wanted.iter().map(|(name, _)| name.as_str()));
        plan
    }

    /// A source under `name`, as one of so many names of its field.
    fn add_source(&mut self, source: &Source, name: &str, age: u8) {
        // The names of Triton's TensorRT-LLM backend carry the backend's
        // model, not the one that clients ask for.
        let group = usize::from(name.starts_with("nv_trt_llm_"));
        let mut slot = Slot { field: source.field, join: source.how(), age: age * 2, group };
        let only: Vec<_> = source.only.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let want = |plan: &mut Self, slot: Slot, name: String| {
            let slot = plan.slot(slot);
            plan.want(name, Use { slot, only: only.clone(), label: source.label });
        };
        if source.counter {
            want(self, slot, format!("{name}_total"));
            slot.age += 1;
            let created = Slot { field: Field::ProcessStart, join: Join::Min, age: 1, group };
            want(self, created, format!("{name}_created"));
        }
        want(self, slot, name.to_owned());
    }

    /// The slot for this field and age, made when there is none yet.
    fn slot(&mut self, slot: Slot) -> usize {
        let same = |s: &Slot| (s.field, s.age, s.group) == (slot.field, slot.age, slot.group);
        self.slots.iter().position(same).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        })
    }

    fn want(&mut self, name: String, what: Use) {
        match self.wanted.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(at) => self.wanted[at].1.push(what),
            Err(at) => self.wanted.insert(at, (name, vec![what])),
        }
    }

    /// What to do with the series called `name`.
    pub(super) fn find(&self, name: &str) -> Option<&[Use]> {
        let at = self.wanted.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&self.wanted[at].1)
    }

    fn collect_fields(&mut self) {
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.sort_by_key(|&at| self.slots[at].age);
        for at in order {
            let field = self.slots[at].field;
            match self.fields.iter_mut().find(|(known, _)| *known == field) {
                Some((_, slots)) => slots.push(at),
                None => self.fields.push((field, vec![at])),
            }
        }
    }
}
