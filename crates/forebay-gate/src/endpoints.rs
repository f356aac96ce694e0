//! The endpoints of a Gate, by slot.
//!
//! Load is never only a stale report: what this Gate sent and what has not
//! ended is changed the moment it changes, and a report adds what others sent.

mod foreign;
mod peers;
mod served;
mod speeds;
mod weights;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{
    EndpointFacts, EndpointId, EndpointState, LoadReport, ModelId, OrcaLoad, Time, VersionId,
};
use forebay_predict::{ClassFit, Ewma, NetworkTime, Speeds, StepModel};
use serde::{Deserialize, Serialize};

use self::peers::PeerSum;
use self::served::Served;
use self::weights::sane_weight;
use crate::pick::cost::PREFILL_WINDOW_MS;
use crate::residents::Residents;
use crate::row::{Charge, Row};
use crate::runs::Runs;

/// What is known of an endpoint's own speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedView {
    /// How much longer than its class it takes to compute a prompt; 1 = as the class.
    pub prefill_factor: f64,
    /// … to generate a token.
    pub decode_factor: f64,
    /// Milliseconds for one prompt token.
    pub prefill_ms_per_token: f64,
    /// Milliseconds of an empty decode step.
    pub step_ms: f64,
    /// Network time there and back, in milliseconds.
    pub network_ms: f64,
}

/// What a Gate knows of one endpoint's load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndpointLoad {
    /// Requests sent and not ended.
    pub in_flight: u32,
    /// Their outstanding work, in prompt-token equivalents.
    pub work: u64,
    /// Requests sent in all.
    pub picked: u64,
    /// Whether it may be picked.
    pub state: EndpointState,
    /// Its relative capacity.
    pub weight: f64,
    /// The weight that the policy of its first pool counts it with now; none
    /// where that goes by no weight, or knows none yet.
    pub weight_in_use: Option<f64>,
    /// What it last said of itself.
    pub report: Option<LoadReport>,
    /// Prompt tokens sent whose first output token has not been seen, as
    /// milliseconds of prefill.
    pub owed_ms: f64,
    /// Distinct prompt tokens in flight, in blocks of the prefix index.
    pub blocks: u64,
    /// Requests there that this gateway did not send, as reported.
    pub foreign: f64,
    /// Its speed as learned.
    pub speed: SpeedView,
    /// Share of its load that it may get while it ramps up; 1 when it is done.
    pub ramp: f64,
}

/// What a rule may ask of an endpoint beside what it told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndpointStanding {
    /// Requests sent and not ended.
    pub in_flight: u32,
    /// Prompt tokens sent whose first output token has not been seen, as
    /// milliseconds of prefill.
    pub owed_ms: f64,
    /// How much longer than its class it takes to compute a prompt; 1 = as the class.
    pub prefill_factor: f64,
    /// … to generate a token.
    pub decode_factor: f64,
    /// Its relative capacity, as the operator says.
    pub weight: f64,
    /// Share of its load that it may get while it ramps up; 1 when it is done.
    pub ramp: f64,
}

/// A load report that came with an answer, and when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orca {
    pub(crate) at: Time,
    pub(crate) load: OrcaLoad,
}

