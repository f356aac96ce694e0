//! Error bodies in the shapes that client libraries expect.

use bytes::Bytes;

use crate::json::push_string;

/// `{"error":{"message","type","param","code"}}`, as OpenAI answers.
pub fn openai(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Bytes {
    let mut out = Vec::with_capacity(80 + message.len());
    push_openai(&mut out, message, kind, param, code);
    out.into()
}

/// `{"type":"error","error":{"type","message"},"request_id"}`, as Anthropic
/// answers. Without an id the key is left out.
pub fn anthropic(kind: &str, message: &str, request_id: Option<&str>) -> Bytes {
    let mut out = Vec::with_capacity(80 + message.len());
    push_anthropic(&mut out, kind, message, request_id);
    out.into()
}

/// The OpenAI error object as one event of a stream that has already begun.
pub fn sse_error_event(message: &str, kind: &str, code: Option<&str>) -> Bytes {
    let mut out = Vec::with_capacity(96 + message.len());
    out.extend_from_slice(b"data: ");
    push_openai(&mut out, message, kind, None, code);
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// The Anthropic error object as one event of a stream that has already begun.
pub fn anthropic_sse_error_event(kind: &str, message: &str, request_id: Option<&str>) -> Bytes {
    let mut out = Vec::with_capacity(112 + message.len());
    out.extend_from_slice(b"event: error\ndata: ");
    push_anthropic(&mut out, kind, message, request_id);
    out.extend_from_slice(b"\n\n");
    out.into()
}

fn push_openai(out: &mut Vec<u8>, message: &str, kind: &str, param: Option<&str>, code: Option<&str>) {
    out.extend_from_slice(b"{\"error\":{\"message\":");
    push_string(out, message);
    out.extend_from_slice(b",\"type\":");
    push_string(out, kind);
    out.extend_from_slice(b",\"param\":");
    push_optional(out, param);
    out.extend_from_slice(b",\"code\":");
    push_optional(out, code);
    out.extend_from_slice(b"}}");
}

fn push_anthropic(out: &mut Vec<u8>, kind: &str, message: &str, request_id: Option<&str>) {
    out.extend_from_slice(b"{\"type\":\"error\",\"error\":{\"type\":");
    push_string(out, kind);
    out.extend_from_slice(b",\"message\":");
    push_string(out, message);
    out.push(b'}');
    if let Some(id) = request_id {
        out.extend_from_slice(b",\"request_id\":");
        push_string(out, id);
    }
    out.push(b'}');
}

fn push_optional(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => push_string(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const UGLY: &str = "KV pool \"exhausted\"\nline2 \\ \u{0} \u{1f} \u{7f} é 潮";

    fn parse(body: &[u8]) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    #[test]
    fn openai_shape() {
        assert_eq!(
            parse(&openai(UGLY, "invalid_request_error", Some("model"), None)),
            json!({"error": {"message": UGLY, "type": "invalid_request_error", "param": "model", "code": null}})
        );
    }

    #[test]
    fn anthropic_shape() {
        assert_eq!(
            parse(&anthropic("api_error", UGLY, Some("r1"))),
            json!({"type": "error", "error": {"type": "api_error", "message": UGLY}, "request_id": "r1"})
        );
        assert_eq!(
            parse(&anthropic("api_error", "x", None)),
            json!({"type": "error", "error": {"type": "api_error", "message": "x"}})
        );
    }

    #[test]
    fn b10_events_are_one_line_of_json() {
        let event = sse_error_event(UGLY, "upstream_error", Some("upstream_reset"));
        let line = event.strip_prefix(b"data: ").unwrap().strip_suffix(b"\n\n").unwrap();
        assert!(!line.contains(&b'\n'));
        assert_eq!(parse(line)["error"]["code"], "upstream_reset");
        let event = anthropic_sse_error_event("api_error", UGLY, None);
        let line = event.strip_prefix(b"event: error\ndata: ").unwrap().strip_suffix(b"\n\n").unwrap();
        assert_eq!(parse(line)["error"]["message"], UGLY);
    }
}
