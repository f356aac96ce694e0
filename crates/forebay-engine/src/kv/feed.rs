//! From the model's block changes to events with their tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_sim::engine::{BlockChange, BlockChanges, SeqId};
use tokio::sync::mpsc::UnboundedSender;

use super::{KvBatch, KvEvent, KvMessage};
use crate::clock::unix_seconds;

/// What an event says of a sequence besides hashes.
#[derive(Debug)]
pub(crate) struct SeqText {
    /// Of the prompt and of the answer after it.
    pub(crate) tokens: Vec<u32>,
    /// Number and name of the adapter.
    pub(crate) adapter: Option<(u32, String)>,
    /// The request's `cache_salt`.
    pub(crate) salt: Option<String>,
}

/// Keeps the tokens of running sequences, and hands on what is to be announced.
pub(crate) struct KvFeed {
    texts: BTreeMap<SeqId, Arc<SeqText>>,
    /// Sequences that ended, with the number of steps there had been: the step
    /// under way then may still announce their blocks.
    ended: Vec<(SeqId, u64)>,
    out: UnboundedSender<KvMessage>,
}

impl KvFeed {
    pub(crate) fn new(out: UnboundedSender<KvMessage>) -> KvFeed {
        KvFeed { texts: BTreeMap::new(), ended: Vec::new(), out }
    }

    /// A sequence that may store blocks from now on.
    pub(crate) fn begin(&mut self, seq: SeqId, text: Arc<SeqText>) {
        self.texts.insert(seq, text);
    }

    /// A sequence ended after this many steps of the engine.
    pub(crate) fn end(&mut self, seq: SeqId, steps: u64) {
        self.ended.push((seq, steps));
    }

    /// Hands on the changes of the steps that ended; `steps` is their number
    /// since the engine began.
    pub(crate) fn announce(&mut self, batches: Vec<BlockChanges>, steps: u64) {
        for batch in batches {
            let events = self.events(&batch.changes);
            // The publisher is gone only when the engine is ending.
            let _ = self.out.send(KvMessage::Batch(KvBatch { unix: unix_seconds(), events }));
        }
        let texts = &mut self.texts;
        self.ended.retain(|(seq, then)| {
            let done = steps > *then;
            if done {
                texts.remove(seq);
            }
            !done
        });
    }

    fn events(&self, changes: &[BlockChange]) -> Vec<KvEvent> {
        let mut events: Vec<KvEvent> = Vec::with_capacity(changes.len());
        // The sequence of the last event if that is a `Stored`.
        let mut last: Option<(SeqId, u32)> = None;
        for change in changes {
            match *change {
                BlockChange::Stored { seq, index, hash, parent } => {
                    let follows = last == index.checked_sub(1).map(|before| (seq, before));
                    match events.last_mut() {
                        Some(KvEvent::Stored { hashes, .. }) if follows => hashes.push(hash),
                        _ => {
                            let Some(text) = self.texts.get(&seq).cloned() else { continue };
                            events.push(KvEvent::Stored { text, first: index, hashes: vec![hash], parent });
                        }
                    }
                    last = Some((seq, index));
                }
                BlockChange::Removed { hash } => {
                    events.push(KvEvent::Removed { hash });
                    last = None;
                }
                BlockChange::Cleared => {
                    events.push(KvEvent::Cleared);
                    last = None;
                }
            }
        }
        events
    }
}
