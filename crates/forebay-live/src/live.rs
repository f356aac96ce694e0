//! The Gates of the running program, each behind its lock.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use forebay_core::{
    EndpointFacts, EndpointId, EndpointState, LoadReport, ModelId, OrcaLoad, Outcome, PoolId, Prefix,
    PrefixMatch, RequestFacts, TicketId, Time,
};
use forebay_gate::{
    DecisionRecord, EndpointLoad, EndpointStanding, Event, PoolConfig, PoolLoad, Progress, Refusal,
    RepickReason, Verdict,
};
use forebay_prefix::{IndexConfig, Matches, PrefixIndex};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::cell::{Cell, Known, Woken};
use crate::clock::{Clock, random_seed};
use crate::held::{EngineCaches, Held};
use crate::log::{Counts, LogOptions, Recorder};
use crate::ticket::{Ticket, Waiting};

/// A block that must first be copied from host memory saves this share of its prefill.
const HOST_SHARE: f32 = 0.75;

/// An endpoint among all Gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey {
    /// Which Gate.
    pub gate: u32,
    /// Which endpoint of it.
    pub id: EndpointId,
}

/// What is known of one endpoint now.
#[derive(Clone, Debug)]
pub struct EndpointView<M> {
    /// Its key.
    pub key: EndpointKey,
    /// The pools it is in.
    pub pools: Arc<[PoolId]>,
    /// Its load and state.
    pub load: EndpointLoad,
    /// What the shell keeps of it.
    pub member: Arc<M>,
}

/// A decision and which Gate made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateDecision {
    /// Which Gate.
    pub gate: u32,
    /// What it decided and why.
    pub record: DecisionRecord,
}

/// What the decision log has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Entries written.
    pub written: u64,
    /// Entries lost because the writer could not keep up, those among them that
    /// still waited when a new file began; each loss is followed by a
    /// snapshot, so that what comes after can be replayed.
    pub lost: u64,
    /// Writes that failed.
    pub failed: u64,
    /// Entries dropped because the file was full and could not be put aside.
    pub full: u64,
}

/// What a request is told when it is submitted.
pub(crate) enum Submitted<M> {
    Go(forebay_gate::Decision, Arc<M>),
    Wait(TicketId, oneshot::Receiver<Woken<M>>),
    Refuse(Refusal),
}

/// A Gate and the index of what its endpoints hold. The index is read before
/// the lock is taken: what it says is an input of the decision.
struct Guarded<M> {
    cell: Mutex<Cell<M>>,
    index: PrefixIndex,
    /// What is known of their caches besides.
    held: Held,
}

/// The Gates of this program. `M` is what the shell keeps of an endpoint:
/// where to connect, its connection pool, its metrics.
pub struct Live<M> {
    clock: Clock,
    gates: Vec<Guarded<M>>,
    /// Which Gate decides for each pool.
    gate_of: Vec<u32>,
    pub(crate) caches: Mutex<Option<Weak<dyn EngineCaches>>>,
    log: Mutex<Option<(Arc<Counts>, std::thread::JoinHandle<()>)>>,
}

impl<M> Live<M> {
    /// Gates for pools that are given as groups: `gate_of[pool]` is the number
    /// of its group. Pools that share an endpoint must be in one group.
    /// Without a seed one is drawn.
    pub fn new(gate_of: Vec<u32>, seed: Option<u64>, index: IndexConfig) -> Live<M> {
        let gates = gate_of.iter().max().map_or(0, |most| *most as usize + 1);
        let seed = seed.unwrap_or_else(random_seed);
        // The bound is for all of them together.
        let share = IndexConfig { max_bytes: index.max_bytes / gates.max(1), ..index };
        let guarded = |i| Guarded {
            cell: Mutex::new(Cell::new(seed.wrapping_add(i as u64))),
            index: PrefixIndex::new(share),
            held: Held::default(),
        };
        Live {
            clock: Clock::start(),
            gates: (0..gates).map(guarded).collect(),
            gate_of,
            caches: Mutex::new(None),
            log: Mutex::new(None),
        }
    }