/// Everything by slot; a slot is free when nobody is a member there and nothing
/// is in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Endpoints {
    generation: Vec<u32>,
    name: Vec<String>,
    state: Vec<EndpointState>,
    weight: Vec<f64>,
    /// How fast each is taken to be beside its class while nothing shows it.
    prior: Vec<f64>,
    picked: Vec<u64>,
    report: Vec<Option<LoadReport>>,
    orca: Vec<Option<Orca>>,
    version: Vec<Option<VersionId>>,
    /// When it became ready after being new or away.
    ready_since: Vec<Option<Time>>,
    /// When it was first sent a request since then.
    serving_since: Vec<Option<Time>>,
    served: Vec<Served>,
    member: Vec<bool>,
    free: Vec<u32>,
    rows: Vec<Row>,
    /// What other gateways have there, all together; empty while none told.
    peers: Vec<PeerSum>,
    runs: Vec<Runs>,
    residents: Vec<Residents>,
    network: NetworkTime,
    /// Prefill of a request as it usually is, in milliseconds of its class.
    usual_prefill_ms: Ewma,
    /// Which step model each follows.
    class: Vec<u16>,
    classes: BTreeMap<String, u16>,
    models: Vec<StepModel>,
    fits: Vec<ClassFit>,
    speeds: Speeds,
    /// Speeds stay as they were guessed.
    pub(crate) no_learning: bool,
    /// When the cached constants of every row were last refreshed.
    refreshed: Time,
    /// What `Row::dispatched` is scaled to.
    epoch: Time,
}

impl Default for Endpoints {
    fn default() -> Endpoints {
        Endpoints {
            generation: Vec::new(),
            name: Vec::new(),
            state: Vec::new(),
            weight: Vec::new(),
            prior: Vec::new(),
            picked: Vec::new(),
            report: Vec::new(),
            orca: Vec::new(),
            version: Vec::new(),
            ready_since: Vec::new(),
            serving_since: Vec::new(),
            served: Vec::new(),
            member: Vec::new(),
            free: Vec::new(),
            rows: Vec::new(),
            peers: Vec::new(),
            runs: Vec::new(),
            residents: Vec::new(),
            network: NetworkTime::new(),
            usual_prefill_ms: Ewma::new(0.99, 50.0, 10.0),
            class: Vec::new(),
            classes: BTreeMap::new(),
            models: Vec::new(),
            fits: Vec::new(),
            speeds: Speeds::default(),
            no_learning: false,
            refreshed: Time::ZERO,
            epoch: Time::ZERO,
        }
    }
}

/// The scale of decayed sums is moved on before its numbers leave what an f64 can hold.
const EPOCH: Duration = Duration::from_secs(600);

impl Endpoints {
    /// The member with this name, if any. O(n); only on membership changes.
    pub(crate) fn by_name(&self, name: &str) -> Option<u32> {
        (0..self.name.len()).find(|&i| self.member[i] && self.name[i] == name).map(|i| i as u32)
    }

    pub(crate) fn insert(&mut self, facts: EndpointFacts, state: EndpointState, now: Time) -> EndpointId {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let i = slot as usize;
        let weight = sane_weight(facts.weight);
        self.generation[i] = self.generation[i].wrapping_add(1);
        self.name[i] = facts.name;
        self.state[i] = state;
        self.weight[i] = weight;
        self.prior[i] = 1.0;
        self.picked[i] = 0;
        self.report[i] = None;
        self.orca[i] = None;
        self.version[i] = facts.version;
        self.ready_since[i] = (state == EndpointState::Ready).then_some(now);
        self.serving_since[i] = None;
        self.served[i] = Served::default();
        self.member[i] = true;
        self.rows[i] = Row::default();
        if let Some(peers) = self.peers.get_mut(i) {
            *peers = PeerSum::default();
        }
        self.runs[i] = Runs::default();
        self.residents[i] = Residents::default();
        self.network.leave(slot);
        self.class[i] = self.class_of(facts.accelerator.as_deref());
        self.speeds.join(slot, self.class[i], 1.0);
        self.refresh_row(slot);
        self.id(slot)
    }

    fn grow(&mut self) -> u32 {
        let slot = self.generation.len() as u32;
        // The first holder of a slot is generation 0.
        self.generation.push(u32::MAX);
        self.name.push(String::new());
        self.state.push(EndpointState::Disabled);
        self.weight.push(1.0);
        self.prior.push(1.0);
        self.picked.push(0);
        self.report.push(None);
        self.orca.push(None);
        self.version.push(None);
        self.ready_since.push(None);
        self.serving_since.push(None);
        self.served.push(Served::default());
        self.member.push(false);
        self.rows.push(Row::default());
        self.runs.push(Runs::default());
        self.residents.push(Residents::default());
        self.class.push(0);
        slot
    }

