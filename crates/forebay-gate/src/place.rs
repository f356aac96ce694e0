//! Placing a request: who may be picked, the pick, and what it puts there.

use forebay_core::{TicketId, Time};
use forebay_predict::Predicted;

use crate::endpoints::{Endpoints, FirstTokens, Sent};
use crate::explain::{Candidate, DecisionRecord};
use crate::gate::Gate;
use crate::peers::Standing;
use crate::pick::cost::{self, LANES};
use crate::pick::{Policy, View, block_of, common, total_work};
use crate::pool::Pool;
use crate::residents::Residence;
use crate::ticket::{Loading, Sending, Stage, Ticket};
use crate::verdict::{Decision, Explanation};

/// An endpoint that ramps up may have this many times its share of the mean
/// load at once: none at all could not be told from a full one.
const RAMP_ROOM: f64 = 1.0;

/// Memory of a pick, kept from one to the next. It is no state: every pick
/// leaves it as it found it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    candidates: Vec<u32>,
    /// Tokens held, by slot; zero but during a pick.
    held: Vec<u32>,
    /// The operator's own costs and what is lost with an adapter that is driven
    /// out, by slot; empty but during a pick.
    extra: Vec<f32>,
    /// What loading the adapter takes, by slot; empty but during a pick.
    loading: Vec<f32>,
    /// Who may be picked for requests that ask for nothing special.
    members: Vec<u32>,
    top: Vec<u32>,
}

impl PartialEq for Scratch {
    fn eq(&self, _: &Scratch) -> bool {
        true
    }
}

impl Gate {
    /// Picks an endpoint for a homeless ticket and puts its load there.
    pub(crate) fn place(&mut self, now: Time, id: TicketId) -> Option<Decision> {
        self.endpoints.refresh(now);
        let ticket = self.tickets.get_mut(id)?;
        let pool = self.pools.get_mut(ticket.facts.pool.index())?.as_mut()?;
        let standing = match self.peers.is_empty() {
            true => Standing::ALONE,
            false => self.peers.standing(now, f64::from(pool.learned.arrivals_per_ms(now))),
        };
        self.scratch.read(now, ticket, &self.endpoints, pool.learned.adapter_load_ms());
        let chosen = choose(
            now,
            id,
            ticket,
            pool,
            &mut self.endpoints,
            standing,
            &mut self.scratch,
            &mut self.rng,
            &mut self.shadow_rng,
        );
        self.scratch.forget(ticket);
        let (record, sending) = chosen?;
        if !ticket.facts.stream {
            self.unseen.insert((sending.unseen_at(), id));
        }
        ticket.stage = Stage::Sent(sending);
        self.decisions.push(record);
        Some(Decision {
            ticket: id,
            endpoint: record.endpoint,
            explanation: Explanation {
                pool: record.pool,
                policy: record.policy,
                candidates: record.candidates,
                score: record.score,
                in_flight: record.in_flight,
            },
        })
    }
}

