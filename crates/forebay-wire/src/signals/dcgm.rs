//! NVIDIA's DCGM exporter, one page for all GPUs of a node.

use super::{
    Gpu,
    figure::Figure,
    sources::Join::{self, Max, Mean, Min, Sum},
};
use crate::prom::{self, NameFilter, Sample};

/// Names, how several GPUs become one, and the largest value that can be true.
/// DCGM writes values of about 2^31 and 2^63 for what it does not know.
const FIGURES: [(&str, Join, f64); 4] = [
    // Percent.
    ("DCGM_FI_DEV_GPU_UTIL", Mean, 100.0),
    ("DCGM_FI_DEV_GPU_TEMP", Max, 200.0),
    ("DCGM_FI_DEV_POWER_USAGE", Sum, 1e5),
    // The slowest sets the pace of all that work together.
    ("DCGM_FI_DEV_SM_CLOCK", Min, 1e5),
];

/// Two names of one bit mask: DCGM 3.3 renamed it.
const REASONS: [&str; 2] = ["DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"];
const REASONS_MAX: f64 = (1 << 20) as f64;

/// Labels by which a GPU can be meant.
const IDS: [&str; 4] = ["gpu", "UUID", "device", "pod"];

/// The figures of the GPUs in `gpus`, each named by the exporter's `gpu`,
/// `UUID`, `device` or `pod` label, or of all on the page: mean utilisation,
/// highest temperature, the throttle reasons of any, summed power, lowest
/// clock. A figure that one of them states as nonsense is unknown.
pub fn read_dcgm(page: &[u8], gpus: Option<&[&str]>) -> Gpu {
    let filter = NameFilter::new(FIGURES.iter().map(|(name, ..)| *name).chain(REASONS));
    let mut figures = [Figure::default(); FIGURES.len()];
    let mut reasons = Some(0);
    let mut reasons_met = false;
    let chosen = |sample: &Sample<'_>| {
        gpus.is_none_or(|gpus| {
            sample.labels.iter().any(|(name, value)| IDS.contains(&name) && gpus.contains(&&*value))
        })
    };
    prom::read_found(
        page,
        &filter,
        |name| {
            let figure = FIGURES.iter().position(|(known, ..)| *known == name);
            figure.or_else(|| REASONS.contains(&name).then_some(FIGURES.len()))
        },
        |at, sample| {
            if sample.is_some_and(|sample| !chosen(&sample)) {
                return;
            }
            let value = sample.map(|sample| sample.value);
            match FIGURES.get(at) {
                Some((_, join, max)) => {
                    let value = value.filter(|v| (0.0..=*max).contains(v));
                    figures[at].add(value, true, *join);
                }
                None => {
                    reasons_met = true;
                    let bits = value.filter(|v| (0.0..=REASONS_MAX).contains(v)).map(|v| v as u64);
                    reasons = reasons.zip(bits).map(|(known, bits)| known | bits);
                }
            }
        },
    );
    let mut values = figures.iter().zip(FIGURES);
    let mut next = || values.next().and_then(|(figure, (_, join, _))| figure.get(false, join).flatten());
    Gpu {
        utilization: next().map(|percent| (percent / 100.0) as f32),
        temperature_c: next().map(|v| v as f32),
        power_w: next().map(|v| v as f32),
        sm_clock_mhz: next().map(|v| v as f32),
        throttle: reasons.filter(|_| reasons_met),
    }
}
