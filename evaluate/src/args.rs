//! What was asked for on the command line.

use std::path::PathBuf;

use crate::sections;

/// `forebay-evaluate [OPTION…] [SECTION…]`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Args {
    /// Only enough to see that everything works.
    pub(crate) quick: bool,
    /// Cells at a time.
    pub(crate) jobs: usize,
    /// Seeds of each cell.
    pub(crate) seeds: u64,
    /// Where finished cells are kept; none: nowhere.
    pub(crate) cells: Option<PathBuf>,
    /// Where the document goes; none: standard output, without plots.
    pub(crate) out: Option<PathBuf>,
    /// What the code that decides and simulates is known by.
    pub(crate) code: String,
    /// The day and the commit that the document states.
    pub(crate) date: String,
    pub(crate) commit: String,
    /// Sections that were asked for; none: all.
    pub(crate) wanted: Vec<String>,
}

/// Most cells at a time: each holds a fleet in memory.
const MOST_JOBS: u64 = 256;
const MOST_SEEDS: u64 = 100;

impl Args {
    /// Seeds unless asked otherwise.
    pub(crate) const SEEDS: u64 = 5;
    /// Of them, for the sections after the headline.
    pub(crate) const FURTHER_SEEDS: usize = 3;

    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Args, String> {
        let mut parsed = Args {
            quick: false,
            jobs: std::thread::available_parallelism().map_or(2, usize::from),
            seeds: Args::SEEDS,
            cells: None,
            out: None,
            code: String::new(),
            date: "an unknown day".to_owned(),
            commit: "an unknown commit".to_owned(),
            wanted: Vec::new(),
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => parsed.quick = true,
                "--jobs" => parsed.jobs = number(&arg, &value()?, MOST_JOBS)? as usize,
                "--seeds" => parsed.seeds = number(&arg, &value()?, MOST_SEEDS)?,
                "--cells" => parsed.cells = Some(PathBuf::from(value()?)),
                "--out" => parsed.out = Some(PathBuf::from(value()?)),
                "--code" => parsed.code = value()?,
                "--date" => parsed.date = value()?,
                "--commit" => parsed.commit = value()?,
                name if sections::ALL.iter().any(|(known, _)| *known == name) => parsed.wanted.push(arg),
                other => {
                    let names: Vec<&str> = sections::ALL.iter().map(|(name, _)| *name).collect();
                    return Err(format!("no section or option {other}; sections are {}", names.join(", ")));
                }
            }
        }
        Ok(parsed)
    }

    pub(crate) fn wants(&self, section: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == section)
    }
}

fn number(option: &str, value: &str, most: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{option} {value}: a number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_sections() {
        let args = parse("--quick --jobs 3 headline --out here").unwrap();
        assert!(args.quick && args.jobs == 3 && args.out == Some(PathBuf::from("here")));
        assert!(args.wants("headline") && !args.wants("scale"));
        assert!(parse("").unwrap().wants("scale"));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (line, expect) in [
            ("--jobs 0", "--jobs 0: a number from 1"),
            ("--seeds many", "--seeds many: a number from 1 to 100"),
            ("--jobs", "--jobs needs a value"),
            ("headlines", "no section or option headlines; sections are headline"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(expect), "{line}: {message}");
        }
    }
}
