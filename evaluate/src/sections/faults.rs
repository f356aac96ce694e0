//! Endpoints that are slow, become slow, join, or die.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use forebay_core::Time;
use forebay_gate::Without;
use forebay_sim::fleet::{EndpointSpec, Fleet, FleetChange, FleetEvent};
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::cell::Cell;
use crate::contenders::{predictive, without};
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::stats::Mean;
use crate::workloads;

use super::tables::{Comparison, Condition, FIGURES, rivals, show, some};

const OURS: usize = 0;
const UNTAUGHT: usize = 1;
const RIVALS: Range<usize> = 2..6;
/// Seconds after the first request that counts: those that are in flight when
/// something happens shall count as well.
const LATER_S: f64 = 10.0;
/// As much of the load as three quarters of a fleet carry as easily.
const SLOW_SHARE: f64 = 0.75;

pub(crate) fn run(context: &Context<'_>) -> Result<Doc, String> {
    let mut doc = Doc::new();
    doc.heading(2, "Slow, throttled, new and dead endpoints");
    doc.paragraph(format!(
        "The conversation trace on 16 × h100-8b. What happens, happens {LATER_S} s after counting begins, so that \
         nearly all figures are of the requests that come after it; failed requests count as missed. Rivals \
         are told the class of an endpoint; that it is slow, only by its weight, in the last row. {FIGURES}"
    ));
    for (name, rate) in some(context, 1, vec![("conversation at 16/s", 16.0), ("conversation at 20/s", 20.0)])
    {
        let scenario = workloads::conversation(16)?;
        let mut events = events(&scenario, rate)?;
        if context.quick {
            events.truncate(3);
        }
        // When counting begins depends on the seed: a trace begins anywhere.
        let mut begins = BTreeMap::new();
        for event in &events {
            for &seed in &context.seeds {
                begins.insert((event.rate.to_bits(), seed), counting(context, &scenario, event.rate, seed)?);
            }
        }
        let unspoilt = Without { speeds: true, ..Without::default() };
        let mut contenders = vec![predictive(), without("… that learns no speeds", unspoilt)];
        contenders.extend(rivals(context));
        let rows =
            events.iter().map(|event| Condition::new(&*event.name, scenario.clone(), event.rate)).collect();
        let what = format!("faults: {name}");
        let it = Comparison::of_cells(context, &what, rows, contenders, |condition, row, _| {
            let event = &events[row];
            let cell = |&seed: &u64| {
                let span = begins.get(&(event.rate.to_bits(), seed)).ok_or("a seed without a beginning")?;
                let scenario = match row {
                    0 => scenario.clone(),
                    _ => scenario.with(&format!("{}, {}", scenario.name, event.name), |fleet| {
                        (event.change)(fleet, span, seed);
                    }),
                };
                Ok(Cell { scenario, ..condition.cell(seed) })
            };
            context.seeds.iter().map(cell).collect()
        })?;
        doc.heading(3, name);
        it.table(&mut doc, "what happens");
        failures(&it, &mut doc);
        let mut text = String::new();
        if let Some((condition, by)) = it.worst(1..it.conditions.len(), 0, OURS) {
            text += &format!("Worst for `predictive`: {} points (“{}”). ", show(by), condition.name);
        }
        text += &learning(&it);
        text += &it.standing(OURS, RIVALS);
        doc.paragraph(text);
    }
    Ok(doc)
}

/// Seconds within which something may happen.
type Span = Range<f64>;

/// What something does to a fleet with this seed.
type Change = Box<dyn Fn(&mut Fleet, &Span, u64)>;

/// Something that happens.
struct Happening {
    name: String,
    rate: f64,
    change: Change,
}

/// When those requests arrive that count, but for the first seconds.
fn counting(context: &Context<'_>, scenario: &Scenario, rate: f64, seed: u64) -> Result<Span, String> {
    let cell = context.runner.sized(&Condition::new("", scenario.clone(), rate).cell(seed));
    let Scenario { warmup, counted, .. } = cell.scenario;
    let mut traffic = scenario.traffic.play(rate, warmup + counted, seed)?;
    let mut after = |requests: u64| {
        let arrivals = (0..requests).map_while(|_| traffic.next_request());
        arrivals.last().map_or(0.0, |request| request.arrival.as_nanos() as f64 * 1e-9)
    };
    Ok(after(warmup) + LATER_S..after(counted))
}

fn event(at: f64, endpoint: usize, change: FleetChange) -> FleetEvent {
    FleetEvent { at: Time::from_nanos((at * 1e9) as u64), endpoint, change }
}

