//! Step constants of a class, fitted to what its endpoints really do.

mod solve;

use forebay_core::Time;
use serde::{Deserialize, Serialize};

use self::solve::Moments;
use crate::decay::seconds_since;
use crate::{Ewma, StepModel};

/// A first token whose wait was short enough to show the step model itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstTokenSample {
    /// From dispatch to the first token, less the network and adapter load.
    pub observed_ms: f64,
    /// Predicted wait for other prefill and for memory; samples with more than
    /// a tenth of the own prefill are not used.
    pub wait_ms: f64,
    /// Uncached prompt tokens.
    pub uncached: f64,
    /// Cached prompt tokens.
    pub cached: f64,
    /// Streams decoding there at dispatch.
    pub streams: f64,
    /// Tokens of context of those streams.
    pub context: f64,
    /// How many times as slow as its class the endpoint is
    /// ([`Speeds::deviation`](crate::Speeds::deviation), prefill).
    pub deviation: f64,
}

/// Time per token over some steps of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenSample {
    /// Mean time per token of a stream.
    pub observed_ms: f64,
    /// Streams decoding.
    pub streams: f64,
    /// Tokens of context of those streams.
    pub context: f64,
    /// Share of its time that it spent in prefill; samples with more than .3
    /// are not used.
    pub prefill_share: f64,
    /// How many times as slow as its class the endpoint is
    /// ([`Speeds::deviation`](crate::Speeds::deviation), decode).
    pub deviation: f64,
}

/// A class's constants were replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adopted {
    /// The constants to use from now on.
    pub model: StepModel,
    /// How many times as long prefill takes by the new constants; hand it to
    /// [`Speeds::rebase`](crate::Speeds::rebase).
    pub prefill_by: f64,
    /// The same of a decode step as usually seen.
    pub decode_by: f64,
}

/// Fits the constants of a class to observations and, once it is sure that
/// the result predicts better, replaces the preset.
///
/// Unknown are three ratios to the preset, all near 1: of what every step
/// costs (`a`, `e`), of prefill (`b`, `c`) and of context (`d`). Both kinds of
/// sample are linear in them:
///
/// - first token: `ra·(a + e·B)·n + rb·(b·(u + n·B) + c·u·(h + u/2)) + rd·d·K·n`
///   with `n = ⌈u / chunk⌉` steps and half a step more where streams decode;
/// - time per token: `ra·(a + e·B) + rb·b·B + rd·d·K`.
///
/// Least squares on relative residuals, with Huber weights, a ridge towards
/// the preset (a ratio that nothing shows stays 1), and forgetting by amount,
/// in O(1) per sample. A fit is adopted only when the errors of `ra` and `rb`
/// are below a tenth, all ratios are within a factor 8 of the preset, and it
/// predicts the very same samples better by a fifth than the constants in use;
/// it is dropped for the preset when that becomes the better one. An overall
/// factor does not count as better: that is `Speeds`' work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassFit {
    preset: StepModel,
    in_use: StepModel,
    adopted: bool,
    first: Moments,
    token: Moments,
    /// Errors of the preset, of what is in use, and of the fit.
    errors: [Errors; 3],
    usual: Usual,
    checked_ns: u64,
}

/// How far off a set of constants is, apart from an overall factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Errors {
    first: Scatter,
    token: Scatter,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Scatter {
    mean: Ewma,
    around: Ewma,
}

/// The decode batch usually seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Usual {
    streams: Ewma,
    context: Ewma,
}

/// Samples of each kind before anything is concluded.
const ENOUGH: f64 = 60.0;
/// Seconds between two looks at the fit.
const LOOK_S: f64 = 10.0;
/// Largest standard error of a ratio.
const SURE: f64 = 0.1;
/// Largest ratio to the preset, either way.
const FARTHEST: f64 = 8.0;
/// A fit has to scatter less than this share of what the constants in use do.
const BETTER: f64 = 0.8;
/// Constants in use are replaced by a fit when a ratio moved by more than this.
const MOVED: f64 = 0.1;
/// Largest share of prefill in a token sample.
const PREFILL_SHARE: f64 = 0.3;
/// Share of an error mean that is kept at each sample.
const KEEP: f64 = 0.99;

impl ClassFit {
    /// Starts from the preset of a class, which is in use until a fit is better.
    pub fn new(preset: StepModel) -> ClassFit {
        let scatter = Scatter { mean: Ewma::new(KEEP, 0.0, 0.0), around: Ewma::new(KEEP, 0.0, 0.0) };
        ClassFit {
            preset,
            in_use: preset,
            adopted: false,
            first: Moments::default(),
            token: Moments::default(),
            errors: [Errors { first: scatter, token: scatter }; 3],
            usual: Usual { streams: Ewma::new(KEEP, 1.0, 0.0), context: Ewma::new(KEEP, 1000.0, 0.0) },
            checked_ns: 0,
        }
    }

    /// The constants to use now.
    pub fn model(&self) -> &StepModel {
        &self.in_use
    }

    /// True while fitted constants are in use.
    pub fn adopted(&self) -> bool {
        self.adopted
    }