#[expect(clippy::too_many_arguments, reason = "the Gate's parts, borrowed apart")]
fn choose(
    now: Time,
    id: TicketId,
    ticket: &Ticket,
    pool: &mut Pool,
    endpoints: &mut Endpoints,
    standing: Standing,
    scratch: &mut Scratch,
    rng: &mut rand_pcg::Pcg64Mcg,
    shadow_rng: &mut rand_pcg::Pcg64Mcg,
) -> Option<(DecisionRecord, Sending)> {
    let facts = &*ticket.facts;
    let fallback = pool.in_fallback();
    let restricted = narrow(now, ticket, pool, endpoints, standing, scratch);
    if restricted && pool.learned.is_due(now) {
        // What the pool is like does not depend on who asks.
        let window = pool.window(standing);
        let inside = |slot: &u32| window.as_ref().is_none_or(|window| window.has(*slot));
        scratch.members.clear();
        scratch.members.extend(pool.eligible().iter().copied().filter(inside));
    }
    let Pool { config, policy, fallback: instead, shadow, learned, ramping, eligible, .. } = pool;
    learned.refresh(now, if restricted { &scratch.members } else { &scratch.candidates }, endpoints);
    let weights = config.weights();
    let class = learned.class_of(facts, &weights);
    let view = View {
        now,
        candidates: &scratch.candidates,
        eligible,
        endpoints,
        facts,
        held: &scratch.held,
        extra: &scratch.extra,
        loading: &scratch.loading,
        share: standing.share as f32,
        ramping,
        learned,
        config,
    };
    let decides = if fallback { instead } else { &mut *policy };
    let pick = decides.pick(&view, rng)?;
    let (kind, note) = (decides.kind(), decides.note());
    // The chosen one first, then whom the policy itself found cheapest.
    scratch.top.clear();
    scratch.top.push(pick.slot);
    let ranked = decides.ranked().iter().map(|(_, slot)| *slot).chain(view.candidates.iter().copied());
    for slot in ranked {
        if scratch.top.len() == LANES {
            break;
        }
        if !scratch.top.contains(&slot) {
            scratch.top.push(slot);
        }
    }
    let decay = endpoints.decay(now);
    let block = block_of(&view, &scratch.top, decay);
    let common = common(&view, &weights, decides.backlog_ms());
    let priced = cost::price(&block, &common, learned.classes(), &weights);

    let mut record = DecisionRecord::new(now, id, endpoints.id(pick.slot), kind);
    record.pool = facts.pool;
    record.model = facts.model;
    record.fallback = fallback;
    record.candidates = view.candidates.len() as u32;
    record.score = pick.score;
    record.in_flight = endpoints.in_flight(pick.slot);
    record.prompt_tokens = facts.prompt_tokens;
    record.output_tokens = facts.output_tokens;
    record.weights = weights;
    record.set_top(scratch.top.iter().enumerate().map(|(lane, &slot)| Candidate {
        endpoint: endpoints.id(slot),
        terms: priced.terms(lane, &block, &common),
    }));

    let shadowed = shadow.as_mut().and_then(|shadow| {
        let other = shadow.pick(&view, shadow_rng)?;
        let block = block_of(&view, &[other.slot], decay);
        let its = cost::price(&block, &common, learned.classes(), &weights);
        shadow.sent(&view, pick.slot);
        // Where there is no choice they cannot but agree.
        if view.candidates.len() < 2 {
            return None;
        }
        Some((other.slot, its.total[0] - priced.total[0]))
    });
    decides.sent(&view, pick.slot);

    let sending = sending(&view, pick.slot, &block, &priced);
    let capacity = priced.capacity_own(0, &block, &common);
    learned.dispatched(capacity, block.held[0] / common.prompt.max(1.0));
    if let Some((slot, difference)) = shadowed {
        record.shadow = Some(endpoints.id(slot));
        learned.shadow_asked += 1;
        learned.shadow_agreed += u64::from(slot == pick.slot);
        if difference.is_finite() {
            learned.shadow_dearer_ms += f64::from(difference.max(0.0));
            learned.shadow_cheaper_ms += f64::from((-difference).max(0.0));
        }
    }
    let blocks = facts.prefix.chain.len() as f32;
    let covered = (blocks * facts.prefix.block_tokens).clamp(0.0, facts.prompt_tokens as f32) as u32;
    let sent = Sent {
        work: total_work(facts),
        prefill_ms: sending.2,
        prompt: facts.prompt_tokens,
        tail: facts.prompt_tokens - covered,
        class,
        chain: &facts.prefix.chain,
    };
    let (base, tpot_base_ms, _) = sending;
    let held = block.held[0].min(common.prompt);
    let met = FirstTokens {
        uncached: common.prompt - held,
        cached: held,
        streams: block.streams[0],
        context: block.context[0],
    };
    let in_flight = record.in_flight;
    let charge = endpoints.send(pick.slot, now, &sent);
    let mut loading = None;
    if let Some(adapter) = facts.adapter {
        let residents = endpoints.residents_mut(pick.slot);
        let ms = scratch.loading.get(pick.slot as usize).copied().unwrap_or(0.0);
        loading = match residents.residence(adapter) {
            Residence::Loaded => None,
            Residence::Loading(_) => Some(Loading { ms, first: false }),
            Residence::Absent => Some(Loading { ms, first: true }),
        };
        residents.used(adapter, now);
    }
    let sending = Sending {
        slot: pick.slot,
        charge,
        at: now,
        base,
        ttft_ms: priced.ttft[0],
        tpot_base_ms,
        tpot_ms: priced.tpot[0],
        in_flight,
        note,
        met,
        loading,
        first_token: None,
        counted: (now, 0),
    };
    Some((record, sending))
}

/// What is predicted at the class's own speed, for learning how far the
/// endpoint is from it: the parts of the time to the first token, the time per
/// token, and the prefill that is charged, in milliseconds.
fn sending(view: &View<'_>, slot: u32, block: &cost::Block, priced: &cost::Priced) -> (Predicted, f32, f32) {
    let row = view.endpoints.row(slot);
    let model = view.endpoints.model(slot);
    let endpoints = view.endpoints;
    let (streams, context) = (f64::from(endpoints.all_streams(slot)), f64::from(endpoints.all_context(slot)));
    let step = model.step_ms(streams, context);
    let tax = model.interference(streams, step);
    let prompt = f64::from(view.facts.prompt_tokens);
    let held = f64::from(view.held(slot)).min(prompt);
    let prefill = model.prefill_ms(prompt - held, held);
    let owed = row.owed_us.saturating_add(endpoints.peer(slot).owed_us) as f64 * 1e-3
        + f64::from(row.foreign_owed_ms);
    // The wait for memory is the one that was priced, less the endpoint's own slowness.
    let memory = f64::from(priced.backlog[0] - block.owed[0]) / f64::from(row.decode_factor);
    let base = Predicted {
        wait_ms: owed * tax + memory.max(0.0),
        own_ms: prefill + step * ((prompt - held) / model.chunk(streams)).max(1.0),
        fixed_ms: f64::from(block.fixed[0]) + step * streams.min(1.0) / 2.0,
    };
    let output = f64::from(view.facts.output_tokens);
    let share = f64::from(block.prefill_share[0]) / f64::from(row.prefill_factor)
        + prefill / f64::from(cost::PREFILL_WINDOW_MS);
    let tpot =
        model.tpot_ms(f64::from(endpoints.all_requests(slot)) + 1.0, context + prompt + output / 2.0, share);
    (base, tpot as f32, prefill as f32)
}

