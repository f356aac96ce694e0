//! What restored entries are worth, until answers tell.

use forebay_core::Time;

use super::Writer;
use crate::store::{Owner, SURE, Store};

/// Below this, restored entries are not worth keeping.
const WORTHLESS: f64 = 0.05;
/// Above this, they are as good as any.
const PROVEN: f64 = 0.95;

impl Writer {
    /// An answer confirmed or contradicted what was expected of the lane.
    pub(super) fn judge(&mut self, store: &Store, lane: u16, cached: usize, predicted: usize) {
        let state = &mut self.lanes[usize::from(lane)];
        if state.restored_blocks > 0 && predicted > 0 {
            if cached >= predicted {
                state.confidence = 1.0 - (1.0 - state.confidence) / 2.0;
            } else {
                state.confidence *= 0.5 + 0.5 * cached as f64 / predicted as f64;
            }
            if state.confidence > PROVEN {
                state.confidence = 1.0;
            }
        }
        self.publish_confidence(store, lane);
    }

    /// What all entries of the lane are worth together: restored ones their
    /// confidence, the others 1.
    pub(crate) fn worth(&self, lane: u16) -> f64 {
        let state = &self.lanes[usize::from(lane)];
        if state.restored_blocks == 0 {
            return 1.0;
        }
        let share = f64::from(state.restored_blocks) / f64::from(state.committed_blocks.max(1));
        1.0 - (1.0 - state.confidence) * share.min(1.0)
    }

    /// Tells readers what the lane's entries are worth now.
    pub(super) fn publish_confidence(&mut self, store: &Store, lane: u16) {
        let worth = (self.worth(lane) * f64::from(SURE)).round() as u16;
        if let Some(endpoint) = self.lanes[usize::from(lane)].endpoint
            && store.lanes.owner(lane).is_some_and(|owner| owner.confidence != worth)
        {
            store.lanes.set_owner(lane, Some(Owner { endpoint, confidence: worth }));
        }
    }

    /// Lets confidence fade that nothing has confirmed; entries that are worth
    /// next to nothing are taken back.
    pub(crate) fn fade(&mut self, store: &Store, now: Time) {
        let half_life = self.config.restored_half_life.as_secs_f64().max(1e-3);
        for lane in 0..self.lanes.len() as u16 {
            let state = &mut self.lanes[usize::from(lane)];
            if state.restored_blocks == 0 || state.endpoint.is_none() {
                continue;
            }
            let passed = now.since(state.faded.unwrap_or(now)).as_secs_f64();
            state.faded = Some(now);
            if state.confidence < 1.0 {
                state.confidence *= (-passed / half_life).exp2();
            }
            if state.confidence < WORTHLESS {
                self.uncommit_restored(store, lane);
            }
            self.publish_confidence(store, lane);
        }
    }
}
