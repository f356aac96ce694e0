//! How soon a failure is noticed.

use std::time::Duration;

use forebay_core::Time;
use forebay_gate::PolicyKind;
use forebay_sim::fleet::{FleetChange, FleetEvent, RunOptions, SimResult, run};

use super::rows::{Claim, Row, Verdict, figure};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::stats::Mean;
use crate::workloads;

const WHO: [PolicyKind; 3] = [PolicyKind::Predictive, PolicyKind::LeastRequest, PolicyKind::RoundRobin];
const ENDPOINTS: usize = 16;
/// Requests per second.
const RATE: f64 = 60.0;
/// When it happens: between two load reports, which come every second.
const AT_S: f64 = 20.35;
/// Played in all.
const REQUESTS: u64 = 2_400;
/// It hangs: so many times as slow, and still takes connections.
const HANGS: f64 = 1_000.0;

/// What happened after the failure.
struct Seen {
    /// Milliseconds until the last request went there.
    last_ms: f64,
    /// Requests that went there.
    sent: f64,
    /// The same until two seconds after the failure.
    sent_soon: f64,
    failed: f64,
}

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let dead = FleetChange::Crash { back_after: None, keep_cache: false };
    let hanging = FleetChange::Slow { slowness: HANGS };
    let mut table = Vec::new();
    let mut seen = Vec::new();
    for (name, change) in [("the process is gone", dead), ("it hangs", hanging)] {
        for kind in WHO {
            let seeds = context.seeds.iter().map(|seed| play(kind, change, *seed));
            let seeds = seeds.collect::<Result<Vec<Seen>, String>>()?;
            let of = |what: fn(&Seen) -> f64| Mean::of(seeds.iter().map(what));
            table.push(vec![
                name.to_owned(),
                kind.as_str().to_owned(),
                figure(of(|seen| seen.last_ms), 0),
                figure(of(|seen| seen.sent_soon), 1),
                figure(of(|seen| seen.sent), 1),
                figure(of(|seen| seen.failed), 1),
            ]);
            seen.push((of(|seen| seen.last_ms), of(|seen| seen.sent), of(|seen| seen.failed)));
        }
    }
    let mut detail = Doc::new();
    detail.paragraph(format!(
        "{ENDPOINTS} × h100-8b with the tenants' work, {RATE} requests per second, one endpoint fails after {AT_S} s; \
         {:.0} s are played from then on. A request that is refused goes elsewhere. How the gateway itself does that \
         with real connections: [Health](configuration.md#health-poolshealth).",
        REQUESTS as f64 / RATE - AT_S
    ));
    detail.table(
        &["what fails", "policy", "last request there, ms after", "sent in 2 s", "sent in all", "broken off"],
        &table,
    );
    let (gone, hangs) = (seen[0], seen[WHO.len()]);
    let rows = vec![
        Row {
            claimed: "a dead server is noticed within seconds",
            reached: format!(
                "the last request is sent there {} ms after; {} were refused there and went elsewhere, {} that were \
                 running broke off",
                figure(gone.0, 0),
                figure(gone.1, 1),
                figure(gone.2, 1)
            ),
            conditions:
                "a refused connection counts at once; otherwise the next load report, every second, tells"
                    .to_owned(),
            verdict: Verdict::of(&[gone.0.mean <= 2_000.0]),
            because: String::new(),
        },
        Row {
            claimed: "a hanging server is noticed within seconds",
            reached: format!(
                "`predictive` sends {} requests there, the last {} ms after (`round_robin` {})",
                figure(hangs.1, 1),
                figure(hangs.0, 0),
                figure(seen[2 * WHO.len() - 1].1, 0)
            ),
            conditions: format!(
                "one of {ENDPOINTS} takes {HANGS:.0} times as long, takes connections, and answers its probes"
            ),
            verdict: Verdict::of(&[hangs.0.mean <= 5_000.0]),
            because: format!(
                "until a time-out or a probe fails nothing tells but first tokens that do not come, and a policy that \
                 goes by what it has in flight still takes the endpoint for one that is merely loaded: it gets {} \
                 requests in {:.0} s where its fair part is {:.0}, and `least_request` sends {}.",
                figure(hangs.1, 1),
                REQUESTS as f64 / RATE - AT_S,
                (REQUESTS as f64 - RATE * AT_S) / ENDPOINTS as f64,
                figure(seen[WHO.len() + 1].1, 1)
            ),
        },
    ];
    Ok(Claim { title: "Failures", rows, detail })
}

fn play(kind: PolicyKind, change: FleetChange, seed: u64) -> Result<Seen, String> {
    let mut scenario = workloads::tenants(ENDPOINTS)?;
    let at = Time::from_millis_f64(AT_S * 1e3);
    scenario.fleet.events.push(FleetEvent { at, endpoint: 0, change });
    let mut traffic = scenario.traffic.play(RATE, REQUESTS, seed)?;
    let step = Duration::from_millis(10);
    let options = RunOptions { seed, warmup: 0, sample_every: Some(step), ..RunOptions::default() };
    let mut fleet = scenario.fleet;
    if let FleetChange::Slow { .. } = change {
        // What hangs there would be simulated for hours: it is ended in the end.
        let end = Time::from_millis_f64(REQUESTS as f64 / RATE * 1e3 + 1e3);
        let change = FleetChange::Crash { back_after: None, keep_cache: false };
        fleet.events.push(FleetEvent { at: end, endpoint: 0, change });
    }
    let result = run(&fleet, traffic.as_mut(), &contenders::ours(kind).policy, &options)
        .map_err(|e| format!("failure: {e}"))?;
    Ok(seen(&result))
}

fn seen(result: &SimResult) -> Seen {
    let after = || result.timeline.iter().filter(|point| point.at > AT_S + 1e-9);
    let to = |point: &forebay_sim::fleet::TimelinePoint| point.sent.first().copied().unwrap_or(0);
    let last = after().filter(|point| to(point) > 0).map(|point| point.at).fold(AT_S, f64::max);
    let sum = |until: f64| after().filter(|point| point.at <= until).map(|point| f64::from(to(point))).sum();
    Seen {
        last_ms: (last - AT_S) * 1e3,
        sent: sum(f64::INFINITY),
        sent_soon: sum(AT_S + 2.0),
        failed: (result.failed + result.cancelled) as f64,
    }
}
