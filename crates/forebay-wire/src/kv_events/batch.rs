//! One msgpack batch: `[ts, [events], data_parallel_rank]`.

use super::event::{Attention, KvEvent, Removed, Stored, Tier};
use super::msgpack::{Reader, Value};
use super::{KvEventError, extra};

/// What an engine published in one message.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// When it was made, in seconds since 1970 by the engine's clock.
    pub ts: f64,
    /// The data-parallel rank that it comes from.
    pub dp_rank: Option<u32>,
    /// What happened, in order.
    pub events: Vec<KvEvent>,
    /// Events of types that are not known here, left out.
    pub skipped: u32,
}

/// Fields of an event in array form, in the order they were added.
const STORED: [&[u8]; 9] = [
    b"block_hashes",
    b"parent_block_hash",
    b"token_ids",
    b"block_size",
    b"lora_id",
    b"medium",
    b"lora_name",
    b"extra_keys",
    b"group_idx",
];
const REMOVED: [&[u8]; 3] = [b"block_hashes", b"medium", b"group_idx"];

/// The largest block size that is believed, in tokens.
const MAX_BLOCK_SIZE: u32 = 65_536;

/// Reads the payload of one message of vLLM or SGLang.
///
/// What is kept is bounded by the payload: at most eight bytes per byte of it.
///
/// # Errors
///
/// When it is not msgpack, or a known field has a type that no version sends.
/// Nothing of such a batch should be used: whoever follows an engine must
/// forget what it knew, because the batch may have removed blocks.
pub fn decode_batch(payload: &[u8]) -> Result<Batch, KvEventError> {
    let reader = &mut Reader::new(payload);
    let Value::Array(parts @ 2..) = reader.next()? else {
        return reader.error("a batch is an array of time, events and rank");
    };
    let ts = match reader.next()? {
        Value::Float(ts) => ts,
        Value::Int { bits, .. } => bits as f64,
        _ => return reader.error("the time is not a number"),
    };
    let mut batch = Batch { ts, dp_rank: None, events: Vec::new(), skipped: 0 };
    let count = reader.array("the events are not a list")?.unwrap_or_default();
    for _ in 0..count {
        match event(reader)? {
            Some(event) => batch.events.push(event),
            None => batch.skipped = batch.skipped.saturating_add(1),
        }
    }
    if parts > 2 {
        batch.dp_rank = reader.small("the rank is not a number")?;
    }
    (3..parts).try_for_each(|_| reader.skip())?;
    if !reader.is_empty() {
        return reader.error("more follows after the batch");
    }
    Ok(batch)
}

/// One event, in array or map form; `None` when its type is not known.
fn event(reader: &mut Reader<'_>) -> Result<Option<KvEvent>, KvEventError> {
    let start = reader.clone();
    match reader.next()? {
        Value::Array(n @ 1..) => {
            let tag = tag(reader)?;
            let mut event = Pending::new(tag);
            let order: &[&[u8]] = match tag {
                b"BlockStored" => &STORED,
                b"BlockRemoved" => &REMOVED,
                _ => &[],
            };
            for place in 0..n - 1 {
                event.field(order.get(place).copied().unwrap_or_default(), reader)?;
            }
            event.finish(reader)
        }
        Value::Map(n) => {
            let body = reader.clone();
            let mut found = None;
            for _ in 0..n {
                match reader.next()? {
                    Value::Str(b"type") => {
                        found = Some(tag(reader)?);
                        break;
                    }
                    Value::Str(_) => reader.skip()?,
                    _ => return reader.error("a field's name is not a text"),
                }
            }
            let Some(tag) = found else { return reader.error("an event has no type") };
            *reader = body;
            let mut event = Pending::new(tag);
            for _ in 0..n {
                match reader.next()? {
                    Value::Str(name) => event.field(name, reader)?,
                    _ => return reader.error("a field's name is not a text"),
                }
            }
            event.finish(reader)
        }
        _ => start.error("an event is neither an array nor a map"),
    }
}

fn tag<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], KvEventError> {
    match reader.next()? {
        Value::Str(tag) => Ok(tag),
        _ => reader.error("an event's type is not a text"),
    }
}

/// An event whose fields are being collected.
struct Pending<'a> {
    tag: &'a [u8],
    hashes: Vec<u64>,
    parent: Option<u64>,
    tokens: Vec<u32>,
    /// Index of the first token that is not an id (SGLang pads images so).
    odd_token: Option<usize>,
    block_size: Option<u32>,
    lora_id: Option<u64>,
    adapter: Option<String>,
    salt: Option<String>,
    medium: Option<String>,
    remote: bool,
    group: Option<u32>,
    kind: Option<String>,
    /// Where `extra_keys` was, to be read when the other fields are known.
    extra: Option<Reader<'a>>,
}

