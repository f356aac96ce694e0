//! `extra_keys`: what besides its tokens makes a block what it is.
//!
//! One list per block, or nil: the adapter's name, then a pair per image in the
//! block, then the salt (in a prompt's first block), then a digest of prompt
//! embeddings. vLLM sends them bare; its own hash uses tagged tuples, and both
//! are understood.

use super::KvEventError;
use super::msgpack::{Reader, Value};

/// What `extra_keys` says about a chain of blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extra {
    /// The first block's salt.
    pub(super) salt: Option<String>,
    /// The first block that holds something that its tokens do not tell.
    pub(super) opaque_from: usize,
}

enum Key<'a> {
    Text(&'a [u8]),
    Tagged(&'a [u8], Option<&'a [u8]>),
    Opaque,
}

/// Reads the value of `extra_keys`. `begins` when the first block is the first
/// of its prompt, which alone may carry a salt.
pub(super) fn read(
    reader: &mut Reader<'_>,
    adapter: Option<&str>,
    begins: bool,
) -> Result<Extra, KvEventError> {
    let mut extra = Extra { salt: None, opaque_from: usize::MAX };
    let Some(blocks) = reader.array("extra_keys is not a list")? else { return Ok(extra) };
    for block in 0..blocks {
        let keys = reader.array("the extra keys of a block are not a list")?.unwrap_or_default();
        let mut salt = None;
        let mut opaque = false;
        for place in 0..keys {
            match key(reader)? {
                Key::Text(text) if place == 0 && adapter.is_some_and(|name| name.as_bytes() == text) => {}
                Key::Tagged(b"lora", _) if adapter.is_some() => {}
                // Two bare texts: the second is a digest.
                Key::Text(text) | Key::Tagged(b"cache_salt", Some(text))
                    if begins && block == 0 && salt.is_none() =>
                {
                    salt = Some(String::from_utf8_lossy(text).into_owned());
                }
                _ => opaque = true,
            }
        }
        if opaque {
            extra.opaque_from = extra.opaque_from.min(block);
        } else if block == 0 {
            extra.salt = salt;
        }
    }
    Ok(extra)
}

fn key<'a>(reader: &mut Reader<'a>) -> Result<Key<'a>, KvEventError> {
    let start = reader.clone();
    Ok(match reader.next()? {
        Value::Str(text) => Key::Text(text),
        Value::Array(n) if (2..=3).contains(&n) => match (reader.next()?, reader.next()?) {
            (Value::Str(tag), Value::Str(text)) => {
                (2..n).try_for_each(|_| reader.skip())?;
                Key::Tagged(tag, Some(text))
            }
            _ => {
                *reader = start;
                reader.skip()?;
                Key::Opaque
            }
        },
        _ => {
            *reader = start;
            reader.skip()?;
            Key::Opaque
        }
    })
}
