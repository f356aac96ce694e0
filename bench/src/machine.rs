//! The machine a result comes from, as far as it explains the numbers.

use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    /// Congestion control costs CPU on the loopback too.
    tcp_congestion_control: String,
    /// Runnable processes in the last minute before the run.
    load_average: f64,
}

impl Machine {
    pub(crate) fn read() -> Machine {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpu = text("/proc/cpuinfo");
        let model = cpu.lines().find(|line| line.starts_with("model name"));
        Machine {
            cpu: model
                .and_then(|line| line.split_once(": "))
                .map_or(String::new(), |(_, name)| name.to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: text("/proc/sys/kernel/osrelease"),
            tcp_congestion_control: text("/proc/sys/net/ipv4/tcp_congestion_control"),
            load_average: text("/proc/loadavg").split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0),
        }
    }

    /// What spoils a comparison, if anything does.
    pub(crate) fn warning(&self) -> Option<String> {
        const QUIET: f64 = 0.5;
        (self.load_average > QUIET).then(|| {
            format!(
                "the machine was busy before the run (load {:.1}): repeat it on a quiet one",
                self.load_average
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_this_machine_and_warns_when_it_is_busy() {
        let machine = Machine::read();
        assert!(machine.cores > 0 && !machine.kernel.is_empty(), "{machine:?}");
        assert_eq!(Machine::default().warning(), None);
        assert!(Machine { load_average: 2.0, ..Machine::default() }.warning().is_some());
    }
}
