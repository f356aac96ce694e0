//! What has been seen of a page so far.

use std::{borrow::Cow, collections::BTreeMap};

use super::{
    Adapters, MAX_MODELS, Signals,
    adapters::running_and_waiting,
    figure::{Figure, usable},
    plan::{GROUPS, Plan, Use},
    sources::Field,
};
use crate::prom::{Sample, unescape};

pub(super) struct Page<'p, 'a> {
    plan: &'p Plan,
    model: Option<&'p str>,
    /// By slot.
    figures: Vec<Figure>,
    /// By group: whether a series of the wanted model was met.
    matched: [bool; GROUPS],
    /// Samples that other ranks repeat.
    ranked: Vec<Ranked>,
    /// The youngest series that names adapters.
    adapters: Option<Sample<'a>>,
    models: Vec<String>,
    skipped: u32,
}

/// A sample with the rank that gave it.
struct Ranked {
    slot: usize,
    value: Option<f64>,
    own: bool,
    data_parallel: u32,
    /// Pipeline and tensor rank, in this order.
    inner: u64,
}

/// The labels that matter, of one sample.
#[derive(Default)]
struct Marks<'a> {
    model: Option<Cow<'a, str>>,
    tensor: Option<u32>,
    pipeline: u32,
    data: u32,
}

impl<'a> Marks<'a> {
    fn of(sample: &Sample<'a>) -> Self {
        let mut marks = Self::default();
        let rank = |value| std::str::from_utf8(value).ok()?.parse().ok();
        for (name, value) in sample.labels.pairs() {
            match name {
                "model_name" => marks.model = Some(unescape(value)),
                // Triton's; where both are there, the other is meant.
                "model" => marks.model = marks.model.or_else(|| Some(unescape(value))),
                "tp_rank" => marks.tensor = rank(value),
                "pp_rank" => marks.pipeline = rank(value).unwrap_or_default(),
                "dp_rank" => marks.data = rank(value).unwrap_or_default(),
                _ => {}
            }
        }
        marks
    }
}

impl<'p, 'a> Page<'p, 'a> {
    pub(super) fn new(plan: &'p Plan, model: Option<&'p str>) -> Self {
        Self {
            plan,
            model,
            figures: vec![Figure::default(); plan.slots.len()],
            matched: [false; GROUPS],
            ranked: vec![],
            adapters: None,
            models: vec![],
            skipped: 0,
        }
    }

    /// A wanted line without a readable value: nobody knows whose it was.
    pub(super) fn add_unreadable(&mut self, uses: &[Use]) {
        self.skipped = self.skipped.saturating_add(1);
        for what in uses {
            self.figures[what.slot].add(None, true, self.plan.slots[what.slot].join);
        }
    }

    pub(super) fn add(&mut self, uses: &[Use], sample: Sample<'a>) {
        let marks = Marks::of(&sample);
        let named = self.model.is_some() && marks.model.as_deref() == self.model;
        let own = named || self.model.is_none() || marks.model.is_none();
        let mut bad = false;
        for what in uses {
            let slot = self.plan.slots[what.slot];
            let fits = |(label, value): &(String, String)| {
                sample.label(label).unwrap_or(Cow::Borrowed("")) == value.as_str()
            };
            if !what.only.iter().all(fits) {
                continue;
            }
            self.matched[slot.group] |= named;
            let value = match what.label {
                None => sample.value,
                Some(label) => match sample.label(label) {
                    // Python's way to say that it is not known yet.
                    None | Some(Cow::Borrowed("None")) => continue,
                    Some(text) => text.parse().unwrap_or(f64::NAN),
                },
            };
            let value = usable(slot.field, value);
            bad |= value.is_none();
            match (slot.field, marks.tensor) {
                (Field::Adapters, _) => {
                    if value.is_some() && self.adapters.is_none_or(|known| sample.value > known.value) {
                        self.adapters = Some(sample);
                    }
                }
                // The user's labels say which rank is meant.
                (Field::Custom(_), _) | (_, None) => self.figures[what.slot].add(value, own, slot.join),
                (_, Some(tensor)) => self.ranked.push(Ranked {
                    slot: what.slot,
                    value,
                    own,
                    data_parallel: marks.data,
                    inner: u64::from(marks.pipeline) << 32 | u64::from(tensor),
                }),
            }
        }
        self.skipped = self.skipped.saturating_add(bad.into());
        if let Some(model) = marks.model
            && self.models.len() < MAX_MODELS
            && !self.models.iter().any(|known| *known == model)
        {
            self.models.push(model.into_owned());
        }
    }

