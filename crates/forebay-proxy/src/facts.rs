//! From a scanned body to what the Gate needs to know.

use std::sync::Arc;

use bytes::Bytes;
use forebay_core::{Prefix, Priority, RequestFacts, Slo, TenantId};
use forebay_prefix::{Kind, chain, seed, token_blocks};
use forebay_wire::body::{Api, BLOCK_BYTES, Scan, token_ids};
use http::HeaderMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::model_route::Route;
use crate::tokens::PromptTokens;

/// Hash of the session that a request names: the header of a trusted caller,
/// else the body's `user`.
pub(crate) fn session(scan: &Scan, headers: &HeaderMap, trusted: bool) -> Option<u64> {
    let header = if trusted { headers.get("x-forebay-session") } else { None };
    header.map(|value| xxh3_64(value.as_bytes())).or(scan.user_hash)
}

/// Answers that are generated token by token: choices of each prompt; 0 where
/// what is asked for takes no decoding, whatever its usage says.
pub(crate) fn answers(scan: &Scan, api: Api) -> u32 {
    match api {
        Api::Embeddings
        | Api::Rerank
        | Api::Score
        | Api::Pooling
        | Api::Moderations
        | Api::CountTokens
        | Api::Images => 0,
        Api::Chat | Api::Completions | Api::Responses | Api::Messages | Api::Audio | Api::Other => {
            scan.choices.max(1).saturating_mul(scan.prompts.max(1))
        }
    }
}

/// Facts of one request. Control headers count only when the caller is trusted.
pub(crate) fn of(
    scan: &Scan,
    api: Api,
    body: &[u8],
    route: &Route,
    headers: &HeaderMap,
    trusted: bool,
) -> RequestFacts {
    let control = |name: &str| if trusted { headers.get(name) } else { None };
    let session = session(scan, headers, trusted);
    let priority = control("x-forebay-priority").and_then(|v| v.to_str().ok()).and_then(priority);
    let limit = |name: &str, usual: f32| {
        let asked = control(name).and_then(|v| v.to_str().ok()?.trim().parse::<f32>().ok());
        Some(asked.filter(|ms| ms.is_finite() && *ms > 0.0).unwrap_or(usual))
    };
    let slo = &route.pool.slo;
    let ms = |d: std::time::Duration| d.as_secs_f32() * 1e3;
    let prefix = exact_prefix(scan, body, route).unwrap_or_else(|| text_prefix(scan, route));
    let ratio = &route.pool.bytes_per_token;
    let bytes_per_token = if prefix.exact { ratio.mean() } else { ratio.of(&prefix.chain) };
    // What such requests usually take, unless this one may not take as much.
    let tenant = TenantId::default();
    let usual = (route.usual_output(tenant).round() as u32).max(1);
    let output = scan.max_output_tokens.map_or(usual, |max| max.min(usual));
    RequestFacts {
        pool: route.pool.id,
        model: route.model_id,
        adapter: route.adapter_id(),
        version: route.version,
        tenant,
        priority: priority.unwrap_or_default(),
        slo: Slo {
            ttft_ms: limit("x-forebay-slo-ttft-ms", ms(slo.ttft)),
            tpot_ms: limit("x-forebay-slo-tpot-ms", ms(slo.tpot)),
        },
        prompt_tokens: prompt_tokens(scan, bytes_per_token),
        output_tokens: output.saturating_mul(answers(scan, api)).max(1),
        stream: scan.stream,
        affinity: session.unwrap_or(scan.prompt_head_hash),
        session,
        prefix,
        costs: Vec::new(),
    }
}

/// Token ids count themselves; text is measured by what its tokens usually are.
fn prompt_tokens(scan: &Scan, bytes_per_token: f32) -> u32 {
    let text = if scan.prompts > 1 { scan.prompt_bytes } else { scan.rendered_bytes };
    let text = text.saturating_sub(scan.prompt_token_ids * 4) as f32 / bytes_per_token;
    u32::try_from(text.ceil() as usize + scan.prompt_token_ids).unwrap_or(u32::MAX).max(1)
}

/// Token ids in the prefix index, where engines tell of theirs.
fn exact_prefix(scan: &Scan, body: &[u8], route: &Route) -> Option<Prefix> {
    let block = route.pool.token_block()?;
    let ids = token_ids(body, scan.token_ids_span.clone()?)?;
    Some(token_prefix(&ids, block, scan.cache_salt, route))
}