    fn class_of(&mut self, accelerator: Option<&str>) -> u16 {
        let name = accelerator.unwrap_or("");
        if let Some(class) = self.classes.get(name) {
            return *class;
        }
        let class = self.models.len() as u16;
        let model = StepModel::guess(name, "");
        self.models.push(model);
        self.fits.push(ClassFit::new(model));
        self.classes.insert(name.to_owned(), class);
        class
    }

    pub(crate) fn id(&self, slot: u32) -> EndpointId {
        EndpointId { slot, generation: self.generation[slot as usize] }
    }

    pub(crate) fn name(&self, slot: u32) -> &str {
        &self.name[slot as usize]
    }

    /// The slot of an id, unless it names a former holder.
    pub(crate) fn slot(&self, id: EndpointId) -> Option<u32> {
        let i = id.index();
        (self.generation.get(i) == Some(&id.generation) && self.member[i]).then_some(id.slot)
    }

    /// How many slots there are, free ones included.
    pub(crate) fn slots(&self) -> usize {
        self.generation.len()
    }

    /// Takes an endpoint out. Its slot is reused once nothing is in flight there.
    pub(crate) fn remove(&mut self, slot: u32) {
        let i = slot as usize;
        if !self.member[i] {
            return;
        }
        self.member[i] = false;
        self.state[i] = EndpointState::Disabled;
        self.speeds.leave(slot);
        if self.rows[i].requests == 0 {
            self.free.push(slot);
        }
    }

    pub(crate) fn set_state(&mut self, slot: u32, state: EndpointState, now: Time) {
        let i = slot as usize;
        if state == EndpointState::Ready && self.state[i] != EndpointState::Ready {
            self.ready_since[i] = Some(now);
            self.serving_since[i] = None;
        }
        self.state[i] = state;
    }

    /// The engine there began anew: it ramps up like a new one.
    pub(crate) fn restarted(&mut self, slot: u32, now: Time) {
        let i = slot as usize;
        self.ready_since[i] = (self.state[i] == EndpointState::Ready).then_some(now);
        self.serving_since[i] = None;
        self.report[i] = None;
        self.orca[i] = None;
        self.residents[i].forget();
        self.rows[i].fade_foreign(0.0);
        // Another process, perhaps of another size or at another place: what is
        // there now shows anew. The last network time stands until then.
        self.rows[i].inverse_memory = 0.0;
        self.network.leave(slot);
        self.speeds.reset(slot);
        self.refresh_row(slot);
    }

    pub(crate) fn ready_since(&self, slot: u32) -> Option<Time> {
        self.ready_since[slot as usize]
    }

    /// When it was first sent a request since it became ready.
    pub(crate) fn serving_since(&self, slot: u32) -> Option<Time> {
        self.serving_since[slot as usize]
    }

    pub(crate) fn set_report(&mut self, slot: u32, report: LoadReport) {
        let i = slot as usize;
        if let Some(tokens) = report.kv_tokens.filter(|tokens| *tokens > 0) {
            self.rows[i].inverse_memory = 1.0 / tokens as f32;
        }
        self.learn_foreign(slot, &report);
        let memory = self.rows[i].inverse_memory;
        if let Some(usage) = report.kv_usage.filter(|_| memory > 0.0) {
            self.learn_overlap(slot, usage / memory);
        }
        self.report[i] = Some(report);
    }

    pub(crate) fn set_orca(&mut self, slot: u32, at: Time, load: OrcaLoad) {
        self.orca[slot as usize] = Some(Orca { at, load });
    }

    pub(crate) fn orca(&self, slot: u32) -> Option<&Orca> {
        self.orca[slot as usize].as_ref()
    }

    pub(crate) fn set_network(&mut self, slot: u32, took: Duration, now: Time) {
        let i = slot as usize;
        self.network.observe(slot, took.as_secs_f64() * 1e3, now);
        self.rows[i].network_ms = self.network.lowest_ms(slot) as f32;
    }

