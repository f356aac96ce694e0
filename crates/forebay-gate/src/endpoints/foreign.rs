//! What others than this gateway and its peers have at an endpoint: what its
//! report counts beyond what they sent.

use forebay_core::LoadReport;

use super::Endpoints;

/// A report is some milliseconds old and counts what has changed since: it
/// moves the estimate half the way.
const GAIN: f32 = 0.5;
/// Fewer requests than that are none.
const NONE: f32 = 0.05;

impl Endpoints {
    /// Takes in how much of a report is others' load.
    ///
    /// It can count requests of ours that have ended since: the larger of our
    /// count now and then is taken off. Of what the engine's queue holds, ours
    /// are taken to be those without a first token. Others that wait owe their
    /// prefill: their part of what the report says, else as much as ours
    /// usually need.
    pub(super) fn learn_foreign(&mut self, slot: u32, report: &LoadReport) {
        let (Some(running), waiting) = (report.running, report.waiting.unwrap_or(0)) else { return };
        let peers = self.peer(slot);
        let model = &self.models[usize::from(self.class[slot as usize])];
        let row = &mut self.rows[slot as usize];
        let ours = row.requests.max(row.reported_requests).saturating_add(peers.requests);
        row.reported_requests = row.requests;
        let others = running.saturating_add(waiting).saturating_sub(ours);
        let memory = match (report.kv_usage, row.inverse_memory > 0.0) {
            (Some(usage), true) => {
                (usage / row.inverse_memory - row.context.saturating_add(peers.context) as f32).max(0.0)
            }
            _ => 0.0,
        };
        let tokens = if others > 0 { memory } else { 0.0 };
        let begun = row.streams.saturating_add(peers.streams);
        let waits = waiting.saturating_sub(ours.saturating_sub(begun)).min(others);
        let owed_ms = match report.waiting_tokens {
            _ if waits == 0 => 0.0,
            Some(tokens) => {
                let each = tokens as f64 / f64::from(waiting);
                model.prefill_ms(each, 0.0) * f64::from(waits)
            }
            None => self.usual_prefill_ms.value() * f64::from(waits),
        };
        row.foreign_requests += (others as f32 - row.foreign_requests) * GAIN;
        row.foreign_waiting += (waits as f32 - row.foreign_waiting) * GAIN;
        row.foreign_owed_ms += (owed_ms.min(1e9) as f32 - row.foreign_owed_ms) * GAIN;
        row.foreign_tokens += (tokens - row.foreign_tokens) * GAIN;
        if row.foreign_requests < NONE {
            row.fade_foreign(0.0);
        }
    }
}

#[cfg(test)]
#[path = "foreign_tests.rs"]
mod tests;
