//! What endpoints are asked, and who cannot answer.

use crate::choices::Engine;
use crate::pool::Pool;

pub(super) fn check(pool: &Pool, path: &str, warn: &mut impl FnMut(String, &str)) {
    let silent = matches!(pool.engine, Engine::Ollama | Engine::Openai);
    let somewhere = |i: &crate::pool::Endpoint| i.metrics_url.is_some();
    if !pool.signals.is_empty() && pool.scrape.enabled && silent && !pool.endpoints.iter().any(somewhere) {
        warn(
            format!("{path}.signals"),
            &format!(
                "will stay unknown: engine {} has no metrics page that is known; give the endpoints a metrics_url",
                pool.engine
            ),
        );
    }
    if !pool.scrape.enabled {
        if !pool.signals.is_empty() {
            warn(format!("{path}.signals"), "will stay unknown: scrape.enabled is false");
        }
        if pool.endpoints.iter().any(|endpoint| endpoint.metrics_url.is_some() || endpoint.dcgm_url.is_some())
        {
            warn(
                format!("{path}.scrape.enabled"),
                "is false, but endpoints have a metrics_url or a dcgm_url, which are not asked then",
            );
        }
    }
    if let Some(index) = pool.endpoints.iter().position(|e| !e.gpus.is_empty() && e.dcgm_url.is_none()) {
        warn(format!("{path}.endpoints[{index}].gpus"), "has no effect without dcgm_url");
    }
    for (index, signal) in pool.signals.iter().enumerate() {
        if pool.signals[..index].iter().any(|first| first.signal == signal.signal) {
            warn(format!("{path}.signals"), "has the same metric, labels and combination under two names");
            return;
        }
    }
}