    /// The program's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Writes every decision and all that led to it to a file from now on.
    ///
    /// # Errors
    /// When the file cannot be made or the writer cannot be started.
    pub fn record(&self, options: &LogOptions) -> io::Result<()> {
        let (sender, counts, thread) = crate::log::start(options)?;
        for (number, guarded) in self.gates.iter().enumerate() {
            guarded.cell.lock().recorder =
                Some(Recorder::new(number as u32, sender.clone(), Arc::clone(&counts)));
        }
        *self.log.lock() = Some((counts, thread));
        Ok(())
    }

    /// Ends the log and waits until all of it is on disk.
    pub fn end_record(&self) {
        for guarded in &self.gates {
            guarded.cell.lock().recorder = None;
        }
        let log = self.log.lock().take();
        if let Some((_, thread)) = log {
            // It ends as the last sender is gone.
            let _ = thread.join();
        }
    }

    /// What the decision log has done so far; none when there is none.
    pub fn log_counts(&self) -> Option<LogCounts> {
        let log = self.log.lock();
        let (counts, _) = log.as_ref()?;
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Some(LogCounts {
            written: read(&counts.written),
            lost: read(&counts.lost),
            failed: read(&counts.failed),
            full: read(&counts.full),
        })
    }

    fn guarded(&self, pool: PoolId) -> Option<(u32, &Guarded<M>)> {
        let gate = *self.gate_of.get(pool.index())?;
        Some((gate, self.gates.get(gate as usize)?))
    }

    pub(crate) fn gate(&self, gate: u32) -> Option<&Mutex<Cell<M>>> {
        self.gates.get(gate as usize).map(|guarded| &guarded.cell)
    }

    /// What the endpoints of a Gate hold.
    pub fn index(&self, gate: u32) -> Option<&PrefixIndex> {
        self.gates.get(gate as usize).map(|guarded| &guarded.index)
    }

    pub(crate) fn held(&self, gate: u32) -> Option<&Held> {
        self.gates.get(gate as usize).map(|guarded| &guarded.held)
    }

    /// Tells the indexes the time, so that what came from a snapshot and was
    /// never confirmed loses weight; to be called about once a second.
    pub fn tick(&self) {
        let now = self.clock.now();
        self.gates.iter().for_each(|guarded| guarded.index.tick(now));
    }

    /// Every index, in the order of the Gates.
    pub fn indexes(&self) -> impl Iterator<Item = (u32, &PrefixIndex)> {
        self.gates.iter().enumerate().map(|(gate, guarded)| (gate as u32, &guarded.index))
    }

    /// Makes a pool known, or changes how it decides.
    pub fn configure(&self, pool: PoolId, config: PoolConfig) {
        if let Some((_, guarded)) = self.guarded(pool) {
            let mut cell = guarded.cell.lock();
            let now = self.clock.now();
            cell.apply(now, Event::Configure(pool, config));
        }
    }

    /// An endpoint joins a pool. When its name is known in the pool's Gate it
    /// is shared: the member that was given first stays.
    pub fn join(
        &self,
        pool: PoolId,
        facts: EndpointFacts,
        state: EndpointState,
        member: Arc<M>,
    ) -> Option<EndpointKey> {
        let (gate, guarded) = self.guarded(pool)?;
        let mut cell = guarded.cell.lock();
        let now = self.clock.now();
        // Joining a pool can wake requests for an endpoint whose member is not
        // in its place yet; nobody is woken for one that is not ready, so it
        // joins as starting and is let in afterwards.
        let id = cell.apply(now, Event::Join(pool, facts, EndpointState::Starting))?;
        if cell.members.len() <= id.index() {
            cell.members.resize_with(id.index() + 1, || None);
        }
        match &mut cell.members[id.index()] {
            Some(known) if known.id == id => {
                if !known.pools.contains(&pool) {
                    known.pools = known.pools.iter().copied().chain([pool]).collect();
                }
            }
            other => {
                *other = Some(Known { id, member, pools: Arc::from([pool]) });
                cell.apply(now, Event::State(id, state));
            }
        }
        Some(EndpointKey { gate, id })
    }

