//! Gateways that know less than all, or that know it wrong.

use std::ops::Range;
use std::time::Duration;

use forebay_gate::Without;
use forebay_sim::fleet::{Fleet, OutputKnowledge};

use crate::contenders::{predictive, without};
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::workloads;

use super::tables::{Comparison, Condition, FIGURES, rivals, show, some};

/// What a condition is about; rows come in this order.
#[derive(Clone, Copy, PartialEq)]
enum About {
    /// Everything is known: what the others are compared with.
    Nothing,
    Speeds,
    Lengths,
    Caches,
}

const OURS: usize = 0;
const UNTAUGHT: usize = 1;
const RIVALS: Range<usize> = 2..6;

pub(crate) fn run(context: &Context<'_>) -> Result<Doc, String> {
    let mut doc = Doc::new();
    doc.heading(2, "Wrong constants, unknown lengths, late news of caches");
    doc.paragraph(format!(
        "What does it cost when a gateway takes engines to be twice or half as fast as they are or of another \
         class, when it knows the lengths of answers or guesses them badly, and when the engines' news of \
         their caches come late, get lost or do not exist? The first row of each table knows what there is to \
         know (classes, and caches after 50 ms; lengths are learned). Wrong constants and lengths say nothing to the \
         rivals, which are always given the right constants. {FIGURES}"
    ));
    let conversation = workloads::conversation(16)?;
    let places = vec![
        ("conversation at 16/s", conversation.clone(), 16.0),
        ("conversation at 22/s", conversation, 22.0),
        ("tenants at 120/s", workloads::tenants(16)?, 120.0),
    ];
    for (name, scenario, rate) in some(context, 1, places) {
        place(context, &mut doc, name, &scenario, rate)?;
    }
    Ok(doc)
}

fn place(context: &Context<'_>, doc: &mut Doc, name: &str, base: &Scenario, rate: f64) -> Result<(), String> {
    let (about, conditions): (Vec<About>, Vec<Condition>) =
        some(context, 3, conditions(base, rate)).into_iter().unzip();
    let learns_nothing = Without { speeds: true, correction: true, ..Without::default() };
    let mut contenders = vec![predictive(), without("… that learns no speeds", learns_nothing)];
    contenders.extend(rivals(context));
    let it =
        Comparison::run(context, &format!("knowledge: {name}"), conditions, contenders, |row, column| {
            match column {
                OURS => true,
                UNTAUGHT => matches!(about[row], About::Nothing | About::Speeds),
                _ => matches!(about[row], About::Nothing | About::Caches),
            }
        })?;
    doc.heading(3, name);
    it.table(doc, "gateways are told");
    let rows = |what: About| {
        let from = about.iter().position(|a| *a == what).unwrap_or(0);
        from..from + about.iter().filter(|a| **a == what).count()
    };
    let mut text = String::new();
    for (what, told) in [
        (About::Speeds, "Wrong speeds cost `predictive`"),
        (About::Lengths, "Other knowledge of lengths"),
        (About::Caches, "Late, lost or no news of caches"),
    ] {
        let Some((condition, by)) = it.worst(rows(what), 0, OURS) else { continue };
        text += &format!("{told}: at worst {} points of goodput (“{}”). ", show(by), condition.name);
    }
    if let Some((condition, by)) = it.worst(rows(About::Speeds), 0, UNTAUGHT) {
        text += &format!(
            "Where it learns no speeds, wrong ones: at worst {} points (“{}”). ",
            show(by),
            condition.name
        );
    }
    text += &with_wrong_speeds(&it, rows(About::Speeds));
    text += &it.standing(OURS, RIVALS);
    doc.paragraph(text);
    Ok(())
}

/// How it stands with wrong speeds beside the best rival with right ones.
fn with_wrong_speeds(it: &Comparison, rows: Range<usize>) -> String {
    let told = || {
        let best = it.best(0, RIVALS, |outcome| -outcome.goodput)?;
        let worst = rows.min_by(|a, b| {
            let of = |row: &usize| it.points((*row, OURS), (0, OURS)).map_or(0.0, |by| by.mean);
            of(a).total_cmp(&of(b))
        })?;
        let by = it.points((worst, OURS), (0, best))?;
        let name = &it.contenders[best].name;
        Some(format!("That worst row is {} points beside {name} with the right constants. ", show(by)))
    };
    told().unwrap_or_default()
}

fn conditions(base: &Scenario, rate: f64) -> Vec<(About, Condition)> {
    let mut all = vec![(About::Nothing, Condition::new("everything", base.clone(), rate))];
    let mut add = |about: About, name: &str, change: &dyn Fn(&mut Fleet)| {
        let scenario = base.with(&format!("{}, {name}", base.name), change);
        all.push((about, Condition::new(name, scenario, rate)));
    };
    let speed = |by: f64| move |fleet: &mut Fleet| fleet.endpoints.iter_mut().for_each(|e| e.weight = by);
    add(About::Speeds, "that all are twice as fast", &speed(2.0));
    add(About::Speeds, "that all are half as fast", &speed(0.5));
    add(About::Speeds, "no accelerator (it guesses h100-8b)", &called(1, None));
    add(
        About::Speeds,
        "that all are a100-8b (prefill 2.9 ×, decode 1.4 × slower)",
        &called(1, Some("a100-8b")),
    );
    add(About::Speeds, "that every other one is a100-8b", &called(2, Some("a100-8b")));
    for (name, knowledge) in [
        ("the length of every answer", OutputKnowledge::Exact),
        ("lengths with lognormal noise, σ = 1", OutputKnowledge::Noisy(1.0)),
        ("64 tokens for every answer", OutputKnowledge::Constant(64)),
        ("1,000 tokens for every answer", OutputKnowledge::Constant(1_000)),
    ] {
        add(About::Lengths, name, &|fleet| fleet.output_knowledge = knowledge);
    }
    let late = |ms: u64| move |fleet: &mut Fleet| fleet.kv_events = Some(Duration::from_millis(ms));
    add(About::Caches, "news of caches 0.5 s late", &late(500));
    add(About::Caches, "news of caches 5 s late", &late(5_000));
    for lost in [0.05, 0.2, 0.5] {
        let name = format!("news of caches, {:.0} % of it lost", lost * 100.0);
        add(About::Caches, &name, &|fleet| fleet.kv_events_lost = lost);
    }
    add(About::Caches, "no news of caches (they go by what they sent)", &|fleet| fleet.kv_events = None);
    all
}

/// Every so manieth endpoint is called that.
fn called(every: usize, accelerator: Option<&str>) -> impl Fn(&mut Fleet) {
    move |fleet| {
        let some = fleet.endpoints.iter_mut().step_by(every);
        some.for_each(|endpoint| endpoint.accelerator = accelerator.map(str::to_owned));
    }
}