/// Who may be picked for this request: the eligible, less those that it must
/// not go to. Endpoints that ramp up drop out while they have their share, and
/// with several gateways those outside this one's window. Returns whether it is
/// this request that must not go to some.
fn narrow(
    now: Time,
    ticket: &Ticket,
    pool: &mut Pool,
    endpoints: &mut Endpoints,
    standing: Standing,
    scratch: &mut Scratch,
) -> bool {
    let facts = &*ticket.facts;
    let Scratch { candidates: out, extra, held, .. } = scratch;
    pool.end_ramps(endpoints, now);
    out.clear();
    out.extend_from_slice(pool.eligible());
    if !ticket.tried.is_empty() {
        out.retain(|slot| !ticket.tried.contains(slot));
    }
    if let Some(version) = facts.version {
        out.retain(|&slot| endpoints.version(slot) == Some(version));
    }
    if !facts.costs.is_empty() {
        out.retain(|&slot| extra.get(slot as usize).is_none_or(|ms| ms.is_finite()));
    }
    if let Some(adapter) = facts.adapter
        && out.iter().any(|&slot| endpoints.residents(slot).lists(adapter))
    {
        out.retain(|&slot| endpoints.serves(slot, adapter));
    }
    let restricted = out.len() < pool.eligible().len();
    if !pool.ramping.is_empty() {
        rest_ramping(now, pool, endpoints, out);
    }
    if let Some(window) = pool.window(standing) {
        let inside = |slot: &u32| {
            window.has(*slot) || 2 * held.get(*slot as usize).copied().unwrap_or(0) > facts.prompt_tokens
        };
        if out.iter().any(inside) {
            out.retain(inside);
        }
    }
    restricted
}

/// Endpoints that ramp up and have their share already drop out.
fn rest_ramping(now: Time, pool: &Pool, endpoints: &Endpoints, out: &mut Vec<u32>) {
    let in_flight: u32 = out.iter().map(|&slot| endpoints.in_flight(slot)).sum();
    let mean = (f64::from(in_flight) + 1.0) / out.len().max(1) as f64;
    let has_share = |slot: u32| {
        let factor = pool.config.slow_start.factor(endpoints.ready_since(slot), now);
        f64::from(endpoints.in_flight(slot)) + 1.0 > (mean * factor * RAMP_ROOM).max(1.0)
    };
    let resting: smallvec::SmallVec<[u32; 8]> =
        out.iter().copied().filter(|slot| pool.ramping.contains(slot) && has_share(*slot)).collect();
    if resting.len() < out.len() {
        out.retain(|slot| !resting.contains(slot));
    }
}

impl Scratch {
    /// Spreads what is known of single endpoints over the slots.
    fn read(&mut self, now: Time, ticket: &Ticket, endpoints: &Endpoints, load_ms: f32) {
        let facts = &*ticket.facts;
        self.held.resize(endpoints.slots(), 0);
        for held in &facts.prefix.matches {
            if let Some(slot) = endpoints.slot(held.endpoint) {
                self.held[slot as usize] = held.tokens;
            }
        }
        if facts.costs.is_empty() && facts.adapter.is_none() {
            return;
        }
        self.extra.resize(endpoints.slots(), 0.0);
        for cost in &facts.costs {
            if let Some(slot) = endpoints.slot(cost.endpoint) {
                // What may not be picked is no candidate, whatever it costs.
                let ms = cost.cost_ms.map_or(f32::INFINITY, |ms| if ms.is_finite() { ms } else { 0.0 });
                self.extra[slot as usize] = ms;
            }
        }
        let Some(adapter) = facts.adapter else { return };
        self.loading.resize(endpoints.slots(), 0.0);
        for slot in 0..endpoints.slots() {
            let residents = endpoints.residents(slot as u32);
            match residents.residence(adapter) {
                Residence::Loaded => {}
                Residence::Loading(since) => {
                    self.loading[slot] = (load_ms - now.since(since).as_secs_f32() * 1e3).max(0.0);
                }
                Residence::Absent => {
                    self.loading[slot] = load_ms;
                    if residents.is_full() {
                        // Driving another one out will cost its load again.
                        self.extra[slot] += load_ms;
                    }
                }
            }
        }
    }

    fn forget(&mut self, ticket: &Ticket) {
        for held in &ticket.facts.prefix.matches {
            if let Some(tokens) = self.held.get_mut(held.endpoint.index()) {
                *tokens = 0;
            }
        }
        self.extra.clear();
        self.loading.clear();
    }
}
