//! Which core does what.

use std::process::{Command, Stdio};

/// The proxy's core, and the core that the stub and the load generator share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(crate) proxy: usize,
    pub(crate) load: usize,
}

impl Cores {
    /// The first two cores that this process may use.
    pub(crate) fn pick() -> Result<Cores, String> {
        let status =
            std::fs::read_to_string("/proc/self/status").map_err(|e| format!("/proc/self/status: {e}"))?;
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        match parse_list(allowed.unwrap_or_default()).as_slice() {
            [proxy, load, ..] => Ok(Cores { proxy: *proxy, load: *load }),
            found => Err(format!("the bench needs two cores and may use {}", found.len())),
        }
    }

    /// Keeps this process, with the threads it will start, on the load core.
    pub(crate) fn pin_self(&self) -> Result<(), String> {
        let (core, pid) = (self.load.to_string(), std::process::id().to_string());
        let status = Command::new("taskset").args(["-acp", &core, &pid]).stdout(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("taskset failed ({status})")),
            Err(e) => Err(format!("cannot start taskset (package util-linux): {e}")),
        }
    }
}

/// A list as in `0-2,5`.
fn parse_list(text: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cores.extend(first..=last);
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_of_cores() {
        for (text, expect) in
            [("\t0-1\n", vec![0, 1]), ("3", vec![3]), ("0-2,5", vec![0, 1, 2, 5]), ("", vec![])]
        {
            assert_eq!(parse_list(text), expect, "{text:?}");
        }
    }
}
