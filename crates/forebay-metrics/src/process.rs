//! What the operating system says of this process.

use crate::cells::FloatCell;

/// One reading; a figure that the system does not give is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessStats {
    /// User and system CPU time since the start, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<f64>,
    /// Virtual memory, in bytes.
    pub virtual_bytes: Option<f64>,
    /// Open file descriptors.
    pub open_fds: Option<f64>,
    /// Limit of open file descriptors.
    pub max_fds: Option<f64>,
    /// When the process started, in seconds since the Unix epoch.
    pub start_time_seconds: Option<f64>,
}

#[derive(Default)]
pub(crate) struct ProcessSeries {
    pub(crate) cpu_seconds: FloatCell,
    pub(crate) resident_bytes: FloatCell,
    pub(crate) virtual_bytes: FloatCell,
    pub(crate) open_fds: FloatCell,
    pub(crate) max_fds: FloatCell,
    pub(crate) start_time_seconds: FloatCell,
}

impl ProcessSeries {
    pub(crate) fn set(&self, stats: ProcessStats) {
        self.cpu_seconds.set(stats.cpu_seconds);
        self.resident_bytes.set(stats.resident_bytes);
        self.virtual_bytes.set(stats.virtual_bytes);
        self.open_fds.set(stats.open_fds);
        self.max_fds.set(stats.max_fds);
        self.start_time_seconds.set(stats.start_time_seconds);
    }
}
