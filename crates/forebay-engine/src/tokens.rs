//! A stand-in for a tokenizer and a chat template.
//!
//! The rule, exact so that traffic generators can count on it: four bytes of
//! text are one token, a last part of fewer bytes is one too, and there is no
//! token for the beginning. A prompt of `n` bytes has `ceil(n / 4)` tokens; a
//! prompt given as token ids has as many as there are ids.
//!
//! The template keeps every part of a conversation on a token boundary, and
//! answers are made of four-byte words, so that an answer sent back in the
//! next turn gives the tokens that were generated.

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

/// Ids are below this.
pub(crate) const VOCABULARY: u32 = 128_000;

const START: &[u8; 12] = b"<|im_start|>";
const END: &[u8; 12] = b"<|im_end|>\n ";

/// The id of up to four bytes; missing ones count as spaces, so that an answer
/// whose last space a client trimmed keeps its tokens.
pub(crate) fn token_id(bytes: &[u8]) -> u32 {
    let mut word = [b' '; 4];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    // Fibonacci hashing spreads neighbouring words over the vocabulary.
    let mixed = u64::from(u32::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (mixed % u64::from(VOCABULARY)) as u32
}

/// The ids of a text.
pub(crate) fn text_tokens(text: &[u8]) -> Vec<u32> {
    text.chunks(4).map(token_id).collect()
}

/// A word for an id. The way back from an id to its text does not exist here,
/// so this is only a stand-in of the right length.
pub(crate) fn detokenize(ids: &[u32]) -> String {
    let letter = |n: u32| char::from(b'a' + (n % 26) as u8);
    ids.iter().flat_map(|id| [letter(id / 676), letter(id / 26), letter(*id), ' ']).collect()
}

/// One message as the template sees it.
pub(crate) struct Turn {
    pub(crate) role: String,
    pub(crate) text: String,
}

/// The text of a message's `content`: a string, a list of parts, or null.
/// Parts that are not text count as their JSON.
pub(crate) fn content_text(content: Option<&Value>) -> String {
    match content {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts
            .iter()
            .map(|part| match part.get("text") {
                Some(Value::String(text)) => text.clone(),
                _ => part.to_string(),
            })
            .collect(),
        Some(other) => other.to_string(),
    }
}

/// The ids of a conversation, ready for the assistant's answer.
pub(crate) fn chat_tokens(turns: &[Turn]) -> Vec<u32> {
    let mut text = Vec::with_capacity(turns.iter().map(|t| t.text.len() + 48).sum());
    for turn in turns {
        open(&mut text, &turn.role);
        text.extend_from_slice(turn.text.as_bytes());
        pad(&mut text);
        text.extend_from_slice(END);
    }
    open(&mut text, "assistant");
    text_tokens(&text)
}

fn open(text: &mut Vec<u8>, role: &str) {
    text.extend_from_slice(START);
    text.extend_from_slice(role.as_bytes());
    text.push(b'\n');
    pad(text);
}

fn pad(text: &mut Vec<u8>) {
    text.resize(text.len().next_multiple_of(4), b' ');
}

/// Keeps apart the prefix caches of what must not share: adapters, salts.
pub(crate) fn cache_salt(adapter: Option<&str>, salt: Option<&str>) -> u64 {
    let hash = |name: Option<&str>| name.map_or(0, |n| xxh3_64(n.as_bytes()));
    hash(adapter) ^ hash(salt).rotate_left(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(role: &str, text: &str) -> Turn {
        Turn { role: role.into(), text: text.into() }
    }

    #[test]
    fn four_bytes_are_one_token() {
        for (text, count) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("äöü", 2)] {
            assert_eq!(text_tokens(text.as_bytes()).len(), count, "{text}");
        }
        assert!(text_tokens("any text at all".as_bytes()).iter().all(|id| *id < VOCABULARY));
        assert_eq!(detokenize(&[5, 127_999]).len(), 8);
    }

    #[test]
    fn a_message_costs_what_the_documentation_says() {
        for (role, content, tokens) in
            [("user", "", 6 + 2), ("user", "abcde", 6 + 2 + 2), ("tool", "x", 6 + 2 + 1)]
        {
            assert_eq!(chat_tokens(&[turn(role, content)]).len(), tokens + 6, "{role} {content:?}");
        }
    }

    #[test]
    fn a_longer_conversation_begins_with_the_tokens_of_the_shorter_and_its_answer() {
        let answer = "bak dim ";
        let mut first = chat_tokens(&[turn("system", "Be brief."), turn("user", "hello")]);
        first.extend(text_tokens(answer.as_bytes()));
        for echoed in [answer, answer.trim_end()] {
            let second = chat_tokens(&[
                turn("system", "Be brief."),
                turn("user", "hello"),
                turn("assistant", echoed),
                turn("user", "go on"),
            ]);
            assert!(second.starts_with(&first));
        }
    }

    #[test]
    fn content_may_be_text_parts_or_null() {
        let parts = serde_json::json!([{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}]);
        assert_eq!(content_text(Some(&parts)), "abcd");
        assert_eq!(content_text(Some(&Value::Null)), "");
        assert_eq!(content_text(None), "");
    }
}