    /// An endpoint may or may not be picked from now on.
    pub fn set_state(&self, key: EndpointKey, state: EndpointState) {
        self.apply(key.gate, Event::State(key.id, state));
    }

    /// An endpoint's relative capacity changed.
    pub fn set_weight(&self, key: EndpointKey, weight: f64) {
        self.apply(key.gate, Event::Weight(key.id, weight));
    }

    /// An endpoint said how loaded it is; `block_tokens` is what a block of
    /// the prefix index stands for there while nothing was served: then it is what
    /// those have that were, for text and token ids have blocks of their own.
    pub fn report(&self, key: EndpointKey, report: LoadReport, block_tokens: f32) {
        let served = self.held(key.gate).and_then(|held| held.block_tokens(key.id));
        let block_tokens = served.unwrap_or(block_tokens);
        if let (Some(tokens), Some(index)) = (report.kv_tokens, self.index(key.gate))
            && block_tokens > 0.0
        {
            index.set_capacity(key.id, Some((tokens as f32 / block_tokens) as u32));
        }
        self.apply(key.gate, Event::Report(key.id, report));
    }

    /// A connect or a probe took so long there and back.
    pub fn network(&self, key: EndpointKey, took: Duration) {
        self.apply(key.gate, Event::Network(key.id, took));
    }

    /// The adapters that an endpoint lists.
    pub fn adapters(&self, key: EndpointKey, adapters: Vec<ModelId>) {
        self.apply(key.gate, Event::Adapters(key.id, adapters));
    }

    /// Adapters that an endpoint has loaded, and how many fit.
    pub fn loaded(&self, key: EndpointKey, adapters: Vec<ModelId>, slots: Option<u32>) {
        self.apply(key.gate, Event::Loaded(key.id, adapters, slots));
    }

    /// Asks the Gate for a request. Drop the future to give it up.
    ///
    /// What the prefix index knows of the request's chain is looked up here.
    ///
    /// # Errors
    /// The refusal, when the request is turned away.
    pub async fn admit(self: &Arc<Self>, mut facts: RequestFacts) -> Result<Ticket<M>, Refusal> {
        self.look_up(&mut facts);
        let facts = Arc::new(facts);
        let (gate, submitted) = self.submit(Arc::clone(&facts));
        match submitted {
            Submitted::Go(decision, member) => {
                Ok(Ticket::new(Arc::clone(self), gate, decision, member, facts))
            }
            // Boxed: waiting is rare, and its timer need not be in every request.
            Submitted::Wait(id, woken) => {
                Box::pin(Waiting::new(Arc::clone(self), gate, id, woken, facts).wait()).await
            }
            Submitted::Refuse(refusal) => Err(refusal),
        }
    }

    /// Notes in the facts what each endpoint holds of the prompt, as
    /// [`Live::admit`] does: for whoever needs it before.
    pub fn look_up(&self, facts: &mut RequestFacts) {
        let prefix = &mut facts.prefix;
        if prefix.chain.is_empty() {
            return;
        }
        let Some((_, guarded)) = self.guarded(facts.pool) else { return };
        let mut matches = Matches::new();
        guarded.index.lookup(&prefix.chain, &mut matches);
        // The last token is always computed: it is what the answer begins from.
        let most = facts.prompt_tokens.saturating_sub(1);
        prefix.matches = matches
            .as_slice()
            .iter()
            .map(|found| {
                let mut blocks = found.blocks as f32 + found.host_blocks as f32 * HOST_SHARE;
                // Of the block in which prompts part, half is held too, in the mean.
                // Engines' own blocks are smaller: what they round off is less.
                if !prefix.exact {
                    blocks += 0.5;
                }
                PrefixMatch {
                    endpoint: found.endpoint,
                    tokens: ((blocks * prefix.block_tokens) as u32).min(most),
                }
            })
            .collect();
    }

