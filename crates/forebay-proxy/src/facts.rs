//! From a scanned body to what the Gate needs to know.

use forebay_core::{Priority, RequestFacts};
use forebay_wire::body::Scan;
use http::HeaderMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::registry::Route;

/// Bytes of text per token, on average over languages and code. Only relative
/// sizes matter to the policies that use it.
const BYTES_PER_TOKEN: usize = 4;

/// Facts of one request. Control headers count only when the caller is trusted.
pub(crate) fn of(scan: &Scan, route: &Route, headers: &HeaderMap, trusted: bool) -> RequestFacts {
    let control = |name: &str| if trusted { headers.get(name) } else { None };
    let session = control("x-forebay-session").map(|value| xxh3_64(value.as_bytes()));
    let priority = control("x-forebay-priority").and_then(|v| v.to_str().ok()).and_then(priority);
    let prompt = scan.prompt_bytes.div_ceil(BYTES_PER_TOKEN) + scan.prompt_token_ids;
    // What such requests usually take, unless this one may not take as much.
    let usual = route.usual_output();
    let output = scan.max_output_tokens.map_or(usual, |max| max.min(usual));
    RequestFacts {
        pool: route.pool.id,
        model: route.model_id,
        priority: priority.unwrap_or_default(),
        prompt_tokens: u32::try_from(prompt).unwrap_or(u32::MAX).max(1),
        output_tokens: output.saturating_mul(scan.choices).saturating_mul(scan.prompts.max(1)),
        stream: scan.stream,
        affinity: session.or(scan.user_hash).unwrap_or(scan.prompt_head_hash),
    }
}

fn priority(word: &str) -> Option<Priority> {
    match word.trim() {
        "critical" => Some(Priority::CRITICAL),
        "standard" => Some(Priority::STANDARD),
        "sheddable" => Some(Priority::SHEDDABLE),
        number => number.parse().ok().map(Priority),
    }
}
