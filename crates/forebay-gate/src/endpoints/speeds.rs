//! What is learned of endpoints' speeds, and the constants that follow from it.

use std::time::Duration;

use forebay_core::Time;
use forebay_predict::{FirstTokenSample, Predicted, TokenSample};

use super::{Endpoints, FirstTokens};

/// Learned speeds settle over seconds; every row is brought up to date this often.
const REFRESH: Duration = Duration::from_millis(250);
/// A report of others' load loses half its weight in this time.
const FOREIGN_HALF_LIFE_S: f32 = 5.0;

impl Endpoints {
    /// When every row was last brought up to date.
    pub(crate) fn refreshed(&self) -> Time {
        self.refreshed
    }

    /// Learns from a first token of a request with so many tokens to compute
    /// and so many held, sent when so many streams had so much context.
    pub(crate) fn learn_first_token(
        &mut self,
        slot: u32,
        observed_ms: f64,
        predicted: Predicted,
        met: FirstTokens,
        now: Time,
    ) {
        if self.member[slot as usize] && !self.no_learning {
            let deviation = self.speeds.deviation(slot).0;
            self.fits[usize::from(self.class[slot as usize])].first_token(&FirstTokenSample {
                observed_ms: observed_ms - predicted.fixed_ms,
                wait_ms: predicted.wait_ms,
                uncached: f64::from(met.uncached),
                cached: f64::from(met.cached),
                streams: f64::from(met.streams),
                context: f64::from(met.context),
                deviation,
            });
            self.speeds.first_token(slot, observed_ms, predicted, now);
            self.refresh_row(slot);
        }
    }

    /// Learns from an answer that came whole, of which so much was expected
    /// after its first token at the class's own speed.
    pub(crate) fn learn_answer(
        &mut self,
        slot: u32,
        observed_ms: f64,
        predicted: Predicted,
        decode_ms: f64,
        now: Time,
    ) {
        if self.member[slot as usize] && !self.no_learning {
            // Shows with the next refresh, in all rows at once: an endpoint whose
            // row alone had the new scale of its class would be sent everything.
            self.speeds.answer(slot, observed_ms, predicted, decode_ms, now);
        }
    }

    /// Learns from the time between tokens while the endpoint only decoded.
    pub(crate) fn learn_tokens(&mut self, slot: u32, observed_ms: f64, tokens: u32, now: Time) {
        let i = slot as usize;
        if self.member[i] && !self.no_learning {
            let row = &self.rows[i];
            let (streams, context) = (f64::from(row.all_streams()), f64::from(row.all_context()));
            let class = usize::from(self.class[i]);
            let predicted_ms = self.models[class].step_ms(streams, context);
            let deviation = self.speeds.deviation(slot).1;
            let sample = TokenSample { observed_ms, streams, context, prefill_share: 0.0, deviation };
            self.fits[class].tokens(&sample);
            self.speeds.tokens(slot, observed_ms, predicted_ms, f64::from(tokens), now);
            self.refresh_row(slot);
        }
    }

    /// Brings the cached constants of every row up to date, when that is due.
    pub(crate) fn refresh(&mut self, now: Time) {
        if now.since(self.refreshed) < REFRESH {
            return;
        }
        let seconds = now.since(self.refreshed).as_secs_f32();
        self.refreshed = now;
        self.speeds.refresh(now);
        self.adopt(now);
        // Reports fade: what was true of others' load need not be so any more.
        let fade = (-seconds * std::f32::consts::LN_2 / FOREIGN_HALF_LIFE_S).exp();
        for slot in 0..self.rows.len() as u32 {
            let i = slot as usize;
            if !self.member[i] {
                continue;
            }
            let fresh = self.report[i].is_some_and(|report| now.since(report.at) < 2 * REFRESH);
            self.rows[i].pass(now);
            if !fresh {
                self.rows[i].fade_foreign(fade);
            }
            self.refresh_row(slot);
        }
    }

    /// Takes over step constants that fit a class better than those it had.
    fn adopt(&mut self, now: Time) {
        for class in 0..self.fits.len() {
            if let Some(adopted) = self.fits[class].adopt(now) {
                self.models[class] = adopted.model;
                self.speeds.rebase(class as u16, adopted.prefill_by, adopted.decode_by);
            }
        }
    }

    pub(super) fn refresh_row(&mut self, slot: u32) {
        let i = slot as usize;
        let model = &self.models[usize::from(self.class[i])];
        let (prefill, decode) = (self.speeds.prefill(slot), self.speeds.decode(slot));
        let row = &mut self.rows[i];
        row.prefill_factor = prefill as f32;
        row.decode_factor = decode as f32;
        row.step = (model.a * decode) as f32;
        row.per_stream = ((model.b + model.e) * decode) as f32;
        row.per_context = (model.d * decode) as f32;
        row.per_token = (model.b * prefill) as f32;
        row.per_pair = (model.c * prefill) as f32;
        row.budget = model.budget as f32;
        if row.inverse_memory == 0.0 {
            row.inverse_memory = (1.0 / model.cap.max(1.0)) as f32;
        }
    }
}
