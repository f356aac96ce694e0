//! How long, how many, how often.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::measure::Measure;
use crate::program::Program;

/// Everything a run is told. Written into its JSON, so that two results can
/// be compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Settings {
    /// Rounds of the CPU measurements; the programs take turns in each.
    pub(crate) rounds: usize,
    /// Rounds of the memory measurement, each with fresh processes.
    pub(crate) memory_rounds: usize,
    /// Load before the measured window, so that connections and caches are warm.
    #[serde(rename = "warm_up_ms", serialize_with = "millis")]
    pub(crate) warm_up: Duration,
    /// The window in which CPU time and work are counted.
    #[serde(rename = "window_ms", serialize_with = "millis")]
    pub(crate) window: Duration,
    /// Connections of the closed loop for 1 KB, 32 KB and 256 KB requests.
    pub(crate) connections: [usize; 3],
    /// Time between two requests of one connection where they are paced.
    #[serde(rename = "request_pace_ms", serialize_with = "millis")]
    pub(crate) request_pace: Duration,
    /// Streams that run at once, and the time between two events of one.
    pub(crate) streams: usize,
    #[serde(rename = "pace_ms", serialize_with = "millis")]
    pub(crate) pace: Duration,
    /// Idle streams of the memory measurement.
    pub(crate) idle_streams: usize,
    /// Measures to take; empty: all.
    #[serde(skip)]
    pub(crate) only: Vec<Measure>,
    /// Programs to measure; empty: all that are there.
    #[serde(skip)]
    pub(crate) programs: Vec<Program>,
    #[serde(skip)]
    pub(crate) out: Option<PathBuf>,
}

fn millis<S: serde::Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(value.as_secs_f64() * 1e3)
}

impl Settings {
    fn full() -> Settings {
        Settings {
            rounds: 5,
            memory_rounds: 3,
            warm_up: Duration::from_millis(500),
            window: Duration::from_secs(2),
            connections: [32, 16, 8],
            request_pace: Duration::from_millis(4),
            streams: 200,
            pace: Duration::from_millis(10),
            idle_streams: 1_000,
            only: Vec::new(),
            programs: Vec::new(),
            out: None,
        }
    }

    fn quick() -> Settings {
        Settings {
            rounds: 1,
            memory_rounds: 1,
            warm_up: Duration::from_millis(200),
            window: Duration::from_millis(500),
            idle_streams: 200,
            ..Settings::full()
        }
    }

    /// Reads the arguments of `run`.
    pub(crate) fn parse(args: &[&str]) -> Result<Settings, String> {
        let mut settings = if args.contains(&"--quick") { Settings::quick() } else { Settings::full() };
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            match arg {
                "--quick" => {}
                "--out" => {
                    let path = args.next().ok_or("--out needs a file name")?;
                    settings.out = Some(PathBuf::from(path));
                }
                "--only" => {
                    let names = args.next().ok_or("--only needs measures, such as request_1kb")?;
                    settings.only = named(names, &Measure::ALL, Measure::name, "measure")?;
                }
                "--programs" => {
                    let names = args.next().ok_or("--programs needs names, such as nginx,forebay")?;
                    settings.programs = named(names, &Program::ALL, Program::name, "program")?;
                }
                other => return Err(format!("unknown argument {other:?}; see forebay-bench --help")),
            }
        }
        Ok(settings)
    }
}

/// The things that a list of names with commas between them names.
fn named<T: Copy>(names: &str, all: &[T], name: fn(T) -> &'static str, what: &str) -> Result<Vec<T>, String> {
    let one = |wanted: &str| {
        let known = || all.iter().map(|&one| name(one)).collect::<Vec<_>>().join(", ");
        let found = all.iter().copied().find(|&one| name(one) == wanted);
        found.ok_or_else(|| format!("unknown {what} {wanted:?}; there are {}", known()))
    };
    names.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        assert_eq!(Settings::parse(&[]), Ok(Settings::full()));
        let out = Some(PathBuf::from("a.json"));
        assert_eq!(
            Settings::parse(&["--out", "a.json", "--quick"]),
            Ok(Settings { out, ..Settings::quick() })
        );
        assert!(Settings::parse(&["--out"]).is_err());
        assert!(Settings::parse(&["--fast"]).is_err());
        let only = Settings::parse(&["--only", "request_1kb,idle_stream", "--programs", "nginx"]);
        let only = only.map(|settings| (settings.only, settings.programs));
        assert_eq!(only, Ok((vec![Measure::Request1Kb, Measure::IdleStream], vec![Program::Nginx])));
        let unknown = Settings::parse(&["--only", "speed"]).err().unwrap_or_default();
        assert!(unknown.contains("\"speed\"") && unknown.contains("request_1kb"), "{unknown}");
    }
}
