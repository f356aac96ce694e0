//! What the system says of this process, from Linux's `/proc`.

use std::fs;

use forebay_metrics::ProcessStats;

/// Linux gives CPU and start times in this many parts of a second to every
/// program, whatever the kernel counts in itself.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the figures of this process. On a system without `/proc` all are
/// unknown. Takes some tens of microseconds.
pub fn process_stats() -> ProcessStats {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let stat = read("/proc/self/stat");
    let status = read("/proc/self/status");
    let start_ticks = stat_field(&stat, 22);
    let boot = line_value(&read("/proc/stat"), "btime");
    ProcessStats {
        cpu_seconds: stat_field(&stat, 14)
            .zip(stat_field(&stat, 15))
            .map(|(user, system)| (user + system) / TICKS_PER_SECOND),
        resident_bytes: line_value(&status, "VmRSS:").map(|kib| kib * 1024.0),
        virtual_bytes: line_value(&status, "VmSize:").map(|kib| kib * 1024.0),
        // The directory that is being read is one of those counted.
        open_fds: fs::read_dir("/proc/self/fd").ok().map(|dir| dir.count().saturating_sub(1) as f64),
        max_fds: line_value(&read("/proc/self/limits"), "Max open files"),
        start_time_seconds: boot.zip(start_ticks).map(|(boot, ticks)| boot + ticks / TICKS_PER_SECOND),
    }
}

/// The field of `/proc/self/stat` with this number, as proc(5) counts them.
/// The second is the program's name, which may hold spaces and parentheses.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The first number after the line's beginning.
fn line_value(text: &str, start: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(start))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_a_name_with_parentheses() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 8888 1000000 300";
        assert_eq!(stat_field(stat, 14), Some(250.0));
        assert_eq!(stat_field(stat, 15), Some(50.0));
        assert_eq!(stat_field(stat, 22), Some(8888.0));
        assert_eq!(stat_field(stat, 99), None);
        assert_eq!(stat_field("", 14), None);
        assert_eq!(stat_field(") x", 1), None);
    }

    #[test]
    fn a_line_is_found_by_its_beginning() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024    524288  files\n";
        assert_eq!(line_value(limits, "Max open files"), Some(1024.0));
        assert_eq!(line_value("Max open files   unlimited  x", "Max open files"), None);
        assert_eq!(line_value("VmRSS:\t  2048 kB", "VmRSS:"), Some(2048.0));
        assert_eq!(line_value("", "VmRSS:"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_plausible_figures() {
        let stats = process_stats();
        let between =
            |value: Option<f64>, low: f64, high: f64| value.is_some_and(|v| (low..=high).contains(&v));
        assert!(between(stats.resident_bytes, 100e3, 100e9), "{stats:?}");
        assert!(between(stats.open_fds, 3.0, 1e6), "{stats:?}");
        assert!(between(stats.start_time_seconds, 1.5e9, 1e11), "{stats:?}");
        assert!(stats.cpu_seconds.is_some() && stats.virtual_bytes >= stats.resident_bytes, "{stats:?}");
    }
}
