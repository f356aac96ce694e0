//! `/v1/embeddings`, `/v1/rerank` and `/v1/score`: requests that compute their
//! prompt and generate nothing. The numbers are made up from the text.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{Names, Plan, limit, prompts, resolve};
use crate::answer::mix;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generation::{Generation, Spec};
use crate::shared::Shared;
use crate::tokens::{content_text, text_tokens};

/// Length of an embedding when the request asks for none.
const DIMENSIONS: u32 = 64;
/// Longest embedding.
const MAX_DIMENSIONS: u32 = 8192;

/// Reads a request for embeddings.
pub(crate) fn embeddings(
    shared: &Arc<Shared>,
    request_id: &str,
    map: &Map<String, Value>,
) -> Result<Plan, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let base64 = match fields.string("encoding_format") {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => {
            fields.complain("literal_error", "encoding_format", "Input should be float or base64");
            false
        }
    };
    let size = limit(&mut fields, "dimensions", 1).unwrap_or(DIMENSIONS).min(MAX_DIMENSIONS);
    let inputs = prompts(&mut fields, "input");
    fields.finish()?;
    let (model, adapter) = resolve(shared, model)?;
    let names = Names::new(request_id, &model);
    let vectors: Vec<String> = inputs.iter().map(|p| vector(p, size, base64)).collect();
    let whole = move |generation: &Generation, _: &[String]| {
        let data: Vec<String> = vectors
            .iter()
            .enumerate()
            .map(|(i, v)| format!(r#"{{"index":{i},"object":"embedding","embedding":{v}}}"#))
            .collect();
        list(&names, "embd-", &data.join(","), generation)
    };
    Ok(plan(inputs, adapter, whole))
}

/// Reads a request to score pairs of texts.
pub(crate) fn score(
    shared: &Arc<Shared>,
    request_id: &str,
    map: &Map<String, Value>,
) -> Result<Plan, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let mut side = |new: &str, old: &str| match fields.get(new) {
        Some(_) => prompts(&mut fields, new),
        None => prompts(&mut fields, old),
    };
    let (left, right) = (side("queries", "text_1"), side("documents", "text_2"));
    fields.finish()?;
    let (model, adapter) = resolve(shared, model)?;
    let names = Names::new(request_id, &model);
    let pairs: Vec<(Vec<u32>, f64)> = right
        .iter()
        .enumerate()
        .filter_map(|(i, text)| {
            let query = left.get(if left.len() == 1 { 0 } else { i })?;
            Some((pair(query, text), similarity(query, text)))
        })
        .collect();
    let (prompts, scores): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let whole = move |generation: &Generation, _: &[String]| {
        let data: Vec<String> = scores
            .iter()
            .enumerate()
            .map(|(i, score)| format!(r#"{{"index":{i},"object":"score","score":{score:?}}}"#))
            .collect();
        list(&names, "score-", &data.join(","), generation)
    };
    Ok(plan(prompts, adapter, whole))
}

/// Reads a request to order documents by a query.
pub(crate) fn rerank(
    shared: &Arc<Shared>,
    request_id: &str,
    map: &Map<String, Value>,
) -> Result<Plan, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let query = fields.string("query");
    if query.is_none() && fields.get("query").is_none() {
        fields.missing("query");
    }
    let documents: Vec<String> =
        fields.required_list("documents").iter().map(|d| content_text(Some(d))).collect();
    let top = limit(&mut fields, "top_n", 0).filter(|n| *n > 0).map_or(usize::MAX, |n| n as usize);
    fields.finish()?;
    let (model, adapter) = resolve(shared, model)?;
    let names = Names::new(request_id, &model);
    let query = text_tokens(query.unwrap_or_default().as_bytes());
    let mut prompts = Vec::with_capacity(documents.len());
    let mut results = Vec::with_capacity(documents.len());
    for (index, text) in documents.into_iter().enumerate() {
        let tokens = text_tokens(text.as_bytes());
        prompts.push(pair(&query, &tokens));
        let score = similarity(&query, &tokens);
        let result =
            json!({"index": index, "document": {"text": text}, "relevance_score": score}).to_string();
        results.push((score, result));
    }
    results.sort_by(|a, b| b.0.total_cmp(&a.0));
    results.truncate(top);
    let whole = move |generation: &Generation, _: &[String]| {
        let results: Vec<String> = results.into_iter().map(|(_, result)| result).collect();
        format!(
            r#"{{"id":{},"model":{},"usage":{{"prompt_tokens":{n},"total_tokens":{n}}},"results":[{}]}}"#,
            names.id("rerank-"),
            names.model,
            results.join(","),
            n = generation.tokens().prompt
        )
    };
    Ok(plan(prompts, adapter, whole))
}

fn plan(
    prompts: Vec<Vec<u32>>,
    adapter: Option<String>,
    whole: impl FnOnce(&Generation, &[String]) -> String + Send + 'static,
) -> Plan {
    let spec = Spec { prompts, n: 1, adapter, prefill_only: true, ..Spec::default() };
    Plan { spec, stream: None, whole: Box::new(whole) }
}

fn list(names: &Names, prefix: &str, data: &str, generation: &Generation) -> String {
    let n = generation.tokens().prompt;
    format!(
        r#"{{"id":{},"object":"list","created":{},"model":{},"data":[{data}],"usage":{{"prompt_tokens":{n},"total_tokens":{n},"completion_tokens":0,"prompt_tokens_details":null}}}}"#,
        names.id(prefix),
        names.created,
        names.model
    )
}

fn pair(query: &[u32], text: &[u32]) -> Vec<u32> {
    query.iter().chain(text).copied().collect()
}

/// Share of the text's tokens that are in the query too: a stand-in for meaning.
fn similarity(query: &[u32], text: &[u32]) -> f64 {
    let hits = text.iter().filter(|t| query.contains(t)).count();
    hits as f64 / text.len().max(1) as f64
}

/// A unit vector that follows from the tokens, as JSON.
fn vector(tokens: &[u32], size: u32, base64: bool) -> String {
    let bytes: Vec<u8> = tokens.iter().flat_map(|t| t.to_le_bytes()).collect();
    let seed = xxh3_64(&bytes);
    let raw =
        (0..size).map(|i| (mix(seed.wrapping_add(u64::from(i))) >> 40) as f32 / (1u32 << 23) as f32 - 1.0);
    let raw: Vec<f32> = raw.collect();
    let norm = raw.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    let unit: Vec<f32> = raw.iter().map(|x| x / norm).collect();
    if base64 {
        let bytes: Vec<u8> = unit.iter().flat_map(|x| x.to_le_bytes()).collect();
        return format!("\"{}\"", encode_base64(&bytes));
    }
    let numbers: Vec<String> = unit.iter().map(|x| format!("{x:?}")).collect();
    format!("[{}]", numbers.join(","))
}

/// Standard base64 with padding.
fn encode_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            match digit <= group.len() {
                true => out.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63])),
                false => out.push('='),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_the_rfc_vectors() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode_base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn vectors_are_of_unit_length_and_follow_from_the_text() {
        let parse = |s: &str| serde_json::from_str::<Vec<f64>>(s).unwrap();
        let a = parse(&vector(&[1, 2, 3], 64, false));
        assert_eq!(a.len(), 64);
        assert!((a.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-3);
        assert_eq!(a, parse(&vector(&[1, 2, 3], 64, false)));
        assert_ne!(a, parse(&vector(&[1, 2, 4], 64, false)));
    }
}
