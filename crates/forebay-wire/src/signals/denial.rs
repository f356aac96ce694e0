//! An engine's own word that it does not have a model.

use serde::Deserialize;
use serde_json::Value;

/// Whether the body of a 404 says that the model does not exist there, and not
/// that there is no such path: by its code, or in so many words.
pub fn denies_model(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        error: Value,
        #[serde(default)]
        message: Value,
        #[serde(default)]
        code: Value,
    }
    // serde would take a list of the fields' values as well.
    if !body.trim_ascii_start().starts_with(b"{") {
        return false;
    }
    let Ok(answer) = serde_json::from_slice::<Answer>(body) else { return false };
    // Nested, flat, or only a text.
    let of = |name: &str, flat: &Value| answer.error.get(name).unwrap_or(flat).as_str().map(str::to_owned);
    if of("code", &answer.code).as_deref() == Some("model_not_found") {
        return true;
    }
    let text = of("message", &answer.message).or_else(|| answer.error.as_str().map(str::to_owned));
    let text = text.unwrap_or_default().to_ascii_lowercase();
    text.contains("model") && (text.contains("does not exist") || text.contains("not found"))
}

#[cfg(test)]
mod tests {
    use super::denies_model;

    #[test]
    fn engines_deny_a_model_each_in_their_way() {
        for body in [
            r#"{"error":{"message":"The model `tide-7b` does not exist.","type":"NotFoundError","param":"model","code":404}}"#,
            r#"{"object":"error","message":"The model `tide-7b` does not exist.","type":"NotFoundError","param":null,"code":404}"#,
            r#"{"object":"error","message":"The model 'tide-7b' does not exist.","code":404}"#,
            r#"{"error":{"message":"x","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
            r#" {"error":"model \"tide-7b\" not found, try pulling it first"}"#,
        ] {
            assert!(denies_model(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn what_says_something_else_or_nothing_is_no_denial() {
        for body in [
            "",
            "not found",
            r#"{"detail":"Not Found"}"#,
            r#"{"error":{"message":"File Not Found","type":"not_found_error","code":404}}"#,
            r#"{"error":{"message":"Invalid URL (POST /v1/x)","code":null}}"#,
            r#"["model not found"]"#,
            r#""model not found""#,
            r#"{"error":["model not found"]}"#,
            r#"{"error":{"message":"model not found""#,
            "<html>model not found</html>",
            "\u{0}{}",
        ] {
            assert!(!denies_model(body.as_bytes()), "{body}");
        }
    }
}
