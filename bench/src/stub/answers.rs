//! The bytes that the stub sends, made once.

use std::rc::Rc;

use crate::http::chunk;

/// Bytes of the body of a whole answer.
pub(crate) const ANSWER_BYTES: usize = 1024;
/// Bytes of one streamed event with the blank line that ends it.
pub(crate) const EVENT_BYTES: usize = 200;

/// Every answer of the stub, as bytes of the wire; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Answers(Rc<Bytes>);

#[derive(Debug)]
struct Bytes {
    whole: Vec<u8>,
    stream_head: Vec<u8>,
    event: Vec<u8>,
    stream_end: Vec<u8>,
    health: Vec<u8>,
    models: Vec<u8>,
    metrics: Vec<u8>,
    length_required: Vec<u8>,
}

const MODELS: &str = r#"{"object":"list","data":[{"id":"tide-7b","object":"model","owned_by":"bench"}]}"#;
const METRICS: &str = "\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name=\"tide-7b\"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name=\"tide-7b\"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name=\"tide-7b\"} 0.0
";

impl Answers {
    pub(crate) fn new() -> Answers {
        let stream_head = "HTTP/1.1 200 OK\r\nserver: stub\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
            transfer-encoding: chunked\r\n\r\n";
        let stop = chunk(
            b"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"tide-7b\",\
            \"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        );
        Answers(Rc::new(Bytes {
            whole: message("200 OK", "application/json", &answer()),
            stream_head: stream_head.into(),
            event: chunk(event().as_bytes()),
            stream_end: [stop, chunk(b"data: [DONE]\n\n"), chunk(b"")].concat(),
            health: message("200 OK", "text/plain", ""),
            models: message("200 OK", "application/json", MODELS),
            metrics: message("200 OK", "text/plain; version=0.0.4", METRICS),
            length_required: message(
                "411 Length Required",
                "text/plain",
                "the stub wants a content-length\n",
            ),
        }))
    }

    pub(crate) fn whole(&self) -> &[u8] {
        &self.0.whole
    }

    pub(crate) fn stream_head(&self) -> &[u8] {
        &self.0.stream_head
    }

    pub(crate) fn event(&self) -> &[u8] {
        &self.0.event
    }

    /// `finish_reason`, `[DONE]` and the last chunk.
    pub(crate) fn stream_end(&self) -> &[u8] {
        &self.0.stream_end
    }

    /// The answer to a request that says no length: a probe, a scrape, or a
    /// chunked body, which the stub does not read.
    pub(crate) fn without_body(&self, start_line: &str) -> &[u8] {
        match start_line.split(' ').take(2).collect::<Vec<_>>().as_slice() {
            ["GET", "/v1/models"] => &self.0.models,
            ["GET", "/metrics"] => &self.0.metrics,
            ["GET" | "HEAD", _] => &self.0.health,
            _ => &self.0.length_required,
        }
    }
}

fn message(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nserver: stub\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn answer() -> String {
    let (start, end) = (
        "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"tide-7b\",\"choices\":\
        [{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"",
        "\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":200,\
        \"completion_tokens\":150,\"total_tokens\":350,\"prompt_tokens_details\":{\"cached_tokens\":64}}}",
    );
    filled(start, "The tide comes in twice a day. ", end, ANSWER_BYTES)
}

fn event() -> String {
    let (start, end) = (
        "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"tide-7b\",\
        \"choices\":[{\"index\":0,\"delta\":{\"content\":\"",
        "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
    );
    filled(start, " tide", end, EVENT_BYTES)
}

/// `start`, as much of `filler` as makes the whole `length` bytes, and `end`.
fn filled(start: &str, filler: &str, end: &str, length: usize) -> String {
    let room = length.saturating_sub(start.len() + end.len());
    let filler: String = filler.chars().cycle().take(room).collect();
    format!("{start}{filler}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_json_of_the_promised_size() {
        assert_eq!((answer().len(), event().len()), (ANSWER_BYTES, EVENT_BYTES));
        let event = event();
        for json in [answer().as_str(), event.strip_prefix("data: ").unwrap(), MODELS] {
            serde_json::from_str::<serde_json::Value>(json).unwrap();
        }
    }
}
