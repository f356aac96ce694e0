//! Watching an answer as it passes, without being able to harm it.

use bytes::{Bytes, BytesMut};
use forebay_core::Usage;
use forebay_wire::body::Api;
use forebay_wire::sse::{Dialect, Watcher, looks_like_sse};
use forebay_wire::usage::usage_from_json;
use http::{HeaderMap, header};

/// Bytes of a JSON answer that are kept for its usage. Of a larger one the end
/// is kept, where engines put it.
const MAX_JSON: usize = 1 << 20;

/// What is made of an answer's bytes.
pub(crate) enum Watching {
    /// An event stream.
    Events(Box<Watcher>),
    /// A JSON answer: its first piece by reference, usually all of it; with more
    /// pieces a copy of its end, so that small pieces do not keep large buffers.
    Json { first: Option<Bytes>, rest: BytesMut },
    /// Something else, or something encoded: passes unseen.
    Blind,
}

/// What was seen by the end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) usage: Option<Usage>,
    /// An error event, an abort.
    pub(crate) error: bool,
}

impl Watching {
    /// The answer's own head decides, whatever the request asked for.
    pub(crate) fn new(api: Api, headers: &HeaderMap) -> Watching {
        let encoded = headers
            .get(header::CONTENT_ENCODING)
            .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if encoded {
            return Watching::Blind;
        }
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        if looks_like_sse(content_type) {
            Watching::Events(Box::new(Watcher::new(Dialect::of(api))))
        } else if content_type.trim_start().to_ascii_lowercase().starts_with("application/json") {
            Watching::Json { first: None, rest: BytesMut::new() }
        } else {
            Watching::Blind
        }
    }

    /// Sees some bytes.
    pub(crate) fn feed(&mut self, data: &Bytes) {
        match self {
            Watching::Events(watcher) => watcher.feed(data),
            Watching::Json { first: first @ None, rest } if rest.is_empty() => *first = Some(data.clone()),
            Watching::Json { first, rest } => {
                if let Some(first) = first.take() {
                    rest.extend_from_slice(&first);
                }
                rest.extend_from_slice(data);
                if rest.len() > 2 * MAX_JSON {
                    let _ = rest.split_to(rest.len() - MAX_JSON);
                    *rest = BytesMut::from(&rest[..]);
                }
            }
            Watching::Blind => {}
        }
    }

    /// True when the wait for the first event is over: a comment does not end it.
    pub(crate) fn answered(&self) -> bool {
        match self {
            Watching::Events(watcher) => watcher.saw_data(),
            _ => true,
        }
    }

    /// Token events so far.
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Watching::Events(watcher) => watcher.tokens(),
            _ => 0,
        }
    }

    /// Whether the answer itself has said that it is complete.
    pub(crate) fn said_done(&self) -> bool {
        match self {
            Watching::Events(watcher) => watcher.done(),
            _ => false,
        }
    }

    /// The answer ended, or broke off.
    pub(crate) fn finish(&mut self, whole: bool) -> Seen {
        match self {
            Watching::Events(watcher) => {
                watcher.finish();
                let counted = watcher.tokens();
                // Some state the prompt's tokens first and the answer's at the end.
                let stated = watcher.usage().filter(|usage| whole || usage.completion_tokens >= counted);
                let estimate = || Usage {
                    completion_tokens: counted,
                    estimated: true,
                    ..watcher.usage().unwrap_or_default()
                };
                let usage = stated.or_else(|| (counted > 0).then(estimate));
                Seen { usage, error: watcher.error() }
            }
            Watching::Json { first, rest } if whole => {
                Seen { usage: usage_from_json(first.as_deref().unwrap_or(rest)), error: false }
            }
            _ => Seen::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(stream: &'static str, whole: bool) -> Seen {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
        let mut watching = Watching::new(Api::Chat, &headers);
        watching.feed(&Bytes::from_static(stream.as_bytes()));
        watching.finish(whole)
    }

    const TWO: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n\
                       data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n";

    #[test]
    fn of_a_cut_answer_more_may_have_come_than_was_stated() {
        const STATED: &str =
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":N}}\n\n";
        for (stated, counted) in [(1, 2), (2, 2), (5, 5)] {
            let text = STATED.replace('N', &stated.to_string()) + TWO;
            let usage = seen(text.clone().leak(), false).usage.unwrap();
            assert_eq!((usage.prompt_tokens, usage.completion_tokens), (9, counted), "{stated}");
            assert_eq!(usage.estimated, stated < 2);
            let whole = seen(text.leak(), true).usage.unwrap();
            assert_eq!((whole.completion_tokens, whole.estimated), (stated, false));
        }
    }

    #[test]
    fn tokens_that_no_usage_states_are_estimated() {
        let estimate = Usage { completion_tokens: 2, estimated: true, ..Usage::default() };
        for whole in [true, false] {
            assert_eq!(seen(TWO, whole).usage, Some(estimate), "{whole}");
            assert_eq!(seen(": nothing yet\n\n", whole).usage, None, "{whole}");
        }
    }
}
