//! CPU time and memory of a process and its children, from `/proc`.

use std::time::Duration;

/// Processes below `pid`, and `pid` itself.
fn tree(pid: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        if let Some(parent) = stat_field(&stat, PARENT) {
            parents.push((child, parent));
        }
    }
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let parent = u64::from(found[at]);
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        at += 1;
    }
    found
}

// Fields of `/proc/PID/stat` as proc(5) numbers them.
const PARENT: usize = 4;
const USER_TICKS: usize = 14;
const SYSTEM_TICKS: usize = 15;

/// Field `number` of a `stat` line, from 3 on: the second field is a name that
/// may hold spaces and brackets.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(number - 3)?.parse().ok()
}

/// CPU time used so far, from two clocks of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// The scheduler's sum over the threads that live: nanoseconds.
    scheduled: Duration,
    /// User and system time, ended threads included: steps of a tick.
    ticks: Duration,
}

/// One tick of `/proc/PID/stat`; 100 a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

impl CpuTime {
    /// CPU time of `pid` and its children, user and system together.
    pub(crate) fn of(pid: u32) -> Result<CpuTime, String> {
        let mut time = CpuTime { scheduled: Duration::ZERO, ticks: Duration::ZERO };
        for (nth, pid) in tree(pid).into_iter().enumerate() {
            let stat = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(stat) => stat,
                Err(e) if nth == 0 => return Err(format!("/proc/{pid}/stat: {e}")),
                // A child may have ended since it was listed.
                Err(_) => continue,
            };
            let ticks =
                [USER_TICKS, SYSTEM_TICKS].iter().filter_map(|field| stat_field(&stat, *field)).sum::<u64>();
            time.ticks += TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
            for thread in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                let nanoseconds = text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                time.scheduled += Duration::from_nanos(nanoseconds);
            }
        }
        Ok(time)
    }

    /// CPU time used since `earlier`. The scheduler's clock is the exact one;
    /// where it misses threads that have ended, or is not there, ticks decide.
    pub(crate) fn since(&self, earlier: &CpuTime) -> Duration {
        let scheduled = self.scheduled.saturating_sub(earlier.scheduled);
        let ticks = self.ticks.saturating_sub(earlier.ticks);
        if ticks > scheduled + 3 * TICK { ticks } else { scheduled }
    }
}

/// Resident memory of `pid` and its children, in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64, String> {
    let mut kilobytes = 0;
    for pid in tree(pid) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        kilobytes += line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
    }
    if kilobytes == 0 { Err(format!("no memory of process {pid} to be seen")) } else { Ok(kilobytes * 1024) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stat_lines_with_odd_names() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4 0 0 0 0 120 30 0 0 20";
        let fields = [PARENT, USER_TICKS, SYSTEM_TICKS].map(|field| stat_field(stat, field));
        assert_eq!(fields, [Some(1), Some(120), Some(30)]);
        assert_eq!(stat_field("", PARENT), None);
    }

    #[test]
    fn sees_this_process() {
        let pid = std::process::id();
        let before = CpuTime::of(pid).unwrap();
        let work = (0..20_000_000u64).fold(0u64, |sum, n| std::hint::black_box(sum ^ n));
        std::hint::black_box(work);
        assert!(CpuTime::of(pid).unwrap().since(&before) > Duration::ZERO);
        assert!(resident(pid).unwrap() > 100_000);
    }

    #[test]
    fn ticks_decide_when_threads_have_ended() {
        let at = |scheduled, ticks| CpuTime {
            scheduled: Duration::from_millis(scheduled),
            ticks: Duration::from_millis(ticks),
        };
        assert_eq!(at(105, 110).since(&at(5, 10)), Duration::from_millis(100));
        assert_eq!(at(50, 110).since(&at(45, 10)), Duration::from_millis(100));
        assert_eq!(at(0, 110).since(&at(45, 10)), Duration::from_millis(100));
    }
}
