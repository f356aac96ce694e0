//! Requests as a chat client sends them: prose with a few escapes.

use crate::stub::Wish;

/// Different prompts of one size: a proxy that remembers prompts sees a few
/// clients that come back, not one.
const VARIANTS: usize = 16;

const WORDS: [&str; 40] = [
    "the",
    "river",
    "carries",
    "water",
    "to",
    "a",
    "pool",
    "above",
    "every",
    "turbine",
    "and",
    "smooths",
    "its",
    "flow",
    "before",
    "it",
    "falls",
    "through",
    "steel",
    "gates",
    "while",
    "engineers",
    "watch",
    "pressure",
    "level",
    "of",
    "each",
    "unit",
    "because",
    "one",
    "that",
    "runs",
    "dry",
    "shakes",
    "whole",
    "house",
    "with",
    "noise",
    "until",
    "night",
];

/// Ready-made requests of one size; their bodies differ from the first word on.
#[derive(Debug)]
pub(crate) struct Requests(Vec<Vec<u8>>);

impl Requests {
    /// Chat requests with bodies of `bytes` bytes.
    pub(crate) fn chat(bytes: usize) -> Requests {
        Requests((0..VARIANTS).map(|variant| request(&chat_body(bytes, variant as u64, None))).collect())
    }

    pub(crate) fn get(&self, nth: usize) -> &[u8] {
        &self.0[nth % self.0.len()]
    }
}

/// A short chat request for the stream that `wish` describes.
pub(crate) fn stream_request(wish: Wish) -> Vec<u8> {
    request(&chat_body(1024, 0, Some(wish)))
}

fn request(body: &str) -> Vec<u8> {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.test\r\nUser-Agent: bench/1\r\n\
        Authorization: Bearer sk-bench-0123456789abcdef\r\nAccept: application/json\r\n\
        Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A body of exactly `bytes` bytes; never shorter than its fixed parts.
fn chat_body(bytes: usize, variant: u64, wish: Option<Wish>) -> String {
    let stream =
        wish.map_or(String::new(), |wish| format!(",\"stream\":true,\"user\":\"{}\"", wish.to_user()));
    let mut body = format!(
        "{{\"model\":\"tide-7b\"{stream},\"max_tokens\":256,\"temperature\":0.7,\"messages\":[\
        {{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"}},{{\"role\":\"user\",\"content\":\""
    );
    let end = "\"}]}";
    let mut random = variant.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    for nth in 1.. {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = WORDS[(random >> 33) as usize % WORDS.len()];
        // An escape about every 80 bytes, as in prose with paragraphs and quotes.
        let piece = match nth % 48 {
            15 => format!("{word}.\\n\\n"),
            31 => format!("\\\"{word}\\\" "),
            47 => format!("{word} caf\\u00e9 — "),
            _ => format!("{word} "),
        };
        if body.len() + piece.len() + end.len() > bytes {
            break;
        }
        body.push_str(&piece);
    }
    let padding = bytes.saturating_sub(body.len() + end.len());
    body.extend(std::iter::repeat_n('.', padding));
    body.push_str(end);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_of_the_size_asked_for() {
        let wish = Wish { events: 3, pace: std::time::Duration::from_millis(1), hold: false };
        for (bytes, wish) in [(1024, None), (1024, Some(wish)), (256 * 1024, None)] {
            let body = chat_body(bytes, 7, wish);
            assert_eq!(body.len(), bytes);
            let value: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(value["stream"].as_bool(), wish.map(|_| true));
            assert_eq!(Wish::parse(&body.as_bytes()[..512]), wish);
        }
        let requests = Requests::chat(2048);
        assert_ne!(requests.get(0), requests.get(1));
        assert_eq!(requests.get(0), requests.get(VARIANTS));
    }
}