    pub(crate) fn residents(&self, slot: u32) -> &Residents {
        &self.residents[slot as usize]
    }

    pub(crate) fn residents_mut(&mut self, slot: u32) -> &mut Residents {
        &mut self.residents[slot as usize]
    }

    /// Whether a request for this adapter may go there: nobody said what is
    /// there, or it is among it.
    pub(crate) fn serves(&self, slot: u32, adapter: ModelId) -> bool {
        self.residents[slot as usize].serves(adapter)
    }

    pub(crate) fn version(&self, slot: u32) -> Option<VersionId> {
        self.version[slot as usize]
    }

    pub(crate) fn is_ready(&self, slot: u32) -> bool {
        self.state[slot as usize] == EndpointState::Ready
    }

    pub(crate) fn in_flight(&self, slot: u32) -> u32 {
        self.rows[slot as usize].requests
    }

    pub(crate) fn work(&self, slot: u32) -> u64 {
        self.rows[slot as usize].work
    }

    pub(crate) fn row(&self, slot: u32) -> &Row {
        &self.rows[slot as usize]
    }

    /// The step model of its class, at the class's own speed.
    pub(crate) fn model(&self, slot: u32) -> &StepModel {
        &self.models[usize::from(self.class[slot as usize])]
    }

    /// Share of its time that it spent in prefill lately, as far as this Gate knows.
    pub(crate) fn prefill_share(&self, slot: u32, decay: f64) -> f32 {
        let row = &self.rows[slot as usize];
        let peers = f64::from(self.peer(slot).dispatched_ms);
        ((row.dispatched + peers) * decay) as f32 * row.prefill_factor / PREFILL_WINDOW_MS
    }

    /// What turns `Row::dispatched` into its value now; one exponential for all.
    pub(crate) fn decay(&self, now: Time) -> f64 {
        (-now.since(self.epoch).as_secs_f64() * 1e3 / f64::from(PREFILL_WINDOW_MS)).exp()
    }

