//! TensorRT-LLM's `/kv_cache_events`: a JSON array that empties its queue.

use serde::Deserialize;

use super::KvEventError;
use super::event::{Attention, KvEvent, Removed, Stored, Tier};

/// One entry of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrtllmEvent {
    /// Its number: one more than the last one's, so that a gap shows.
    pub id: u64,
    /// The rank, with data-parallel attention.
    pub rank: Option<u32>,
    /// What happened; empty for entries that change no block.
    pub events: Vec<KvEvent>,
}

#[derive(Deserialize)]
struct Raw {
    event_id: u64,
    data: serde_json::Value,
    #[serde(default)]
    window_size: Option<u32>,
    #[serde(default)]
    attention_dp_rank: Option<u32>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Data {
    Stored {
        #[serde(default)]
        parent_hash: Option<u64>,
        blocks: Vec<Block>,
    },
    Removed {
        block_hashes: Vec<u64>,
    },
    Updated {
        block_hash: u64,
        #[serde(default)]
        cache_level: Option<Diff>,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Block {
    block_hash: u64,
    tokens: Vec<Token>,
    #[serde(default)]
    cache_level: u32,
    #[serde(default)]
    lora_id: Option<u64>,
    /// Newer builds name the images in a block.
    #[serde(default)]
    mm_keys: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Token {
    token_id: u32,
    /// Not zero for tokens that stand for an image or a virtual prompt.
    #[serde(default)]
    token_extra_id: u64,
}

#[derive(Deserialize)]
struct Diff {
    #[serde(default)]
    new_value: Option<u32>,
    #[serde(default)]
    old_value: Option<u32>,
}

/// Reads the body of one answer. The entry's attention window becomes the
/// block's group, since each window has blocks of its own.
///
/// # Errors
///
/// When the body is not an array of such entries.
pub fn decode_trtllm(body: &[u8]) -> Result<Vec<TrtllmEvent>, KvEventError> {
    let json = |error: serde_json::Error| KvEventError::Json(error.to_string());
    let entries: Vec<Raw> = serde_json::from_slice(body).map_err(json)?;
    let mut events = Vec::with_capacity(entries.len());
    for entry in entries {
        let data: Data = serde_json::from_value(entry.data).map_err(json)?;
        let events_of_entry = changes(data, entry.window_size);
        events.push(TrtllmEvent {
            id: entry.event_id,
            rank: entry.attention_dp_rank,
            events: events_of_entry,
        });
    }
    Ok(events)
}

fn changes(data: Data, group: Option<u32>) -> Vec<KvEvent> {
    match data {
        Data::Stored { parent_hash, blocks } => {
            let mut parent = parent_hash;
            let stored = blocks.into_iter().map(|block| {
                let event = block.stored(parent, group);
                parent = Some(block.block_hash);
                event
            });
            stored.collect()
        }
        Data::Removed { block_hashes } => {
            vec![KvEvent::Removed(Removed { hashes: block_hashes, tier: None, group })]
        }
        Data::Updated { block_hash, cache_level: Some(Diff { new_value: Some(new), old_value }) } => {
            // First there, then no longer here, so that it is never nowhere.
            let mut moved = vec![KvEvent::Stored(Stored {
                tokens: Vec::new(),
                ..stored(block_hash, None, group, level(new))
            })];
            if let Some(old) = old_value.filter(|&old| level(old) != level(new)) {
                let tier = Some(level(old));
                moved.push(KvEvent::Removed(Removed { hashes: vec![block_hash], tier, group }));
            }
            moved
        }
        Data::Updated { .. } | Data::Unknown => Vec::new(),
    }
}

impl Block {
    /// One event per block: the last of a chain may be shorter than the others.
    fn stored(&self, parent: Option<u64>, group: Option<u32>) -> KvEvent {
        let plain = self.mm_keys.is_empty()
            && self.lora_id.is_none_or(|id| id == 0)
            && self.tokens.iter().all(|token| token.token_extra_id == 0);
        KvEvent::Stored(Stored {
            tokens: self.tokens.iter().map(|token| token.token_id).collect(),
            block_size: u32::try_from(self.tokens.len()).unwrap_or(u32::MAX).max(1),
            identified: usize::from(plain),
            ..stored(self.block_hash, parent, group, level(self.cache_level))
        })
    }
}

fn stored(hash: u64, parent: Option<u64>, group: Option<u32>, tier: Tier) -> Stored {
    Stored {
        hashes: vec![hash],
        parent,
        tokens: Vec::new(),
        block_size: 1,
        declared: false,
        adapter: None,
        salt: None,
        tier,
        group,
        attention: Attention::Unknown,
        identified: 1,
    }
}

/// The tier of a cache level: 0 is the primary one, 1 the host's memory.
fn level(level: u32) -> Tier {
    match level {
        0 => Tier::Gpu,
        1 => Tier::Host,
        _ => Tier::Other,
    }
}
