//! The soonest end of what is pending.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::cost::{self, LANES};
use super::predictive::{block_of, common};
use super::{Pick, Policy, View, WORK_PER_OUTPUT_TOKEN, argmin};
use crate::peers::PeerLoad;
use crate::policy_kind::PolicyKind;
use crate::row::Row;

/// Streams that share a decode step while an endpoint works its queue off.
/// A token there takes its own part of a step and this share of the rest.
const STREAMS_PER_STEP: f32 = 60.0;

/// The candidate that would be done first with all that is pending there once
/// this request is: the least
///
/// `(T̂ + r · g) / ramp`
///
/// where `T̂` is the predicted time to this request's first token, that is the
/// prefill owed there, the wait for memory, its own prefill of what is not held
/// and the way (see `cost`); `r` the output tokens that the requests in flight
/// still lack, by their estimates less what has come out; and `g` the engine's
/// time for one of them at the endpoint's learned speed in a full batch,
/// `step/60 + per stream + per context token · mean context`. Over all
/// candidates; a few stale gateways would herd on the best, one does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeastQueue {
    /// Scores in the order of the candidates; empty but during a pick.
    scores: Vec<f64>,
}

/// Output tokens that the requests in flight still lack.
///
/// Work counts the prompts of those that have no first token yet as well;
/// theirs are taken to be as long as those of the others.
fn tokens_left(row: &Row, peer: &PeerLoad, usual_output: f32) -> f32 {
    let left = |requests: u32, streams: u32, context: u64, work: u64| {
        let waiting = requests.saturating_sub(streams) as f32 / requests.max(1) as f32;
        (work as f32 - context as f32 * waiting).max(0.0) / WORK_PER_OUTPUT_TOKEN as f32
    };
    let ours = left(row.requests, row.streams, row.context, row.work)
        + left(peer.requests, peer.streams, peer.context, peer.work);
    // Of others' requests only the number is known; they are half done on average.
    ours + row.foreign_requests * usual_output * 0.5
}

impl Policy for LeastQueue {
    fn kind(&self) -> PolicyKind {
        PolicyKind::LeastQueue
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        let weights = view.config.weights();
        let (common, decay) = (common(view, &weights, 0.0), view.endpoints.decay(view.now));
        for slots in view.candidates.chunks(LANES) {
            let block = block_of(view, slots, decay);
            let priced = cost::price(&block, &common, view.learned.classes(), &weights);
            for (lane, &slot) in slots.iter().enumerate() {
                let row = view.endpoints.row(slot);
                let context = (view.endpoints.all_context(slot) + common.prompt)
                    / (view.endpoints.all_requests(slot) + 1.0);
                let per_token = row.step / STREAMS_PER_STEP + row.per_stream + row.per_context * context;
                let end = priced.ttft[lane]
                    + block.extra[lane]
                    + tokens_left(row, &view.endpoints.peer(slot), common.usual_output) * per_token;
                self.scores.push(f64::from(end) / view.ramp(slot));
            }
        }
        let mut scores = self.scores.drain(..);
        argmin(view.candidates, rng, |_| scores.next().unwrap_or(f64::INFINITY))
    }
}

#[cfg(test)]
#[path = "least_queue_tests.rs"]
mod tests;
