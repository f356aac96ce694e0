//! A million small predictions per second.

use forebay_core::Priority;
use forebay_gate::PolicyKind;
use forebay_sim::engine::Profile;
use forebay_sim::fleet::Fleet;

use super::fleets::tasks;
use super::rows::{Claim, Row, Verdict, figure, mean, share};
use crate::cell::{Cell, Contender, MEAN, P95, P99};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::stats::Mean;

const RATE: f64 = 1e6;
const ENDPOINTS: usize = 1_024;
const POOLS: usize = 16;
/// A small encoder on a GPU that takes many tasks at a time: 1 ms for a step
/// and a hundredth of one for each token.
const SMALL: Profile = Profile {
    name: "small-encoder",
    a: 1.0,
    b: 0.01,
    c: 0.0,
    d: 0.0,
    e: 0.0,
    kv_tokens: 65_536,
    max_num_seqs: 256,
    max_batched_tokens: 8_192,
    block_size: 16,
};

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let sized = |endpoints: usize, warmup: u64, counted: u64| {
        let traffic = tasks(10, 64, 20.0, Priority::STANDARD);
        let all = Scenario::new("small tasks", Fleet::uniform(endpoints, &SMALL), traffic, warmup);
        Scenario { counted, ..all }
    };
    let one = (sized(ENDPOINTS, 50_000, 100_000), RATE);
    let split = (sized(ENDPOINTS / POOLS, 20_000, 40_000), RATE / POOLS as f64);
    let whole = format!("one pool of {ENDPOINTS}");
    let parts = format!("{POOLS} pools of {}", ENDPOINTS / POOLS);
    let who: Vec<(&str, &(Scenario, f64), Contender)> = vec![
        (&whole, &one, contenders::predictive()),
        (&parts, &split, contenders::predictive()),
        (&parts, &split, contenders::ours(PolicyKind::LeastRequest)),
        (&parts, &split, contenders::ours(PolicyKind::PowerOfTwo)),
        (&parts, &split, contenders::ours(PolicyKind::RoundRobin)),
    ];
    let (mut table, mut figures) = (Vec::new(), Vec::new());
    for (pool, (scenario, rate), contender) in &who {
        let grid = context.grid("claims: millions", scenario, &[*rate], std::slice::from_ref(contender))?;
        let seeds = &grid.outcomes[0][0];
        // Decisions are timed in a run of their own, that nothing else disturbs.
        let seed = context.seeds.first().copied().unwrap_or(1);
        let (policy, scenario) = (contender.policy.clone(), scenario.clone());
        let timed = Cell { scenario, rate: *rate, policy, seed, timed: true };
        let timed = context.runner.run("claims: millions, timed", &[timed])?;
        let decision = Mean::of(timed.iter().filter_map(|outcome| outcome.decision_us));
        let ms = |of: usize| figure(mean(seeds, |outcome| outcome.e2e_ms[of]), 1);
        table.push(vec![
            (*pool).to_owned(),
            contender.name.clone(),
            figure(mean(seeds, |outcome| outcome.goodput), 4),
            format!("{} / {} / {}", ms(MEAN), ms(P95), ms(P99)),
            share(mean(seeds, |outcome| outcome.utilization)),
            figure(decision, 1),
        ]);
        figures.push((mean(seeds, |outcome| outcome.e2e_ms[P95]), mean(seeds, |o| o.goodput), decision));
    }
    let mut detail = Doc::new();
    detail.paragraph(
        "Tasks of 10 to 64 tokens, to be done within 20 ms, on an encoder that takes 1 ms for a step and 0.01 ms for \
         each token of up to 256 tasks in it. Mean / P95 / P99 in ms.",
    );
    detail.table(&["fleet", "policy", "goodput", "latency", "busy", "µs for a decision"], &table);
    let (one, split) = (&figures[0], &figures[1]);
    let row = Row {
        claimed: "one million small predictions per second",
        reached: format!(
            "P95 {} ms, goodput {} in one pool; {} ms, {} in {parts}; one decision takes {} µs in one pool and {} in \
             {parts}, so deciding alone takes about {:.0} and {:.0} cores",
            figure(one.0, 1),
            figure(one.1, 4),
            figure(split.0, 1),
            figure(split.1, 4),
            figure(one.2, 1),
            figure(split.2, 1),
            one.2.mean.ceil(),
            split.2.mean.ceil(),
        ),
        conditions: format!(
            "{ENDPOINTS} modelled endpoints and one modelled gateway, a tenth of a second of traffic that counts, \
             `predictive`"
        ),
        verdict: match split.1.mean >= 0.99 && one.1.mean >= 0.99 {
            true => Verdict::Partly,
            false => Verdict::NotReached,
        },
        because: format!(
            "that is modelled traffic. A real gateway decides one request of a pool at a time, so that one pool of \
             {ENDPOINTS} takes at most {:.0} thousand requests per second and the work has to be divided over at least \
             {:.0} gateways, or over pools; and each request costs the data plane much more than the decision \
             ([Performance](performance.md#against-other-proxies)): at 25 µs \
             of a core for a request of 1 KB, a million per second is 25 cores of gateways.",
            1e3 / one.2.mean.max(1e-3),
            one.2.mean.ceil(),
        ),
    };
    Ok(Claim { title: "A million per second", rows: vec![row], detail })
}
