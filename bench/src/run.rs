//! One run: every program, every measurement, in turns.

use std::net::SocketAddr;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::cores::Cores;
use crate::machine::Machine;
use crate::measure::{Measure, Sample, Workload};
use crate::program::{Program, Running};
use crate::report::Report;
use crate::settings::Settings;
use crate::stub;

/// As many backends as a small fleet has servers.
const BACKENDS: usize = 8;

/// Measures, prints the table and writes the JSON. Fails when a program that
/// is there could not be measured, never because one is slow.
pub(crate) fn run(settings: Settings) -> Result<(), String> {
    // Before any load of its own.
    let machine = Machine::read();
    let cores = Cores::pick()?;
    cores.pin_self()?;
    let backends = stub::spawn(BACKENDS)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("runtime: {e}"))?;
    let workload = Workload::new(settings.clone());
    let mut report = Report::new(settings.clone(), machine);
    LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            () = measure_all(&workload, &backends, cores, &mut report) => Ok(()),
            why = interrupted() => Err(why),
        }
    })?;
    print!("{report}");
    if let Some(path) = &settings.out {
        let json = serde_json::to_string_pretty(&report.to_json()).map_err(|e| e.to_string())?;
        std::fs::write(path, json + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    }
    match report.failures().len() {
        0 => Ok(()),
        failures => Err(format!("{failures} measurements failed; see above")),
    }
}

async fn measure_all(workload: &Workload, backends: &[SocketAddr], cores: Cores, report: &mut Report) {
    let mut running = Vec::new();
    let settings = &workload.settings;
    let wanted = |p: &Program| settings.programs.is_empty() || settings.programs.contains(p);
    for program in Program::ALL.into_iter().filter(wanted) {
        if program.find().is_none() {
            report.skip(program);
            continue;
        }
        match program.start(backends, cores).await {
            Ok(started) => {
                report.add_program(program);
                running.push((program, started));
            }
            Err(why) => report.fail(program, None, why),
        }
    }
    let rounds = if settings.only == [Measure::IdleStream] { 0 } else { settings.rounds };
    for round in 0..rounds {
        eprintln!("CPU, round {} of {}", round + 1, rounds);
        cpu_round(workload, &running, report).await;
    }
    let programs: Vec<Program> = running.iter().map(|(program, _)| *program).collect();
    for (_, running) in running {
        running.end().await;
    }
    let rounds = if takes(settings, Measure::IdleStream) { settings.memory_rounds } else { 0 };
    for round in 0..rounds {
        eprintln!("memory, round {} of {}", round + 1, rounds);
        for &program in &programs {
            let sample = workload.memory(program, backends, cores).await;
            report.add(program, Measure::IdleStream, sample);
        }
    }
}

/// Whether this run takes `measure`.
fn takes(settings: &Settings, measure: Measure) -> bool {
    settings.only.is_empty() || settings.only.contains(&measure)
}

/// Waits for Ctrl-C or SIGTERM, so that folders are removed on those ways too.
async fn interrupted() -> String {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
    "interrupted".to_owned()
}

/// The programs take turns, so that a change of the machine's mood in the
/// middle of a run meets all of them.
async fn cpu_round(workload: &Workload, running: &[(Program, Running)], report: &mut Report) {
    for measure in Measure::ALL.into_iter().filter(|&m| takes(&workload.settings, m)) {
        for (program, running) in running {
            let Some(sample) = workload.cpu(measure, running).await else { continue };
            if let Ok(Sample { gap: Some(gap), units, .. }) = sample {
                let value = gap.as_secs_f64() * 1e3;
                let gap = Sample { value, units, core_share: None, gap: None };
                report.add(*program, Measure::EventGap, Ok(gap));
            }
            report.add(*program, measure, sample);
        }
    }
}