fn events(base: &Scenario, rate: f64) -> Result<Vec<Happening>, String> {
    let mut all = Vec::new();
    let mut add = |name: &str, rate: f64, change: Change| {
        all.push(Happening { name: name.to_owned(), rate, change });
    };
    let slow = |endpoints: &'static [usize]| -> Change {
        Box::new(|fleet, span, _| {
            let events = endpoints.iter().map(|&i| event(span.start, i, FleetChange::Slow { slowness: 2.0 }));
            fleet.events.extend(events);
        })
    };
    let crash = |back_after: Option<u64>, keep_cache: bool| -> Change {
        let back_after = back_after.map(Duration::from_secs);
        Box::new(move |fleet, span, _| {
            fleet.events.push(event(span.start, 5, FleetChange::Crash { back_after, keep_cache }));
        })
    };
    add("nothing", rate, Box::new(|_, _, _| {}));
    add("one of 16 becomes half as fast", rate, slow(&[5]));
    add("one dies", rate, crash(None, false));
    add("one dies and is back empty after 30 s", rate, crash(Some(30), false));
    add("one is cut off for 30 s and keeps its cache", rate, crash(Some(30), true));
    add(
        "one leaves, and may finish what it has",
        rate,
        Box::new(|fleet, span, _| {
            fleet.events.push(event(span.start, 5, FleetChange::Leave));
        }),
    );
    let seventeenth = cold(base)?;
    add(
        "a 17th joins, empty",
        rate,
        Box::new(move |fleet, span, _| {
            fleet.events.push(event(span.start, fleet.endpoints.len(), FleetChange::Join));
            fleet.endpoints.push(seventeenth.clone());
        }),
    );
    add("4 of 16 become half as fast", rate, slow(&[1, 5, 9, 13]));
    add("3 of 16 throttled by 20 % at random moments", rate, Box::new(throttle));
    let less = rate * SLOW_SHARE;
    for (told, weight) in [("not told", 1.0), ("told", 0.5)] {
        add(
            &format!("half were always half as fast, {told}, {less}/s"),
            less,
            Box::new(move |fleet, _, _| {
                for endpoint in fleet.endpoints.iter_mut().skip(8) {
                    (endpoint.slowness, endpoint.weight) = (2.0, weight);
                }
            }),
        );
    }
    Ok(all)
}

/// Three endpoints get too hot now and then.
fn throttle(fleet: &mut Fleet, span: &Span, seed: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    for endpoint in [3, 7, 11] {
        let mut at = span.start;
        while at < span.end {
            at += rng.random_range(5.0..40.0);
            fleet.events.push(event(at, endpoint, FleetChange::Slow { slowness: 1.25 }));
            at += rng.random_range(10.0..60.0);
            fleet.events.push(event(at, endpoint, FleetChange::Slow { slowness: 1.0 }));
        }
    }
}

/// One more endpoint like the others, that is no member yet.
fn cold(base: &Scenario) -> Result<EndpointSpec, String> {
    let like = base.fleet.endpoints.first().ok_or("no endpoints")?;
    Ok(EndpointSpec { name: "cold".to_owned(), is_member: false, ..like.clone() })
}

/// Where requests failed, how many.
fn failures(it: &Comparison, doc: &mut Doc) {
    let mut head = vec!["requests that failed, in a thousand".to_owned()];
    head.extend(it.contenders.iter().map(|contender| contender.name.clone()));
    let mut rows = Vec::new();
    for (row, condition) in it.conditions.iter().enumerate() {
        let per_mille = |column: usize| -> Option<f64> {
            let seeds = it.of(row, column)?;
            Some(
                Mean::of(
                    seeds.iter().map(|o| 1e3 * (o.failed + o.rejected) as f64 / o.requests.max(1) as f64),
                )
                .mean,
            )
        };
        let all: Vec<Option<f64>> = (0..it.contenders.len()).map(per_mille).collect();
        if all.iter().flatten().any(|x| *x > 0.0) {
            let told = all.iter().map(|x| x.map_or(String::new(), |x| format!("{x:.1}")));
            rows.push(std::iter::once(condition.name.clone()).chain(told).collect());
        }
    }
    if !rows.is_empty() {
        doc.table(&head, &rows);
    }
}

/// What learning speeds is worth where something is slow.
fn learning(it: &Comparison) -> String {
    let all = (0..it.conditions.len())
        .filter_map(|row| Some((it.points((row, OURS), (row, UNTAUGHT))?, it.conditions[row].name.as_str())));
    let mut all: Vec<(Mean, &str)> = all.collect();
    all.sort_by(|a, b| a.0.mean.total_cmp(&b.0.mean));
    match (all.first(), all.last()) {
        (Some((least, where_least)), Some((most, where_most))) => format!(
            "Learning speeds is worth between {} points (“{where_least}”) and {} points (“{where_most}”). ",
            show(*least),
            show(*most)
        ),
        _ => String::new(),
    }
}