    /// Takes in what the first rank of each data-parallel group said.
    fn add_ranked(&mut self) {
        let mut first = BTreeMap::new();
        for sample in &self.ranked {
            let inner = first.entry(sample.data_parallel).or_insert(sample.inner);
            *inner = sample.inner.min(*inner);
        }
        for Ranked { slot, value, own, data_parallel, inner } in std::mem::take(&mut self.ranked) {
            if first.get(&data_parallel) == Some(&inner) {
                self.figures[slot].add(value, own, self.plan.slots[slot].join);
            }
        }
    }

    pub(super) fn signals(mut self) -> Signals {
        self.add_ranked();
        let mut signals = Signals {
            adapters: self.adapters.map(|sample| running_and_waiting(&sample)),
            models: std::mem::take(&mut self.models),
            skipped: self.skipped,
            ..Signals::default()
        };
        let mut awake = None;
        let mut asleep = None;
        for (field, slots) in &self.plan.fields {
            let told = slots.iter().find_map(|&at| {
                let slot = self.plan.slots[at];
                self.figures[at].get(self.matched[slot.group], slot.join)
            });
            if let (None, Field::Custom(at)) = (told, field)
                && let Some(missing) = signals.custom_missing.get_mut(*at)
            {
                *missing = true;
            }
            let Some(value) = told.flatten() else { continue };
            match field {
                Field::Awake => awake = Some(value >= 0.5),
                Field::Asleep => asleep = Some(value >= 0.5),
                _ => set(&mut signals, *field, value),
            }
        }
        signals.asleep = match (asleep, awake) {
            (Some(true), _) => Some(true),
            (_, Some(awake)) => Some(!awake),
            (asleep, None) => asleep,
        };
        finish_capacity(&mut signals);
        signals
    }
}

/// Puts the figure of `field` where it belongs.
pub(super) fn set(signals: &mut Signals, field: Field, value: f64) {
    // Sums may pass the limit of one series; casts of floats saturate.
    let count = Some(value as u32);
    let counters = &mut signals.counters;
    match field {
        Field::Running => signals.running = count,
        Field::Waiting => signals.waiting = count,
        Field::KvUsage => signals.kv_usage = Some(value as f32),
        Field::KvBlockSize => signals.kv_block_size = count,
        Field::KvBlocks => signals.kv_blocks = count,
        Field::KvTokens => signals.kv_tokens = Some(value as u64),
        Field::WaitingTokens => signals.waiting_tokens = Some(value as u64),
        Field::RunningTokens => signals.running_tokens = Some(value as u64),
        Field::Throughput => signals.generation_throughput = Some(value as f32),
        Field::MaxRunning => signals.max_running = count,
        Field::PutBack => signals.put_back = count,
        Field::PromptTokens => counters.prompt_tokens = Some(value),
        Field::GenerationTokens => counters.generation_tokens = Some(value),
        Field::PrefixQueries => counters.prefix_queries = Some(value),
        Field::PrefixHits => counters.prefix_hits = Some(value),
        Field::Preemptions => counters.preemptions = Some(value),
        Field::Requests => counters.requests = Some(value),
        Field::Rejections => counters.rejections = Some(value),
        Field::GpuUtilization => signals.gpu.utilization = Some(value as f32),
        Field::GpuPower => signals.gpu.power_w = Some(value as f32),
        Field::ProcessStart => signals.process_start = Some(value),
        Field::AdapterSlots => {
            signals.adapters.get_or_insert_with(Adapters::default).max = count;
        }
        Field::Custom(at) => {
            if let Some(place) = signals.custom.get_mut(at) {
                *place = Some(value);
            }
        }
        Field::Awake | Field::Asleep | Field::Adapters => {}
    }
}

/// Of block size, blocks and tokens any two tell the third.
fn finish_capacity(signals: &mut Signals) {
    let Some(size) = signals.kv_block_size else { return };
    match (signals.kv_blocks, signals.kv_tokens) {
        (Some(blocks), None) => signals.kv_tokens = Some(u64::from(size) * u64::from(blocks)),
        (None, Some(tokens)) => signals.kv_blocks = (tokens / u64::from(size.max(1))).try_into().ok(),
        _ => {}
    }
}