    /// Counts a first token; samples that cannot be used are ignored.
    pub fn first_token(&mut self, sample: &FirstTokenSample) {
        let FirstTokenSample { observed_ms, wait_ms, uncached, cached, streams, context, deviation } =
            *sample;
        if !usable(&[observed_ms, uncached, deviation], &[wait_ms, cached, streams, context]) {
            return;
        }
        if wait_ms > 0.1 * self.in_use.prefill_ms(uncached, cached) {
            return;
        }
        let terms = |m: &StepModel| first_terms(m, uncached, cached, streams, context);
        self.count(terms, observed_ms / deviation, true);
    }

    /// Counts a time per token; samples that cannot be used are ignored.
    pub fn tokens(&mut self, sample: &TokenSample) {
        let TokenSample { observed_ms, streams, context, prefill_share, deviation } = *sample;
        if !usable(&[observed_ms, streams, deviation], &[context, prefill_share])
            || prefill_share > PREFILL_SHARE
        {
            return;
        }
        let terms = |m: &StepModel| [m.a + m.e * streams, m.b * streams, m.d * context];
        self.usual.streams.add(streams);
        self.usual.context.add(context);
        self.count(terms, observed_ms * (1.0 - prefill_share) / deviation, false);
    }

    /// Looks at the fit when ten seconds have passed since it last did, and
    /// says when the constants are replaced (by a fit, or by the preset again).
    pub fn adopt(&mut self, now: Time) -> Option<Adopted> {
        if seconds_since(now, self.checked_ns) < LOOK_S {
            return None;
        }
        self.checked_ns = now.as_nanos();
        if self.first.count() < ENOUGH || self.token.count() < ENOUGH {
            return None;
        }
        let [preset, in_use, fit] = self.errors.map(|e| e.first.around.value() + e.token.around.value());
        if self.adopted && in_use > preset / BETTER {
            self.adopted = false;
            return Some(self.replace(self.preset));
        }
        let (ratios, errors) = Moments::solve(&self.first, &self.token);
        let sure = errors[0] < SURE * ratios[0] && errors[1] < SURE * ratios[1];
        let near = ratios.iter().all(|r| (1.0 / FARTHEST..=FARTHEST).contains(r));
        let model = scaled(&self.preset, &ratios);
        let moved = |new: f64, old: f64| (new - old).abs() > MOVED * old;
        let differs = moved(model.a, self.in_use.a) || moved(model.b, self.in_use.b);
        if sure && near && differs && fit < BETTER * in_use && fit < preset {
            self.adopted = true;
            return Some(self.replace(model));
        }
        None
    }

    fn count(&mut self, terms: impl Fn(&StepModel) -> [f64; 3], observed_ms: f64, first: bool) {
        let (ratios, _) = Moments::solve(&self.first, &self.token);
        let x = terms(&self.preset);
        let models = [self.preset, self.in_use, scaled(&self.preset, &ratios)];
        let moments = if first { &mut self.first } else { &mut self.token };
        if !moments.add(x, observed_ms, &ratios) {
            return;
        }
        for (model, errors) in models.iter().zip(&mut self.errors) {
            let predicted: f64 = terms(model).iter().sum();
            if predicted > 0.0 {
                let scatter = if first { &mut errors.first } else { &mut errors.token };
                scatter.add((observed_ms / predicted).ln());
            }
        }
    }

    fn replace(&mut self, model: StepModel) -> Adopted {
        let (streams, context) = (self.usual.streams.value(), self.usual.context.value());
        let old = std::mem::replace(&mut self.in_use, model);
        self.errors[1] = if self.adopted { self.errors[2] } else { self.errors[0] };
        Adopted {
            model,
            prefill_by: model.b / old.b,
            decode_by: model.step_ms(streams, context) / old.step_ms(streams, context),
        }
    }
}

impl Scatter {
    fn add(&mut self, log_ratio: f64) {
        if log_ratio.is_finite() {
            let residual = log_ratio - self.mean.value();
            self.mean.add(log_ratio);
            self.around.add(residual.abs().min(1.0));
        }
    }
}

fn usable(positive: &[f64], not_negative: &[f64]) -> bool {
    positive.iter().all(|x| x.is_finite() && *x > 0.0 && *x < 1e9)
        && not_negative.iter().all(|x| x.is_finite() && *x >= 0.0 && *x < 1e12)
}

/// Milliseconds of a first token that grow with each of the three ratios.
fn first_terms(m: &StepModel, uncached: f64, cached: f64, streams: f64, context: f64) -> [f64; 3] {
    let running = if streams >= 1.0 { 0.5 } else { 0.0 };
    let steps = (uncached / m.chunk(streams)).ceil() + running;
    [
        (m.a + m.e * streams) * steps,
        m.prefill_ms(uncached, cached) + m.b * streams * steps,
        m.d * context * steps,
    ]
}

fn scaled(preset: &StepModel, ratios: &[f64; 3]) -> StepModel {
    let [ra, rb, rd] = ratios.map(|r| r.clamp(1.0 / FARTHEST, FARTHEST));
    StepModel {
        a: preset.a * ra,
        b: preset.b * rb,
        c: preset.c * rb,
        d: preset.d * rd,
        e: preset.e * ra,
        ..*preset
    }
}

#[cfg(test)]
mod tests;