    /// A stable hash of the endpoint's address, for consistent hashing.
    pub(crate) fn name_hash(&self, slot: u32) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.name[slot as usize].as_bytes())
    }

    /// Puts a request's load on its endpoint. `prefill_us` and everything
    /// else is taken back from the charge that is returned.
    pub(crate) fn send(&mut self, slot: u32, now: Time, sent: &Sent<'_>) -> Charge {
        if now.since(self.epoch) > EPOCH {
            self.move_epoch(now);
        }
        let scale = self.decay(now).recip();
        let i = slot as usize;
        self.picked[i] += 1;
        self.serving_since[i].get_or_insert(now);
        self.usual_prefill_ms.add(f64::from(sent.prefill_ms.max(0.0)));
        let leaf = self.runs[i].insert(sent.chain);
        let row = &mut self.rows[i];
        let charge = Charge {
            work_left: sent.work,
            prefill_us: (sent.prefill_ms.max(0.0) * 1e3) as u64,
            prompt: sent.prompt,
            tail: sent.tail,
            leaf,
            class: sent.class,
            decoding: false,
        };
        row.pass(now);
        row.requests += 1;
        row.work += sent.work;
        row.owed_us += charge.prefill_us;
        row.context += u64::from(sent.prompt);
        row.tail += u64::from(sent.tail);
        row.classes[usize::from(sent.class)] += 1;
        row.dispatched += f64::from(sent.prefill_ms.max(0.0)) * scale;
        row.blocks = self.runs[i].blocks();
        charge
    }

    /// The prefill of a request is over: what was owed for it is done.
    pub(crate) fn first_token(&mut self, slot: u32, charge: &mut Charge, now: Time) {
        if !std::mem::replace(&mut charge.decoding, true) {
            let row = &mut self.rows[slot as usize];
            row.owed_us = row.owed_us.saturating_sub(charge.prefill_us);
            row.streams += 1;
            row.waited_until = row.waited_until.max(now);
        }
    }

    /// Takes back what [`Endpoints::send`] put there.
    pub(crate) fn done(&mut self, slot: u32, charge: &Charge, now: Time) {
        let i = slot as usize;
        self.runs[i].remove(charge.leaf);
        let row = &mut self.rows[i];
        debug_assert!(row.requests > 0 && row.work >= charge.work_left);
        if charge.decoding {
            row.streams = row.streams.saturating_sub(1);
        } else {
            row.owed_us = row.owed_us.saturating_sub(charge.prefill_us);
            row.waited_until = row.waited_until.max(now);
        }
        row.pass(now);
        row.requests = row.requests.saturating_sub(1);
        row.work = row.work.saturating_sub(charge.work_left);
        row.context = row.context.saturating_sub(u64::from(charge.prompt));
        row.tail = row.tail.saturating_sub(u64::from(charge.tail));
        let class = &mut row.classes[usize::from(charge.class)];
        *class = class.saturating_sub(1);
        row.blocks = self.runs[i].blocks();
        if row.requests == 0 && !self.member[i] {
            self.free.push(slot);
        }
    }

    pub(crate) fn reduce_work(&mut self, slot: u32, done: u64) {
        let row = &mut self.rows[slot as usize];
        debug_assert!(row.work >= done);
        row.work = row.work.saturating_sub(done);
    }

    fn move_epoch(&mut self, now: Time) {
        let decay = self.decay(now);
        for row in &mut self.rows {
            row.dispatched *= decay;
        }
        for peers in &mut self.peers {
            peers.load.dispatched_ms *= decay as f32;
        }
        self.epoch = now;
    }

    pub(crate) fn load(&self, slot: u32) -> EndpointLoad {
        let i = slot as usize;
        let row = &self.rows[i];
        EndpointLoad {
            in_flight: row.requests,
            work: row.work,
            picked: self.picked[i],
            state: self.state[i],
            weight: self.weight[i],
            weight_in_use: None,
            report: self.report[i],
            owed_ms: f64::from(row.owed_ms()),
            blocks: row.blocks,
            foreign: f64::from(row.foreign_requests),
            speed: SpeedView {
                prefill_factor: f64::from(row.prefill_factor),
                decode_factor: f64::from(row.decode_factor),
                prefill_ms_per_token: f64::from(row.per_token),
                step_ms: f64::from(row.step),
                network_ms: f64::from(row.network_ms),
            },
            ramp: 1.0,
        }
    }

    /// Puts work there that nobody takes back, for tests.
    #[cfg(test)]
    pub(crate) fn add_load(&mut self, slot: u32, work: u64) {
        let chain = Arc::from([]);
        let sent = Sent { work, prefill_ms: 0.0, prompt: 1, tail: 1, class: 0, chain: &chain };
        self.send(slot, Time::ZERO, &sent);
    }

    /// Requests in flight and work over all endpoints, members or not; panics
    /// when an idle endpoint still holds something.
    #[cfg(test)]
    pub(crate) fn totals(&self) -> (u64, u64) {
        for row in &self.rows {
            assert!(row.requests > 0 || row.is_idle(), "an idle endpoint still holds something: {row:?}");
        }
        let sum = |f: fn(&Row) -> u64| self.rows.iter().map(f).sum();
        (sum(|row| u64::from(row.requests)), sum(|row| row.work))
    }
}

/// What a request met where it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FirstTokens {
    pub(crate) uncached: f32,
    pub(crate) cached: f32,
    pub(crate) streams: f32,
    pub(crate) context: f32,
}

/// What is sent to an endpoint.
pub(crate) struct Sent<'a> {
    pub(crate) work: u64,
    pub(crate) prefill_ms: f32,
    pub(crate) prompt: u32,
    pub(crate) tail: u32,
    pub(crate) class: u8,
    pub(crate) chain: &'a Arc<[u64]>,
}
