//! The bodies and the scripted answers that most tests share.

use std::time::Duration;

use crate::backend::{RequestLog, Step};
use crate::http1::chunk as http_chunk;

/// The model that every scripted backend serves.
pub const MODEL: &str = "tide-7b";

/// A whole chat request.
pub const OK_JSON: &[u8] = br#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}]}"#;

/// The same, streamed.
pub const OK_SSE: &[u8] = br#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

/// The same, streamed with usage.
pub const OK_SSE_USAGE: &[u8] = br#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}"#;

/// Where chat requests go.
pub const CHAT: &str = "/v1/chat/completions";

/// The end of a stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// One well-formed chunk event with this text.
pub fn chunk(text: &str) -> Vec<u8> {
    chunk_of(MODEL, text)
}

/// The same from another model.
pub fn chunk_of(model: &str, text: &str) -> Vec<u8> {
    let content = serde_json::Value::from(text);
    format!(
        r#"data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"{model}","choices":[{{"index":0,"delta":{{"content":{content}}},"finish_reason":null}}]}}"#
    )
    .into_bytes()
    .into_iter()
    .chain(*b"\n\n")
    .collect()
}

/// The chunk event that says why the generation ended.
pub fn finish(reason: &str) -> Vec<u8> {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"tide-7b\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n"
    )
    .into_bytes()
}

/// The usage event of a stream whose client asked for it.
pub fn usage(prompt: u32, completion: u32) -> Vec<u8> {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"tide-7b\",\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{}}}}}\n\n",
        prompt + completion
    )
    .into_bytes()
}

/// A whole chat answer.
pub fn completion(model: &str, prompt: u32, completion: u32) -> Vec<u8> {
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":"hello"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{}}}}}"#,
        prompt + completion
    )
    .into_bytes()
}

/// The head of an event stream in chunked coding.
pub const SSE_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The end of a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A response with a length.
pub fn response(status: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status}\r\n");
    for (name, value) in fields {
        out += &format!("{name}: {value}\r\n");
    }
    out += &format!("Content-Length: {}\r\n\r\n", body.len());
    let mut out = out.into_bytes();
    out.extend_from_slice(body);
    out
}

/// A JSON response.
pub fn json(status: &str, body: &[u8]) -> Vec<Step> {
    vec![Step::send(response(status, &[("Content-Type", "application/json")], body))]
}

/// A list of models; each with its base model, where it is an adapter.
pub fn models(list: &[(&str, Option<&str>)]) -> Vec<Step> {
    let cards: Vec<String> = list
        .iter()
        .map(|(id, parent)| {
            let parent = parent.map_or("null".to_string(), |parent| format!("\"{parent}\""));
            format!(
                r#"{{"id":"{id}","object":"model","created":1790000000,"owned_by":"rig","parent":{parent}}}"#
            )
        })
        .collect();
    json("200 OK", format!(r#"{{"object":"list","data":[{}]}}"#, cards.join(",")).as_bytes())
}

/// What an engine says that does not have the model, or no longer.
pub fn model_missing(model: &str) -> Vec<Step> {
    let body = format!(
        r#"{{"error":{{"message":"The model `{model}` does not exist.","type":"NotFoundError","param":"model","code":404}}}}"#
    );
    json("404 Not Found", body.as_bytes())
}

/// The plain good answer.
pub fn ok_json() -> Vec<Step> {
    json("200 OK", &completion(MODEL, 12, 30))
}

/// An event stream of these payload pieces, one HTTP chunk and one segment
/// each, `gap` apart, and its proper end.
pub fn stream(pieces: &[Vec<u8>], gap: Duration) -> Vec<Step> {
    let mut steps = open_stream(pieces, gap);
    steps.push(Step::send(LAST_CHUNK));
    steps
}

/// The same without the end: what follows is the caller's.
pub fn open_stream(pieces: &[Vec<u8>], gap: Duration) -> Vec<Step> {
    let mut steps = vec![Step::send(SSE_HEAD)];
    for piece in pieces {
        if !gap.is_zero() {
            steps.push(Step::Sleep(gap));
        }
        steps.push(Step::send(http_chunk(piece)));
    }
    steps
}

/// The answer that fits the request: a short stream when it asks for one.
pub fn polite(request: &RequestLog) -> Vec<Step> {
    if request.asks_for_stream() {
        stream(&[chunk("a"), chunk("b"), finish("stop"), DONE.to_vec()], Duration::ZERO)
    } else {
        ok_json()
    }
}

/// The `data` of each event of a payload, in order, by the rules of the event stream format.
pub fn events(payload: &[u8]) -> Vec<String> {
    let text = String::from_utf8(payload.to_vec()).expect("the stream is not UTF-8");
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for line in text.split('\n') {
        if line.is_empty() {
            if !data.is_empty() {
                out.push(data.join("\n"));
            }
            data.clear();
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_follow_the_format() {
        let payload = b": c\n\ndata: a\ndata:b\n\nid: 5\n\ndata:  two\r\n\r\ndata: cut";
        assert_eq!(events(payload), ["a\nb", " two"]);
    }

    #[test]
    fn the_shared_bodies_are_json() {
        for body in [OK_JSON, OK_SSE, OK_SSE_USAGE, &completion("m", 1, 2)] {
            serde_json::from_slice::<serde_json::Value>(body).unwrap();
        }
        for event in [chunk("a\"b\n"), finish("stop"), usage(1, 2)] {
            let data = events(&event);
            assert_eq!(data.len(), 1);
            serde_json::from_str::<serde_json::Value>(&data[0]).unwrap();
        }
    }
}
