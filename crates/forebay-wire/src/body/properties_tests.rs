//! Properties of the body scan, against serde_json.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

pub(super) const APIS: [Api; 13] = [
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

pub(super) fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z\"\\\\\n é潮🦀]{0,60}", Just("x".repeat(700))]
}

pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(|v| json!(v)),
        any::<i64>().prop_map(|v| json!(v)),
        (0..200_000u32).prop_map(|v| json!(v)),
        text().prop_map(|v| json!(v)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "type",
            "text",
            "content",
            "role",
            "image_url",
            "url",
            "arguments",
            "include_usage"
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

pub(super) fn message() -> impl Strategy<Value = Value> {
    let part = prop_oneof![text().prop_map(|t| json!({"type": "text", "text": t})), value()];
    let content = prop_oneof![
        text().prop_map(Value::String),
        prop::collection::vec(part, 0..3).prop_map(Value::Array),
        value(),
    ];
    prop_oneof![content.prop_map(|c| json!({"role": "user", "content": c})), value()]
}

/// A request that may be good or bad in its fields, and is JSON.
pub(super) fn request() -> impl Strategy<Value = Map<String, Value>> {
    let messages = prop::collection::vec(message(), 0..4).prop_map(Value::Array);
    let field = prop_oneof![
        4 => (Just("model".to_owned()), prop_oneof![Just(json!("tide-7b")), value()]),
        4 => (Just("messages".to_owned()), messages),
        1 => (prop::sample::select(vec![
                "stream", "n", "best_of", "max_tokens", "max_completion_tokens", "prompt", "input", "system",
                "instructions", "user", "stream_options", "query", "documents", "prompt_embeds",
            ]).prop_map(str::to_owned), value()),
        1 => (any::<String>(), value()),
    ];
    prop::collection::vec(field, 1..7).prop_map(|fields| fields.into_iter().collect())
}

/// Writes `value` with every string escaped and spaces everywhere; top-level keys
/// in reverse, with `deep` those inside as well.
pub(super) fn respell(value: &Value, deep: bool, out: &mut String) {
    write(value, true, deep, out);
}

fn write(value: &Value, reverse: bool, deep: bool, out: &mut String) {
    let string = |s: &str, out: &mut String| {
        out.push('"');
        for unit in s.encode_utf16() {
            *out += &format!("\\u{unit:04X}");
        }
        out.push('"');
    };
    match value {
        Value::String(s) => string(s, out),
        Value::Array(items) => {
            *out += "[ ";
            for (i, item) in items.iter().enumerate() {
                *out += if i > 0 { "\n, " } else { "" };
                write(item, deep, deep, out);
            }
            *out += " ]";
        }
        Value::Object(fields) => {
            *out += "{\t";
            let mut fields: Vec<_> = fields.iter().collect();
            if reverse {
                fields.reverse();
            }
            for (i, (key, item)) in fields.into_iter().enumerate() {
                *out += if i > 0 { "\r, " } else { "" };
                string(key, out);
                *out += " : ";
                write(item, deep, deep, out);
            }
            *out += " }";
        }
        other => *out += &other.to_string(),
    }
}

fn parse_scan(api: Api, body: &str) -> Result<Scan, BodyError> {
    scan_json(api, body.as_bytes())
}

proptest! {
    #[test]
    fn the_scan_sees_what_serde_json_sees(request in request(), api in prop::sample::select(APIS.to_vec())) {
        let value = Value::Object(request);
        match parse_scan(api, &value.to_string()) {
            Ok(scan) => {
                prop_assert_eq!(&json!(scan.model), &value["model"]);
                prop_assert_eq!(scan.stream, value["stream"].as_bool().unwrap_or(false));
                prop_assert!(scan.choices >= 1 && scan.prompts >= 1);
            }
            Err(e) => prop_assert!(
                matches!(e, BodyError::Missing(_) | BodyError::Invalid { .. }),
                "{} in {}", e, value
            ),
        }
    }

    #[test]
    fn spelling_does_not_matter(request in request(), api in prop::sample::select(APIS.to_vec())) {
        let value = Value::Object(request);
        let mut spelled = String::new();
        respell(&value, true, &mut spelled);
        let (plain, other) = (parse_scan(api, &value.to_string()), parse_scan(api, &spelled));
        match (plain, other) {
            (Ok(a), Ok(b)) => {
                // The order of keys inside of a value is the text's, not the spelling's.
                let b = Scan {
                    model_span: a.model_span.clone(),
                    token_ids_span: a.token_ids_span.clone(),
                    text_blocks: a.text_blocks.clone(),
                    ..b
                };
                prop_assert_eq!(a, b, "{}", value);
            }
            (Err(_), Err(_)) => {}
            (a, b) => prop_assert!(false, "{:?} and {:?} of {}", a, b, value),
        }
    }

    #[test]
    fn a_spliced_body_differs_in_the_model_only(request in request(), model in ".{1,20}") {
        let value = Value::Object(request);
        let body = value.to_string();
        if let Ok(scan) = parse_scan(Api::Other, &body) {
            let out: Value = serde_json::from_slice(&splice_model(body.as_bytes(), &scan, &model)).unwrap();
            let mut expected = value;
            expected["model"] = json!(model);
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn cut_bodies_are_refused(request in request(), cut: prop::sample::Index) {
        let body = Value::Object(request).to_string();
        let cut = &body.as_bytes()[..cut.index(body.len())];
        prop_assert!(scan_json(Api::Other, cut).is_err());
    }
}