    pub(crate) fn submit(&self, facts: Arc<RequestFacts>) -> (u32, Submitted<M>) {
        let unknown =
            Refusal { reason: forebay_gate::RefuseReason::UnknownPool, retry_after: Duration::from_secs(1) };
        let Some((gate, guarded)) = self.guarded(facts.pool) else {
            return (0, Submitted::Refuse(unknown));
        };
        let mut cell = guarded.cell.lock();
        // Read under the lock: the order of decisions is the order of their times.
        let now = self.clock.now();
        let submitted = match cell.submit(now, facts) {
            Verdict::Go(decision) => match cell.member(decision.endpoint).map(Arc::clone) {
                Some(member) => Submitted::Go(decision, member),
                None => {
                    cell.apply(now, Event::Cancelled(decision.ticket));
                    Submitted::Refuse(unknown)
                }
            },
            Verdict::Wait(ticket) => {
                let (sender, receiver) = oneshot::channel();
                cell.waiters.insert(ticket, sender);
                Submitted::Wait(ticket, receiver)
            }
            Verdict::Refuse(refusal) => Submitted::Refuse(refusal),
        };
        (gate, submitted)
    }

    pub(crate) fn repick(&self, gate: u32, ticket: TicketId, why: RepickReason) -> Woken<M> {
        let exhausted =
            Refusal { reason: forebay_gate::RefuseReason::Exhausted, retry_after: Duration::from_secs(1) };
        let cell = self.gate(gate).ok_or(exhausted)?;
        let mut cell = cell.lock();
        let now = self.clock.now();
        match cell.repick(now, ticket, why) {
            Verdict::Go(decision) => {
                let member = cell.member(decision.endpoint).map(Arc::clone).ok_or(exhausted)?;
                Ok((decision, member))
            }
            Verdict::Refuse(refusal) => Err(refusal),
            Verdict::Wait(_) => Err(exhausted),
        }
    }

    pub(crate) fn apply(&self, gate: u32, event: Event) {
        if let Some(cell) = self.gate(gate) {
            let mut cell = cell.lock();
            let now = self.clock.now();
            cell.apply(now, event);
        }
    }

    /// A request that was sent counts as held where it went.
    pub(crate) fn begin(&self, gate: u32, endpoint: EndpointId, facts: &RequestFacts) {
        if let Some(index) = self.index(gate)
            && !facts.prefix.chain.is_empty()
        {
            index.begin(endpoint, &facts.prefix.chain);
        }
    }

    /// … until it is over; with an outcome that shows that the engine computed
    /// it, it stays.
    pub(crate) fn over(
        &self,
        gate: u32,
        endpoint: EndpointId,
        facts: &RequestFacts,
        outcome: Option<&Outcome>,
    ) {
        let prefix = &facts.prefix;
        let Some(index) = self.index(gate) else { return };
        if prefix.chain.is_empty() {
            return;
        }
        let now = self.clock.now();
        if let Some(usage) = outcome.and_then(|outcome| outcome.usage)
            && usage.cached_known
            && !usage.estimated
            && prefix.block_tokens > 0.0
        {
            let held = prefix.matches.iter().find(|held| held.endpoint == endpoint);
            let held = held.map_or(0, |held| held.tokens);
            let (predicted, cached) = compare(prefix, held, usage.cached_tokens);
            index.correct(endpoint, &prefix.chain, cached, predicted, now);
        }
        let served = outcome.is_some_and(|outcome| {
            outcome.ttft.is_some()
                || (outcome.end == forebay_core::EndKind::Finished && outcome.usage.is_some())
        });
        let held = self.held(gate);
        let confirms = prefix.exact && held.is_some_and(|held| held.is_telling(endpoint));
        let commits = served && !confirms;
        if let Some(held) = held.filter(|_| commits && prefix.block_tokens > 0.0) {
            held.committed(endpoint, prefix.chain.len(), prefix.block_tokens);
        }
        index.end(endpoint, &prefix.chain, commits, now);
    }

    /// A waiting request is given up: nobody is to be woken for it.
    pub(crate) fn withdraw(&self, gate: u32, ticket: TicketId) {
        if let Some(cell) = self.gate(gate) {
            let mut cell = cell.lock();
            let now = self.clock.now();
            cell.waiters.remove(&ticket);
            cell.apply(now, Event::Cancelled(ticket));
        }
    }

    pub(crate) fn next_timer(&self, gate: u32) -> Option<Time> {
        self.gate(gate)?.lock().gate.next_timer()
    }

