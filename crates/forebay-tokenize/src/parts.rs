//! Texts tokenised part by part, so that a conversation costs its new part only.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::Tokenizer;
use crate::memo::{Key, Memo};

/// How an entry of the memo was tokenised.
const BEGINNING: u64 = 1;
const INSIDE: u64 = 2;
const WITH_SPECIAL: u64 = 3;

/// The parts that one tokenizer has seen.
pub(crate) struct Parts {
    memo: Mutex<Memo>,
}

impl Parts {
    /// None yet; at most `max_bytes` of them.
    pub(crate) fn new(max_bytes: usize) -> Parts {
        Parts { memo: Mutex::new(Memo::new(max_bytes)) }
    }

    /// Bytes in use, about.
    pub(crate) fn bytes(&self) -> usize {
        self.memo.lock().bytes()
    }

    /// The same ids as `tokenizer`, always the same one, gives for the whole.
    pub(crate) fn encode(&self, tokenizer: &Tokenizer, text: &str, add_special: bool) -> Option<Arc<[u32]>> {
        if add_special {
            // What is put around a text may depend on all of it.
            return self.remembered(text, WITH_SPECIAL, || tokenizer.encode(text, true));
        }
        let mut ids = Vec::with_capacity(text.len() / 3);
        for segment in tokenizer.cuts.segments(text) {
            let part = &text[segment.range];
            let Some(lead) = segment.lead else {
                ids.extend_from_slice(&self.remembered(part, BEGINNING, || tokenizer.encode(part, false))?);
                continue;
            };
            let found = self.remembered(part, INSIDE, || {
                // The token before the part is one, whatever follows.
                tokenizer.encode(part, false).filter(|ids| ids.first() == Some(&lead))
            });
            match found {
                Some(part) => ids.extend_from_slice(part.get(1..).unwrap_or_default()),
                // It was not cut where the tokenizer cuts: the whole is right in any case.
                None => return tokenizer.encode(text, false).map(Arc::from),
            }
        }
        Some(ids.into())
    }

    fn remembered(
        &self,
        text: &str,
        how: u64,
        make: impl FnOnce() -> Option<Vec<u32>>,
    ) -> Option<Arc<[u32]>> {
        let key = Key::new(text, how);
        if let Some(ids) = self.memo.lock().get(key) {
            return Some(ids);
        }
        let ids: Arc<[u32]> = make()?.into();
        self.memo.lock().put(key, Arc::clone(&ids));
        Some(ids)
    }
}
