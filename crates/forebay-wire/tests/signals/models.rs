//! Which models are present, and who answers.

use forebay_wire::signals::{
    Dialect, ResidentModel, detect_models, detect_root, detect_server_header, read_models,
};

fn model(id: &str, parent: Option<&str>, ready: bool) -> ResidentModel {
    ResidentModel { id: id.to_owned(), parent: parent.map(str::to_owned), ready }
}

#[test]
fn vllm_with_adapters() {
    let body = include_bytes!("vllm_models_adapters.json");
    let expected =
        [model("tiny", None, true), model("lora1", Some("tiny"), true), model("lora2", Some("tiny"), true)];
    assert_eq!(read_models(Dialect::Vllm, body), Ok(expected.to_vec()));
    assert_eq!(detect_models(body), Some(Dialect::Vllm));
}

#[test]
fn llamacpp_loads_when_asked() {
    let body = br#"{"data":[{"id":"a","owned_by":"llamacpp","status":{"value":"loaded"}},{"id":"b","owned_by":"llamacpp","status":{"value":"unloaded","failed":true}},{"id":"c","owned_by":"llamacpp"}],"object":"list"}"#;
    let expected = [model("a", None, true), model("b", None, false), model("c", None, true)];
    assert_eq!(read_models(Dialect::Llamacpp, body), Ok(expected.to_vec()));
    assert_eq!(detect_models(body), Some(Dialect::Llamacpp));
}

#[test]
fn ollama_in_memory() {
    let body = br#"{"models":[{"name":"llama3.2:latest","model":"llama3.2:latest","size":3825819519,"digest":"a80c","expires_at":"2026-11-29T21:00:00Z","size_vram":3825819519}]}"#;
    assert_eq!(read_models(Dialect::Ollama, body), Ok(vec![model("llama3.2:latest", None, true)]));
    for nothing in [r#"{"models":[]}"#, r#"{"models":null}"#] {
        assert_eq!(read_models(Dialect::Ollama, nothing.as_bytes()), Ok(vec![]), "{nothing}");
    }
}

#[test]
fn triton_index() {
    let body = br#"[{"name":"embed","version":"1","state":"UNAVAILABLE","reason":"unloaded"},{"name":"embed","version":"2","state":"READY"},{"name":"rerank"},{"name":"ensemble","version":"1","state":"LOADING"}]"#;
    let expected = [model("embed", None, true), model("rerank", None, false), model("ensemble", None, false)];
    assert_eq!(read_models(Dialect::Triton, body), Ok(expected.to_vec()));
    assert_eq!(read_models(Dialect::Triton, b"[]"), Ok(vec![]));
}

#[test]
fn bodies_of_another_kind() {
    for body in ["", "<html>", "null", "3", r#"{"detail":"Not Found"}"#, r#"{"data":[{"name":"x"}]}"#, "[[]]"]
    {
        let error = read_models(Dialect::Vllm, body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("/v1/models: "), "{error}");
    }
    for body in ["", "null", "{}", r#"[{"version":"1"}]"#, "[3]"] {
        assert!(read_models(Dialect::Triton, body.as_bytes()).is_err(), "{body}");
    }
    for body in ["[]", "[null]", "{}", r#"{"data":[]}"#] {
        assert!(read_models(Dialect::Ollama, body.as_bytes()).is_err(), "{body}");
    }
    let deep = "[".repeat(1_000_000);
    assert!(read_models(Dialect::Triton, deep.as_bytes()).is_err());
}

#[test]
fn who_answers() {
    for (owner, dialect) in [
        ("vllm", Some(Dialect::Vllm)),
        ("sglang", Some(Dialect::Sglang)),
        ("lmdeploy", Some(Dialect::Lmdeploy)),
        ("llamacpp", Some(Dialect::Llamacpp)),
        ("tensorrt_llm", Some(Dialect::Trtllm)),
        ("Triton Inference Server", Some(Dialect::Triton)),
        ("library", Some(Dialect::Ollama)),
        ("openai", None),
    ] {
        let body = format!(r#"{{"object":"list","data":[{{"id":"m","owned_by":"{owner}"}}]}}"#);
        assert_eq!(detect_models(body.as_bytes()), dialect, "{owner}");
    }
    assert_eq!(detect_models(br#"{"data":[{"id":"m"}]}"#), None);
    assert_eq!(detect_models(br#"{"data":[]}"#), None);
    assert_eq!(detect_root(b"Ollama is running"), Some(Dialect::Ollama));
    assert_eq!(detect_root(b"<html>"), None);
    assert_eq!(detect_server_header(b"llama.cpp"), Some(Dialect::Llamacpp));
    assert_eq!(detect_server_header(b"uvicorn"), None);
}
