//! Sites near the users against one central site.

use std::time::Duration;

use forebay_core::Priority;
use forebay_gate::PolicyKind;
use forebay_sim::engine::Profile;
use forebay_sim::fleet::Fleet;

use super::fleets::{ENCODER, encoder_ms, tasks};
use super::rows::{Claim, Row, Verdict, change, figure, mean, more, share};
use crate::cell::{MEAN, Outcome, P95};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::{Scenario, Traffic};
use crate::workloads;

const SITES: usize = 4;
/// Endpoints of the central site; a site near users has its part of them.
const ENDPOINTS: usize = 16;
const NEAR: Duration = Duration::from_millis(2);
const FAR: Duration = Duration::from_millis(80);

/// What is asked for, what it takes of a second of one endpoint, and which time counts.
struct Case {
    what: &'static str,
    profile: &'static Profile,
    traffic: Traffic,
    /// Requests per second of the whole fleet, at little and at much load.
    loads: [f64; 2],
    time: fn(&Outcome, usize) -> f64,
}

fn sized(case: &Case, endpoints: usize, round_trip: Duration) -> Scenario {
    let mut fleet = Fleet::uniform(endpoints, case.profile);
    fleet.kv_events = Some(Duration::from_millis(50));
    fleet.endpoints.iter_mut().for_each(|endpoint| endpoint.round_trip = round_trip);
    Scenario { counted: 3_000, ..Scenario::new("edge", fleet, case.traffic.clone(), 1_000) }
}

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let h100 = Profile::by_name("h100-8b").ok_or("no class h100-8b")?;
    let tenants = workloads::tenants(ENDPOINTS)?.traffic;
    let full = ENDPOINTS as f64 * 1e3 / encoder_ms(37);
    let cases = [
        Case {
            what: "short tasks",
            profile: &ENCODER,
            traffic: tasks(10, 64, 2_000.0, Priority::STANDARD),
            loads: [0.5, 0.8].map(|part| part * full),
            time: |outcome, of| outcome.e2e_ms[of],
        },
        Case {
            what: "first token of answers",
            profile: h100,
            traffic: tenants.clone(),
            loads: [40.0, 80.0],
            time: |outcome, of| outcome.ttft_ms[of],
        },
        Case {
            what: "whole answers",
            profile: h100,
            traffic: tenants,
            loads: [40.0, 80.0],
            time: |outcome, of| outcome.e2e_ms[of],
        },
    ];
    let ours = [contenders::predictive()];
    let (mut table, mut reached, mut met) = (Vec::new(), Vec::new(), Vec::new());
    for case in &cases {
        let central = context.grid("claims: edge", &sized(case, ENDPOINTS, FAR), &case.loads, &ours)?;
        let loads = case.loads.map(|load| load / SITES as f64);
        let near = context.grid("claims: edge", &sized(case, ENDPOINTS / SITES, NEAR), &loads, &ours)?;
        let mut told = Vec::new();
        for (at, name) in ["half", "much"].iter().enumerate() {
            let (near, central) = (&near.outcomes[0][at], &central.outcomes[0][at]);
            let times = |seeds: &[Outcome], of| seeds.iter().map(|o| (case.time)(o, of)).collect::<Vec<_>>();
            let cut = |of| more(&times(near, of), &times(central, of));
            told.push(format!("{} / {}", change(cut(MEAN)), change(cut(P95))));
            met.push(cut(MEAN).mean <= -0.6);
            let ms =
                |seeds: &[Outcome], of: usize| figure(mean(seeds, |outcome| (case.time)(outcome, of)), 0);
            table.push(vec![
                format!("{}, {name} load", case.what),
                format!("{} / {}", ms(central, MEAN), ms(central, P95)),
                format!("{} / {}", ms(near, MEAN), ms(near, P95)),
            ]);
        }
        reached.push(format!("{}: {} at half load, {} at much", case.what, told[0], told[1]));
    }
    let mut detail = Doc::new();
    detail.paragraph(format!(
        "Mean / P95 in ms under `predictive`: {ENDPOINTS} endpoints at one site {} ms away, against {SITES} sites with \
         {} endpoints each, {} ms away, each with its part of the traffic.",
        FAR.as_millis(),
        ENDPOINTS / SITES,
        NEAR.as_millis()
    ));
    detail.table(&["work", "central", "near"], &table);
    let row = Row {
        claimed: "sites at the edge have 60 % lower latency than a central one",
        reached: format!("mean / P95 {}", reached.join("; ")),
        conditions: format!(
            "the same {ENDPOINTS} endpoints at one site with a round trip of {} ms or spread over {SITES} of {} ms",
            FAR.as_millis(),
            NEAR.as_millis()
        ),
        verdict: Verdict::of(&met),
        because: "only the round trip gets shorter: that is most of a short task and almost nothing of an answer of \
                  seconds, and small sites wait more, as they cannot help each other out."
            .to_owned(),
    };
    let known = Case {
        what: "prompts of 100 to 1,000 tokens, one token back, on h100-8b",
        profile: h100,
        traffic: tasks(100, 1_000, 2_000.0, Priority::STANDARD),
        loads: [0.0; 2],
        time: |outcome, of| outcome.e2e_ms[of],
    };
    let alone = h100.a + 550.0 * h100.b;
    let overflow =
        overflow(context, &[(&known, 1e3 / alone), (&cases[0], 1e3 / encoder_ms(37))], &mut detail)?;
    Ok(Claim { title: "Edge and centre", rows: vec![row, overflow], detail })
}