impl<'a> Pending<'a> {
    fn new(tag: &'a [u8]) -> Pending<'a> {
        Pending {
            tag,
            hashes: Vec::new(),
            parent: None,
            tokens: Vec::new(),
            odd_token: None,
            block_size: None,
            lora_id: None,
            adapter: None,
            salt: None,
            medium: None,
            remote: false,
            group: None,
            kind: None,
            extra: None,
        }
    }

    fn field(&mut self, name: &[u8], reader: &mut Reader<'a>) -> Result<(), KvEventError> {
        // A type that is not known may use a known name for something else.
        if !matches!(self.tag, b"BlockStored" | b"BlockRemoved") {
            return reader.skip();
        }
        match name {
            b"block_hashes" => {
                let n = reader.array("block_hashes is not a list")?.unwrap_or_default();
                self.hashes = Vec::with_capacity(n);
                for _ in 0..n {
                    match hash(reader)? {
                        Some(hash) => self.hashes.push(hash),
                        None => return reader.error("a block's hash is nil"),
                    }
                }
            }
            b"parent_block_hash" => self.parent = hash(reader)?,
            b"token_ids" => self.read_tokens(reader)?,
            b"block_size" => self.block_size = reader.small("block_size is not a number of tokens")?,
            b"lora_id" => {
                self.lora_id = match reader.next()? {
                    Value::Int { bits, .. } => Some(bits),
                    Value::Nil => None,
                    _ => return reader.error("lora_id is not a number"),
                }
            }
            b"lora_name" => self.adapter = reader.text("lora_name is not a text")?,
            b"cache_salt" => self.salt = reader.text("cache_salt is not a text")?,
            b"medium" => self.medium = reader.text("medium is not a text")?,
            b"locality" => {
                let locality = reader.text("locality is not a text")?;
                self.remote = locality.is_some_and(|name| name.eq_ignore_ascii_case("REMOTE"));
            }
            b"group_idx" => self.group = reader.small("group_idx is not a number")?,
            b"kv_cache_spec_kind" => self.kind = reader.text("kv_cache_spec_kind is not a text")?,
            b"extra_keys" => {
                self.extra = Some(reader.clone());
                reader.skip()?;
            }
            _ => reader.skip()?,
        }
        Ok(())
    }

    /// Token ids; with EAGLE, SGLang sends each as a pair with the one after.
    fn read_tokens(&mut self, reader: &mut Reader<'a>) -> Result<(), KvEventError> {
        let n = reader.array("token_ids is not a list")?.unwrap_or_default();
        self.tokens = Vec::with_capacity(n);
        for place in 0..n {
            let mut value = reader.next()?;
            if let Value::Array(2) = value {
                value = reader.next()?;
                reader.skip()?;
            }
            match value {
                Value::Int { bits, negative: false } if bits <= u64::from(u32::MAX) => {
                    self.tokens.push(bits as u32);
                }
                Value::Int { .. } => {
                    self.odd_token.get_or_insert(place);
                    self.tokens.push(u32::MAX);
                }
                _ => return reader.error("a token id is not a number"),
            }
        }
        Ok(())
    }

    fn finish(self, reader: &Reader<'a>) -> Result<Option<KvEvent>, KvEventError> {
        match self.tag {
            b"BlockStored" => self.stored(reader).map(Some),
            b"BlockRemoved" => {
                let tier = Some(self.tier());
                Ok(Some(KvEvent::Removed(Removed { hashes: self.hashes, tier, group: self.group })))
            }
            b"AllBlocksCleared" => Ok(Some(KvEvent::Cleared)),
            _ => Ok(None),
        }
    }

    fn tier(&self) -> Tier {
        if self.remote { Tier::Other } else { Tier::of_medium(self.medium.as_deref()) }
    }

    fn stored(self, reader: &Reader<'a>) -> Result<KvEvent, KvEventError> {
        let Some(block_size @ 1..=MAX_BLOCK_SIZE) = self.block_size else {
            return reader.error("block_size is missing or no size");
        };
        let mut identified = self.hashes.len();
        if let Some(place) = self.odd_token {
            identified = identified.min(place / block_size as usize);
        }
        // Up to vLLM 0.13 an adapter has only a number, which differs between endpoints.
        if self.lora_id.is_some_and(|id| id != 0) && self.adapter.is_none() {
            identified = 0;
        }
        let mut salt = self.salt.clone();
        if let Some(mut at) = self.extra.clone() {
            let extra = extra::read(&mut at, self.adapter.as_deref(), self.parent.is_none())?;
            identified = identified.min(extra.opaque_from);
            salt = salt.or(extra.salt);
        }
        Ok(KvEvent::Stored(Stored {
            tier: self.tier(),
            attention: Attention::of_kind(self.kind.as_deref()),
            hashes: self.hashes,
            parent: self.parent,
            tokens: self.tokens,
            block_size,
            declared: true,
            adapter: self.adapter,
            salt,
            group: self.group,
            identified,
        }))
    }
}

/// A block's hash as 64 bits: an integer, or the last eight bytes of a digest,
/// which is what engines send as the integer. `None` for nil.
fn hash(reader: &mut Reader<'_>) -> Result<Option<u64>, KvEventError> {
    match reader.next()? {
        Value::Int { bits, .. } => Ok(Some(bits)),
        Value::Bin(digest) => Ok(Some(digest.iter().fold(0, |hash, &byte| hash << 8 | u64::from(byte)))),
        Value::Nil => Ok(None),
        _ => reader.error("a block's hash is neither a number nor bytes"),
    }
}
