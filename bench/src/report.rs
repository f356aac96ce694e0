//! Medians, ratios, the table and the JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::measure::{Measure, Sample};
use crate::program::Program;
use crate::settings::Settings;

/// What a run found.
#[derive(Debug)]
pub(crate) struct Report {
    settings: Settings,
    machine: Machine,
    programs: BTreeMap<Program, String>,
    skipped: Vec<Program>,
    samples: BTreeMap<(Measure, Program), Vec<Sample>>,
    failures: Vec<Failure>,
}

/// A measurement that could not be taken; without a measure, a program that
/// did not start.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    program: Program,
    measure: Option<Measure>,
    why: String,
}

impl Report {
    pub(crate) fn new(settings: Settings, machine: Machine) -> Report {
        Report {
            settings,
            machine,
            programs: BTreeMap::new(),
            skipped: Vec::new(),
            samples: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn add_program(&mut self, program: Program) {
        self.programs.insert(program, program.version());
    }

    /// A program that is not on this machine is left out, and said to be.
    pub(crate) fn skip(&mut self, program: Program) {
        self.skipped.push(program);
    }

    pub(crate) fn add(&mut self, program: Program, measure: Measure, sample: Result<Sample, String>) {
        match sample {
            Ok(sample) => {
                let (title, name) = (measure.title(), program.name());
                eprintln!("  {title:<22}{name:<9}{:>9.1} {}", sample.value, measure.unit());
                self.samples.entry((measure, program)).or_default().push(sample);
            }
            Err(why) => self.fail(program, Some(measure), why),
        }
    }

    pub(crate) fn fail(&mut self, program: Program, measure: Option<Measure>, why: String) {
        eprintln!("  {} {}: {why}", program.name(), measure.map_or("start", Measure::title));
        self.failures.push(Failure { program, measure, why });
    }

    pub(crate) fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The median of the rounds, if any succeeded.
    fn median(&self, measure: Measure, program: Program) -> Option<f64> {
        let mut values: Vec<f64> = self.samples.get(&(measure, program))?.iter().map(|s| s.value).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?);
        Some((low + high) / 2.0)
    }

    /// How many times what `base` needs `program` needs.
    fn ratio(&self, measure: Measure, program: Program, base: Program) -> Option<f64> {
        let base = self.median(measure, base)?;
        if base > 0.0 { Some(self.median(measure, program)? / base) } else { None }
    }

    pub(crate) fn to_json(&self) -> Value {
        let measures = Measure::ALL.map(|measure| {
            let of = |program: &Program| {
                json!({
                    "program": program,
                    "median": self.median(measure, *program),
                    "to_nginx": self.ratio(measure, *program, Program::Nginx),
                    "to_copy": self.ratio(measure, *program, Program::Copy),
                    "rounds": self.samples.get(&(measure, *program)),
                })
            };
            let results: Vec<Value> = self.programs.keys().map(of).collect();
            json!({ "measure": measure, "unit": measure.unit(), "results": results })
        });
        let programs: Vec<Value> = self
            .programs
            .iter()
            .map(|(program, version)| json!({ "program": program, "version": version }))
            .collect();
        json!({
            "version": 1,
            "settings": self.settings,
            "machine": self.machine,
            "programs": programs,
            "skipped": self.skipped,
            "measures": measures,
            "failures": self.failures,
        })
    }

    /// Ratios of Forebay to `base`, one for each measure that has both.
    fn ratios_to(&self, base: Program) -> String {
        let ratio = |measure: Measure| {
            let ratio = self.ratio(measure, Program::Forebay, base)?;
            Some(format!("{} {ratio:.2}", measure.title()))
        };
        Measure::ALL.into_iter().filter_map(ratio).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28}", "median (× nginx, × copy)")?;
        for program in self.programs.keys() {
            write!(f, "{:>24}", program.name())?;
        }
        writeln!(f)?;
        let taken = |measure: &Measure| self.samples.keys().any(|(taken, _)| taken == measure);
        for measure in Measure::ALL.into_iter().filter(taken) {
            write!(f, "{:<28}", format!("{}, {}", measure.title(), measure.unit()))?;
            for &program in self.programs.keys() {
                let ratio =
                    |base| self.ratio(measure, program, base).map_or("-".to_owned(), |r| format!("{r:.2}"));
                let cell = self.median(measure, program).map_or("-".to_owned(), |median| {
                    format!("{median:.1} ({}, {})", ratio(Program::Nginx), ratio(Program::Copy))
                });
                write!(f, "{cell:>24}")?;
            }
            writeln!(f)?;
        }
        for program in &self.skipped {
            writeln!(f, "left out: {} (not installed or not built)", program.name())?;
        }
        for Failure { program, measure, why } in &self.failures {
            writeln!(f, "failed: {} {}: {why}", program.name(), measure.map_or("start", Measure::title))?;
        }
        if let Some(warning) = self.machine.warning() {
            writeln!(f, "warning: {warning}")?;
        }
        if self.programs.contains_key(&Program::Forebay) {
            writeln!(f, "forebay × nginx: {}", self.ratios_to(Program::Nginx))?;
            writeln!(f, "forebay × copy: {}", self.ratios_to(Program::Copy))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64) -> Result<Sample, String> {
        Ok(Sample { value, units: 1, core_share: None, gap: None })
    }

    fn report() -> Report {
        let mut report = Report::new(Settings::parse(&["--quick"]).unwrap(), Machine::default());
        for (program, values) in [
            (Program::Nginx, [30.0, 10.0, 20.0].as_slice()),
            (Program::Copy, &[10.0]),
            (Program::Forebay, &[40.0, 20.0]),
        ] {
            report.programs.insert(program, "1".to_owned());
            for value in values {
                report.add(program, Measure::Request1Kb, sample(*value));
            }
        }
        report
    }

    #[test]
    fn medians_and_ratios() {
        let report = report();
        let of = |program| report.median(Measure::Request1Kb, program);
        assert_eq!(of(Program::Nginx), Some(20.0));
        assert_eq!(of(Program::Forebay), Some(30.0));
        assert_eq!(of(Program::Haproxy), None);
        assert_eq!(report.ratio(Measure::Request1Kb, Program::Forebay, Program::Nginx), Some(1.5));
        assert_eq!(report.ratio(Measure::Prompt32Kb, Program::Forebay, Program::Nginx), None);
    }

    #[test]
    fn says_what_was_found_and_what_was_not() {
        let mut report = report();
        report.skip(Program::Haproxy);
        report.add(Program::Forebay, Measure::Prompt32Kb, Err("because".to_owned()));
        let text = report.to_string();
        for part in [
            "30.0 (1.50, 3.00)",
            "forebay × nginx: 1 KB request 1.50\n",
            "forebay × copy: 1 KB request 3.00\n",
            "left out: haproxy",
            "failed: forebay 32 KB prompt: because",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let json = report.to_json();
        assert_eq!(json["measures"][0]["measure"], "request_1kb");
        assert_eq!(json["measures"][0]["results"][2]["to_nginx"], 1.5);
        assert_eq!(json["failures"][0]["why"], "because");
        assert_eq!(json["skipped"][0], "haproxy");
    }
}