    pub(crate) fn progress(&self, gate: u32, ticket: TicketId, tokens: u32) {
        self.apply(gate, Event::Progress(vec![Progress { ticket, tokens }]));
    }

    /// An answer carried what its endpoint said of itself.
    pub(crate) fn orca(&self, gate: u32, endpoint: EndpointId, load: OrcaLoad) {
        self.apply(gate, Event::Orca(endpoint, load));
    }

    /// What is known of a pool; none when it is not configured.
    pub fn pool(&self, pool: PoolId) -> Option<PoolLoad> {
        let (_, guarded) = self.guarded(pool)?;
        guarded.cell.lock().gate.pool(pool, self.clock.now())
    }

    /// What is known of one endpoint's load; none when it left.
    pub fn load(&self, key: EndpointKey) -> Option<EndpointLoad> {
        self.gate(key.gate)?.lock().gate.load(key.id)
    }

    /// Where each endpoint of a pool stands, in the order of their ids, read under
    /// one lock. Whatever the buffer held is dropped.
    pub fn standings(&self, pool: PoolId, out: &mut Vec<(EndpointId, EndpointStanding)>) {
        match self.guarded(pool) {
            Some((_, guarded)) => guarded.cell.lock().gate.standings(pool, out),
            None => out.clear(),
        }
    }

    /// What the shell keeps of an endpoint; none when it left.
    pub fn member(&self, key: EndpointKey) -> Option<Arc<M>> {
        self.gate(key.gate)?.lock().member(key.id).map(Arc::clone)
    }

    /// Every endpoint of every Gate.
    pub fn endpoints(&self) -> Vec<EndpointView<M>> {
        let mut views = Vec::new();
        for (gate, guarded) in self.gates.iter().enumerate() {
            let cell = guarded.cell.lock();
            for known in cell.members.iter().flatten() {
                if let Some(load) = cell.gate.load(known.id) {
                    views.push(EndpointView {
                        key: EndpointKey { gate: gate as u32, id: known.id },
                        pools: Arc::clone(&known.pools),
                        load,
                        member: Arc::clone(&known.member),
                    });
                }
            }
        }
        views
    }

    /// What the shell keeps of every endpoint.
    pub fn members(&self) -> Vec<Arc<M>> {
        let members = |guarded: &Guarded<M>| {
            let cell = guarded.cell.lock();
            cell.members.iter().flatten().map(|known| Arc::clone(&known.member)).collect::<Vec<_>>()
        };
        self.gates.iter().flat_map(members).collect()
    }

    /// The newest decisions over all Gates, newest first.
    pub fn decisions(&self, last: usize) -> Vec<GateDecision> {
        let mut all = Vec::new();
        for (gate, guarded) in self.gates.iter().enumerate() {
            let cell = guarded.cell.lock();
            all.extend(
                cell.gate.decisions(last).map(|record| GateDecision { gate: gate as u32, record: *record }),
            );
        }
        all.sort_by_key(|decision| std::cmp::Reverse(decision.record.at));
        all.truncate(last);
        all
    }

    /// Requests that are not settled, over all Gates.
    pub fn unsettled(&self) -> usize {
        self.gates.iter().map(|guarded| guarded.cell.lock().gate.unsettled()).sum()
    }
}

/// What was predicted and what was cached, in blocks of the index.
///
/// Text tells how many tokens a block has to within a few per cent, and engines
/// count their own blocks. What is off by no more than that is as predicted: taken
/// for a block that is missing, it would also take back all that follows it.
fn compare(prefix: &Prefix, held: u32, cached: u64) -> (u32, u32) {
    let (block, held, cached) = (prefix.block_tokens, held as f32, cached as f32);
    if prefix.exact {
        return ((held / block).round() as u32, (cached / block).round() as u32);
    }
    let (predicted, found) = ((held / block) as u32, (cached / block) as u32);
    let as_predicted = held - cached <= 1.5 * block + held / 32.0;
    (predicted, if as_predicted { found.max(predicted) } else { found })
}

impl<M> std::fmt::Debug for Live<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("gates", &self.gates.len()).finish_non_exhaustive()
    }
}
