//! The body of one turn of a conversation.

use bytes::Bytes;
use serde::Serialize;

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    max_tokens: u32,
    // Engines that do not know it ignore it; without it an answer may be
    // shorter than planned.
    ignore_eos: bool,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// A streamed chat request: the system prompt, every question with the answer
/// that really came, and the last question, which has none yet. Answers have
/// exactly `max_tokens` tokens where the engine can be told.
pub(crate) fn body<'a>(
    model: &str,
    system: &str,
    questions: impl Iterator<Item = &'a str>,
    answers: &[String],
    max_tokens: u32,
) -> Bytes {
    let mut messages = vec![Message { role: "system", content: system }];
    let mut answers = answers.iter();
    for question in questions {
        messages.push(Message { role: "user", content: question });
        messages.extend(answers.next().map(|answer| Message { role: "assistant", content: answer }));
    }
    let stream_options = StreamOptions { include_usage: true };
    let body = Body { model, messages, max_tokens, ignore_eos: true, stream: true, stream_options };
    // Strings and numbers always serialise.
    serde_json::to_vec(&body).unwrap_or_default().into()
}
