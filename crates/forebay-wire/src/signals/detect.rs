//! Finding out which engine answers.

use serde::Deserialize;

use super::Dialect;
use crate::prom;

/// The engine whose metrics page this is, by the names on it.
pub fn detect(page: &[u8]) -> Option<Dialect> {
    const PREFIXES: [(&str, Dialect); 9] = [
        ("vllm:", Dialect::Vllm),
        ("sglang:", Dialect::Sglang),
        ("lmdeploy:", Dialect::Lmdeploy),
        ("llamacpp:", Dialect::Llamacpp),
        ("trtllm_", Dialect::Trtllm),
        ("trtllm:", Dialect::Trtllm),
        ("nv_inference_", Dialect::Triton),
        ("nv_trt_llm_", Dialect::Triton),
        ("tgi_", Dialect::Tgi),
    ];
    let mut found = None;
    prom::read_named(
        page,
        |name| {
            if found.is_none() {
                found = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, d)| *d);
            }
            false
        },
        drop,
    );
    found
}

/// The engine that answered `/v1/models` with `body`, by `owned_by` of the
/// first model; none when that names a maker of models, not an engine.
pub fn detect_models(body: &[u8]) -> Option<Dialect> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        owned_by: Option<String>,
    }
    let list: List = serde_json::from_slice(body).ok()?;
    match list.data.first()?.owned_by.as_deref()? {
        "vllm" => Some(Dialect::Vllm),
        "sglang" => Some(Dialect::Sglang),
        "lmdeploy" => Some(Dialect::Lmdeploy),
        "llamacpp" => Some(Dialect::Llamacpp),
        "tensorrt_llm" => Some(Dialect::Trtllm),
        "Triton Inference Server" => Some(Dialect::Triton),
        "library" => Some(Dialect::Ollama),
        _ => None,
    }
}

/// The engine that answered `GET /` with `body`: Ollama says its name there.
pub fn detect_root(body: &[u8]) -> Option<Dialect> {
    body.trim_ascii_start().starts_with(b"Ollama is running").then_some(Dialect::Ollama)
}

/// The engine that names itself in a `Server` header; most name their HTTP
/// library instead.
pub fn detect_server_header(value: &[u8]) -> Option<Dialect> {
    value.trim_ascii().eq_ignore_ascii_case(b"llama.cpp").then_some(Dialect::Llamacpp)
}
