//! Keys.

use schemars::{Schema, json_schema};

use crate::scalar::{Complaint, Kind};
use crate::secret::Secret;

/// The longest key, in bytes.
const LONGEST: usize = 4096;

/// A key that is sent in a header. No message shows any of it.
pub(crate) struct Key;

impl Kind for Key {
    type Value = Secret;

    const SECRET: bool = true;

    fn parse(text: &str) -> Result<Secret, Complaint> {
        let problem = if text.is_empty() {
            "is empty"
        } else if !text.bytes().all(|b| b.is_ascii_graphic()) {
            "contains a space, a line break or another character that no key has"
        } else if text.len() > LONGEST {
            "is longer than 4096 bytes"
        } else {
            return Ok(Secret::new(text));
        };
        Err(Complaint::new(problem))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "key, best as `${NAME}`".to_owned()
    }
}