/// One site at its peak, and a far one that has room. Of each case, what one
/// endpoint carries per second.
fn overflow(context: &Context<'_>, cases: &[(&Case, f64)], detail: &mut Doc) -> Result<Row, String> {
    let near = ENDPOINTS / SITES;
    let who =
        [PolicyKind::Predictive, PolicyKind::LeastRequest, PolicyKind::RoundRobin].map(contenders::ours);
    let stays = |seeds: &[Outcome]| {
        mean(seeds, |outcome| outcome.endpoints.iter().take(near).map(|(share, _)| share).sum::<f64>())
    };
    let (mut table, mut reached, mut met) = (Vec::new(), Vec::new(), Vec::new());
    for (case, each) in cases {
        let both = sized(case, 2 * near, NEAR).with("overflow", |fleet| {
            fleet.endpoints.iter_mut().skip(near).for_each(|endpoint| endpoint.round_trip = FAR);
        });
        let loads = [0.5, 0.9, 1.3].map(|part| part * near as f64 * each);
        let grid = context.grid("claims: edge, overflow", &both, &loads, &who)?;
        let only =
            context.grid("claims: edge, overflow", &sized(case, near, NEAR), &loads[..2], &who[..1])?;
        let mut told = |name: &str, seeds: &[Vec<Outcome>]| {
            let cells = seeds.iter().map(|seeds| {
                let ms = |of: usize| figure(mean(seeds, |outcome| outcome.e2e_ms[of]), 0);
                format!("{} / {} / {}", ms(MEAN), ms(P95), share(stays(seeds)))
            });
            let mut row = vec![case.what.to_owned(), name.to_owned()];
            row.extend(cells);
            row.resize(2 + loads.len(), "more than it carries".to_owned());
            table.push(row);
        };
        told("near site alone", &only.outcomes[0]);
        for (contender, seeds) in who.iter().zip(&grid.outcomes) {
            told(&contender.name, seeds);
        }
        let times = |who: usize, load: usize| {
            grid.outcomes[who][load].iter().map(|outcome| outcome.e2e_ms[MEAN]).collect::<Vec<_>>()
        };
        let cut = |load: usize, than: usize| more(&times(0, load), &times(than, load));
        reached.push(format!(
            "{}: at 50 % of what the near site carries {} stay there and the mean is {} against `least_request`, at \
             130 % {} and {}",
            case.what,
            share(stays(&grid.outcomes[0][0])),
            change(cut(0, 1)),
            share(stays(&grid.outcomes[0][2])),
            change(cut(2, 1)),
        ));
        met.extend((0..loads.len()).map(|load| [1, 2].iter().all(|than| cut(load, *than).mean < 0.0)));
    }
    detail.paragraph("One site of four endpoints near, and four far ones that have nothing else to do.");
    detail.table(
        &["mean / P95 in ms / share that stays near", "policy", "50 % of the site", "90 %", "130 %"],
        &table,
    );
    Ok(Row {
        claimed: "the nearest site first, others when it is full",
        reached: reached.join("; "),
        conditions: "4 endpoints 2 ms away and 4 that are 80 ms away, under `predictive`, which prices the round trip"
            .to_owned(),
        verdict: Verdict::of(&met),
        because: "each request weighs its own wait against the round trip, and not that those after it wait longer \
                  for it; at a peak the near queue so grows until it costs as much as the way to the far site. Of the \
                  encoder `predictive` knows no step times either, and does not learn them where answers have one \
                  token and the real ones are 20 times those it assumes: it takes a wait there for a twentieth of \
                  what it is."
            .to_owned(),
    })
}
