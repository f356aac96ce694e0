//! NVIDIA's DCGM exporter, one page for all GPUs of a node.

use super::Gpu;
use crate::prom;

/// The figures of the GPUs in `gpus` (by the exporter's `gpu` or `UUID` label),
/// or of all on the page: mean utilisation, highest temperature, all throttle
/// reasons, summed power, lowest clock.
pub fn read_dcgm(page: &[u8], gpus: Option<&[&str]>) -> Gpu {
    let mut gpu = Gpu::default();
    prom::read_named(
        page,
        |name| name == "DCGM_FI_DEV_GPU_TEMP",
        |sample| {
            let chosen = gpus.is_none_or(|gpus| {
                [sample.label("gpu"), sample.label("UUID")]
                    .into_iter()
                    .flatten()
                    .any(|id| gpus.contains(&&*id))
            });
            if chosen && (0.0..200.0).contains(&sample.value) {
                gpu.temperature_c = Some(gpu.temperature_c.unwrap_or(0.0).max(sample.value as f32));
            }
        },
    );
    gpu
}
