//! From two kinds of evidence to two factors.

use serde::{Deserialize, Serialize};

use super::signal::Reading;

/// An endpoint is between .25 and 6 times as slow as its class, in logarithms.
const WITHIN_CLASS: (f64, f64) = (-1.386_294_361_119_890_6, 1.791_759_469_228_055);
/// No factor is beyond e¹⁰ ≈ 22,000 either way.
const LARGEST: f64 = 10.0;
/// Of a deviation in prefill, this much is expected in decode while that has
/// no evidence of its own: compute differs more between accelerators than
/// memory bandwidth does (2.9 times and 1.5 times for an A100 beside an H100).
const DECODE_SHARE: f64 = 0.5;

/// Deviation in prefill that is believed although decoding does not deviate: ln 2.2.
const PREFILL_ALONE: f64 = 0.79;

/// Share of a dead band's width inside which a value has to come to be in it again.
const INNER: f64 = 0.6;

/// A log factor held within what an endpoint may differ from its class.
pub(super) fn within_class(log_factor: f64) -> f64 {
    log_factor.clamp(WITHIN_CLASS.0, WITHIN_CLASS.1)
}

/// A dead band that is left at its edge and entered again at .6 of its width,
/// so that a value near the edge does not flip back and forth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Band {
    outside: bool,
}

impl Band {
    /// Follows a value; `half` is half the band's width.
    pub(super) fn follow(&mut self, value: f64, half: f64) {
        let edge = if self.outside { INNER * half } else { half };
        self.outside = value.abs() > edge;
    }

    /// The value outside the band, 0 inside.
    pub(super) fn read(&self, value: f64) -> f64 {
        if self.outside { value } else { 0.0 }
    }

    pub(super) fn outside(&self) -> bool {
        self.outside
    }
}

/// The factors of prefill and decode from what first tokens (`prefill`) and
/// token times (`decode`) say.
pub(super) fn factors(prefill: &Reading, decode: &Reading) -> (f64, f64) {
    let scale_of = |own: &Reading, other: &Reading| {
        own.scale_belief * own.scale + (1.0 - own.scale_belief) * other.scale
    };
    let factor = |scale: f64, deviation: f64| match scale + deviation {
        0.0 => 1.0,
        log => log.clamp(-LARGEST, LARGEST).exp(),
    };
    let (of_prefill, of_decode) = deviations(prefill, decode);
    (factor(scale_of(prefill, decode), of_prefill), factor(scale_of(decode, prefill), of_decode))
}

/// Logarithms of an endpoint's deviations from its class.
///
/// First tokens are few and blurred by the queue, token times are many and
/// sharp. So prefill follows its own evidence where that is clear, else the
/// decode's as far as its own allows; decode follows its own, and half of
/// prefill's while it has none (an endpoint that answers nothing streamed).
pub(super) fn deviations(prefill: &Reading, decode: &Reading) -> (f64, f64) {
    // What slows an accelerator shows in its decoding too. When that is known
    // and says nothing, first tokens alone must say it loudly: they wait in
    // queues, in networks and for busy hosts.
    let contradicted = !decode.deviates && decode.belief >= 0.5 && prefill.deviation.abs() < PREFILL_ALONE;
    let of_prefill = if prefill.deviates && !contradicted {
        prefill.deviation
    } else if decode.deviates {
        let reach = prefill.half / prefill.belief.max(0.05);
        decode.deviation.clamp(prefill.deviation - reach, prefill.deviation + reach)
    } else {
        0.0
    };
    let of_decode = if decode.deviates {
        decode.deviation
    } else if prefill.deviates {
        DECODE_SHARE * (1.0 - decode.belief) * prefill.deviation
    } else {
        0.0
    };
    (within_class(of_prefill + prefill.prior), within_class(of_decode + decode.prior))
}