/// Finds the prompt as its engine's own tokens instead of as text, where that
/// can be told in time. Returns how many they are; 0 when it cannot.
pub(crate) async fn render(
    facts: &mut RequestFacts,
    tokens: &Arc<dyn PromptTokens>,
    scan: &Scan,
    body: Bytes,
    api: Api,
    route: &Route,
) -> u32 {
    if scan.prompts > 1 || !matches!(api, Api::Chat | Api::Completions) {
        return 0;
    }
    let Some(ids) = tokens.tokens(body, api).await else { return 0 };
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    facts.prompt_tokens = count.max(1);
    // Where engines tell of their caches, blocks are theirs; until one has
    // shown them the text is as good.
    if let Some(block) = route.pool.token_block() {
        facts.prefix = token_prefix(&ids, block, scan.cache_salt, route);
    }
    count
}

/// Token ids as the prefix index has them.
pub(crate) fn token_prefix(ids: &[u32], block: u32, salt: Option<u64>, route: &Route) -> Prefix {
    let (model, adapter) = route.names();
    Prefix {
        chain: chain(seed(model, adapter, salt, Kind::Tokens), &token_blocks(ids, block as usize)),
        block_tokens: block as f32,
        exact: true,
        matches: Vec::new(),
    }
}

/// The prompt's text in the prefix index.
fn text_prefix(scan: &Scan, route: &Route) -> Prefix {
    if scan.text_blocks.is_empty() {
        return Prefix::default();
    }
    let (model, adapter) = route.names();
    let chain = chain(seed(model, adapter, scan.cache_salt, Kind::Text), &scan.text_blocks);
    // Of token ids four bytes are one token.
    let bytes_per_token = if scan.prompt_token_ids > 0 { 4.0 } else { route.pool.bytes_per_token.of(&chain) };
    Prefix { chain, block_tokens: BLOCK_BYTES as f32 / bytes_per_token, exact: false, matches: Vec::new() }
}

fn priority(word: &str) -> Option<Priority> {
    match word.trim() {
        "critical" => Some(Priority::CRITICAL),
        "standard" => Some(Priority::STANDARD),
        "sheddable" => Some(Priority::SHEDDABLE),
        number => number.parse().ok().map(Priority),
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::{Config, Pool};
    use forebay_core::TenantId;
    use forebay_metrics::Metrics;
    use forebay_wire::body::scan_json;

    use super::*;
    use crate::registry::RegistryBuilder;

    fn expected(api: Api, body: &str, usual: u64) -> u32 {
        let config = Config { pools: vec![Pool::new("chat", "tide-7b")], ..Config::default() };
        let route = RegistryBuilder::build(&config, &Metrics::new("0"), 0).route("tide-7b", 0).unwrap();
        for _ in 0..2000 {
            route.learn_output(TenantId(0), usual, 1);
        }
        let scan = scan_json(api, body.as_bytes()).unwrap();
        of(&scan, api, body.as_bytes(), &route, &HeaderMap::new(), false).output_tokens
    }

    #[test]
    fn output_is_expected_of_each_choice_of_each_prompt() {
        let chat = |more: &str| {
            format!(r#"{{"model":"tide-7b",{more}"messages":[{{"role":"user","content":"hi"}}]}}"#)
        };
        assert_eq!(expected(Api::Chat, &chat(""), 100), 100);
        assert_eq!(expected(Api::Chat, &chat("\"n\":4,"), 100), 400);
        assert_eq!(expected(Api::Chat, &chat("\"max_tokens\":10,\"n\":4,"), 100), 40);
        let two = r#"{"model":"tide-7b","prompt":["a","b"],"n":2}"#;
        assert_eq!(expected(Api::Completions, two, 50), 200);
    }

    #[test]
    fn nothing_is_decoded_for_embeddings() {
        let inputs = r#"{"model":"tide-7b","input":["a","b","c"]}"#;
        assert_eq!(expected(Api::Embeddings, inputs, 100), 1);
        let count = r#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}]}"#;
        assert_eq!(expected(Api::CountTokens, count, 100), 1);
    }
}
