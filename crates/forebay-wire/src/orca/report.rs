//! The report itself.

use std::fmt::Write;

/// How many entries each of a report's maps keeps.
pub const MAX_ENTRIES: usize = 16;

/// The longest name of an entry, in bytes; Google Cloud allows 64.
const MAX_NAME: usize = 128;

/// Values above mean nothing in any of the fields.
const MAX_VALUE: f64 = 1e15;

/// What a backend reported. Every value is finite and not negative; `None` is
/// not reported.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OrcaReport {
    /// Share of the CPU in use; above 1 past a soft limit.
    pub cpu_utilization: Option<f64>,
    /// Share of the memory in use, 0 to 1.
    pub mem_utilization: Option<f64>,
    /// The application's own idea of its bottleneck; above 1 when overloaded.
    pub application_utilization: Option<f64>,
    /// Requests per second that the endpoint serves.
    pub rps_fractional: Option<f64>,
    /// Errors per second.
    pub eps: Option<f64>,
    /// Metrics of the application's own, by name.
    pub named: Vec<(String, f64)>,
    /// Shares of the application's resources, 0 to 1, by name.
    pub utilization: Vec<(String, f64)>,
    /// What this one request cost, by name.
    pub request_cost: Vec<(String, f64)>,
}

/// Spellings of a KV cache's usage, 0 to 1: vLLM's, vLLM's until 0.11, Triton's.
const KV_USAGE: [&str; 3] = ["kv_cache_usage_perc", "gpu_cache_usage_perc", "kv_cache_utilization"];

/// Spellings of the number of requests in the engine's queue.
const WAITING: [&str; 2] = ["num_requests_waiting", "num_queue_reqs"];

impl OrcaReport {
    /// Share of the KV memory in use, 0 to 1, where the engine is known to
    /// report it.
    pub fn kv_usage(&self) -> Option<f32> {
        let usage = self.first_of(&KV_USAGE)?;
        (usage <= 1.0).then_some(usage as f32)
    }

    /// Requests in the engine's queue, where the engine is known to report it.
    pub fn waiting(&self) -> Option<u32> {
        let waiting = self.first_of(&WAITING)?;
        (waiting <= f64::from(u32::MAX)).then_some(waiting as u32)
    }

    fn first_of(&self, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| find(&self.named, name).or_else(|| find(&self.utilization, name)))
    }

    /// The utilization that gRPC's A58 takes: the application's when it is
    /// reported, else the largest of `names` (as in [`metric`](Self::metric)),
    /// else the CPU's. Never zero.
    pub fn utilization_for(&self, names: &[&str]) -> Option<f64> {
        let named = || names.iter().filter_map(|name| self.metric(name)).max_by(f64::total_cmp);
        let above_zero = |value: &f64| *value > 0.0;
        self.application_utilization
            .filter(above_zero)
            .or_else(|| named().filter(above_zero))
            .or(self.cpu_utilization.filter(above_zero))
    }

    /// The value that a configuration calls `name`: a field of the message, or
    /// an entry of a map as `named_metrics.NAME` or `utilization.NAME`.
    pub fn metric(&self, name: &str) -> Option<f64> {
        match name.split_once('.') {
            Some(("named_metrics", key)) => find(&self.named, key),
            Some(("utilization", key)) => find(&self.utilization, key),
            Some(("request_cost", key)) => find(&self.request_cost, key),
            _ => match name {
                "cpu_utilization" => self.cpu_utilization,
                "mem_utilization" => self.mem_utilization,
                "application_utilization" => self.application_utilization,
                "rps_fractional" => self.rps_fractional,
                "eps" => self.eps,
                _ => None,
            },
        }
    }

    /// Takes one entry in, under the names of [`metric`](Self::metric).
    /// Returns whether it could be used.
    pub(super) fn add(&mut self, name: &str, value: f64) -> bool {
        match name.split_once('.') {
            Some(("named_metrics", key)) => insert(&mut self.named, key, value),
            Some(("utilization", key)) => insert(&mut self.utilization, key, value),
            Some(("request_cost", key)) => insert(&mut self.request_cost, key, value),
            _ => {
                let place = match name {
                    "cpu_utilization" => &mut self.cpu_utilization,
                    "mem_utilization" => &mut self.mem_utilization,
                    "application_utilization" => &mut self.application_utilization,
                    // The same as a whole number, from before the fraction.
                    "rps_fractional" | "rps" => &mut self.rps_fractional,
                    "eps" => &mut self.eps,
                    _ => return false,
                };
                if !usable(value) {
                    return false;
                }
                if value > 0.0 {
                    *place = Some(place.map_or(value, |known| known.max(value)));
                }
                true
            }
        }
    }

    /// The report as a header value, `TEXT name=value, …`. Entries of which the
    /// name cannot stand there are left out.
    pub fn to_text(&self) -> String {
        let mut text = String::from("TEXT ");
        for name in ["application_utilization", "cpu_utilization", "mem_utilization", "rps_fractional", "eps"]
        {
            if let Some(value) = self.metric(name) {
                push(&mut text, "", name, value);
            }
        }
        for (prefix, map) in [("named_metrics.", &self.named), ("utilization.", &self.utilization)] {
            for (name, value) in map {
                push(&mut text, prefix, name, *value);
            }
        }
        text.truncate(text.trim_end_matches([',', ' ']).len());
        text
    }
}

fn push(text: &mut String, prefix: &str, name: &str, value: f64) {
    let plain = name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b',' | b'=' | b':'));
    if plain && !name.is_empty() && usable(value) {
        // Debug changes to an exponent where Display would write hundreds of digits.
        // A String takes whatever is written.
        let _ = write!(text, "{prefix}{name}={value:?}, ");
    }
}

fn find(map: &[(String, f64)], key: &str) -> Option<f64> {
    map.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
}

fn insert(map: &mut Vec<(String, f64)>, key: &str, value: f64) -> bool {
    if !usable(value) || key.is_empty() || key.len() > MAX_NAME {
        return false;
    }
    if let Some((_, known)) = map.iter_mut().find(|(name, _)| name == key) {
        *known = known.max(value);
        return true;
    }
    let room = map.len() < MAX_ENTRIES;
    if room {
        map.push((key.to_owned(), value));
    }
    room
}

/// False for NaN.
fn usable(value: f64) -> bool {
    (0.0..=MAX_VALUE).contains(&value)
}
