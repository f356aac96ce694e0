//! `forebay decisions`

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use forebay_gate::Terms;
use forebay_live::replay;
use serde::Serialize;

use crate::cli::{DecisionsArgs, Failure};

/// One decision with the names of its endpoints.
#[derive(Serialize)]
struct Explained {
    at_seconds: f64,
    policy: String,
    endpoint: String,
    prompt_tokens: u32,
    output_tokens: u32,
    candidates: u32,
    reason: String,
    terms: Vec<Priced>,
}

#[derive(Serialize)]
struct Priced {
    endpoint: String,
    #[serde(flatten)]
    terms: Terms,
}

#[derive(Serialize)]
struct Output {
    report: forebay_live::ReplayReport,
    decisions: Vec<Explained>,
}

/// Replays a log; fails when it does not come out the same.
pub(crate) fn run(args: &DecisionsArgs) -> Result<ExitCode, Failure> {
    let name = args.log.display();
    let file = File::open(&args.log).map_err(|e| Failure::Usage(format!("--log {name}: {e}")))?;
    let mut newest = VecDeque::new();
    let report = replay(BufReader::new(file), |gate, record| {
        if args.last == 0 {
            return;
        }
        if newest.len() == args.last {
            newest.pop_front();
        }
        let name = |id| gate.name(id).unwrap_or("(left)").to_owned();
        newest.push_back(Explained {
            at_seconds: record.at.as_millis_f64() / 1e3,
            policy: record.policy.to_string(),
            endpoint: name(record.endpoint),
            prompt_tokens: record.prompt_tokens,
            output_tokens: record.output_tokens,
            candidates: record.candidates,
            reason: record.reason(name),
            terms: record.top().map(|c| Priced { endpoint: name(c.endpoint), terms: c.terms }).collect(),
        });
    })
    .map_err(|e| Failure::Failed(format!("{name}: {e}")))?;
    let same = report.mismatches == 0 && report.snapshot_mismatches == 0;
    let output = Output { report, decisions: newest.into_iter().collect() };
    if args.json {
        let text = serde_json::to_string_pretty(&output).map_err(Failure::doing("cannot print"))?;
        println!("{text}");
    } else {
        print(&output);
    }
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(output: &Output) {
    for decision in &output.decisions {
        println!(
            "{:.3} s  {} tokens -> {}  ({} candidates)",
            decision.at_seconds, decision.prompt_tokens, decision.endpoint, decision.candidates
        );
        println!("  {}", decision.reason);
        println!(
            "  {:<32} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}",
            "endpoint, terms in ms",
            "held",
            "wait",
            "prefill",
            "fixed",
            "extra",
            "decode",
            "harm",
            "price",
            "crowding",
            "miss",
            "total"
        );
        for Priced { endpoint, terms: t } in &decision.terms {
            println!(
                "  {:<32} {:>8.0} {:>8.1} {:>8.1} {:>7.1} {:>7.1} {:>8.0} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>9.1}",
                endpoint,
                t.held_tokens,
                t.wait_ms,
                t.prefill_ms,
                t.fixed_ms,
                t.extra_ms,
                t.decode_ms,
                t.harm_ms,
                t.price_ms,
                t.crowding_ms,
                t.miss_ms,
                t.total_ms
            );
        }
    }
    let r = &output.report;
    println!(
        "{} entries, {} decisions, {} snapshots: {}",
        r.entries,
        r.decisions,
        r.snapshots,
        match r.mismatches + r.snapshot_mismatches {
            0 => "every decision came out as logged".to_owned(),
            n => format!("{n} came out otherwise than logged"),
        }
    );
    if r.other_build {
        println!("The log was written by another build: {}.", r.build);
        println!("This one is:                          {}.", forebay_live::build());
        println!(
            "What differs may be what was changed between them; only the build that wrote a log replays it."
        );
    }
    if r.cut_off > 0 {
        println!("The last {} bytes are not a whole entry: its writer was stopped.", r.cut_off);
    }
}
