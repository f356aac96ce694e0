//! What must hold for every request body.

use forebay_wire::body::{Api, BodyError, Scan, scan_json, scan_multipart, splice_model};
use serde_json::Value;

const APIS: [Api; 13] = [
    Api::Chat,
    Api::Completions,
    Api::Responses,
    Api::Embeddings,
    Api::Messages,
    Api::CountTokens,
    Api::Rerank,
    Api::Score,
    Api::Pooling,
    Api::Images,
    Api::Audio,
    Api::Moderations,
    Api::Other,
];

/// Panics when a scan of `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    for api in APIS {
        match scan_json(api, data) {
            Ok(scan) => accepted(data, &scan),
            Err(BodyError::NotJson { what, .. }) => {
                assert!(!is_json(data) || what.starts_with("nesting"), "{what}: {}", data.escape_ascii());
            }
            // Missing fields are found at the end, when all has been checked.
            Err(BodyError::Missing(_)) => assert!(is_json(data), "{}", data.escape_ascii()),
            Err(_) => {}
        }
    }
    let boundary = data.split(|&b| b == b'\n').next().unwrap_or_default();
    let boundary = String::from_utf8_lossy(boundary.strip_prefix(b"--").unwrap_or(boundary));
    let content_type = format!("multipart/form-data; boundary=\"{}\"", boundary.trim_end());
    if let Ok(scan) = scan_multipart(&content_type, data) {
        assert_eq!(&data[scan.model_span.clone()], scan.model.as_bytes());
        let again = scan_multipart(&content_type, &splice_model(data, &scan, "other")).expect("still a form");
        assert_eq!(again.model, "other");
    }
}

fn is_json(data: &[u8]) -> bool {
    // Ignoring the values leaves nothing but the grammar to be checked.
    std::str::from_utf8(data).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

fn accepted(data: &[u8], scan: &Scan) {
    assert!(is_json(data), "{}", data.escape_ascii());
    assert!(!scan.model.is_empty() && scan.choices >= 1 && scan.prompts >= 1);
    assert!(scan.prompt_bytes <= data.len() && scan.prompt_token_ids <= data.len());
    // A tree cannot hold lone surrogates, huge numbers and deep nesting.
    let Ok(tree) = serde_json::from_slice::<Value>(data) else { return };
    assert_eq!(tree["model"], scan.model.as_str());
    assert_eq!(tree["stream"].as_bool().unwrap_or(false), scan.stream);
    let spliced = splice_model(data, scan, "a \"new\" one\n");
    let mut expected = tree;
    expected["model"] = Value::from("a \"new\" one\n");
    assert_eq!(serde_json::from_slice::<Value>(&spliced).expect("still JSON"), expected);
}
