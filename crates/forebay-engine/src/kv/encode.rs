//! Events as MessagePack: a batch is an array of time, events and rank, an
//! event is a map.

use super::{KvBatch, KvEvent};

/// The payload of a batch of data-parallel rank 0.
pub(super) fn payload(batch: &KvBatch, block_size: u32) -> Vec<u8> {
    let mut out = Pack(Vec::with_capacity(256));
    out.array(3);
    out.float(batch.unix);
    out.array(batch.events.len());
    for event in &batch.events {
        out.event(event, block_size);
    }
    out.uint(0);
    out.0
}

struct Pack(Vec<u8>);

impl Pack {
    /// Fields and their order are vLLM's.
    fn event(&mut self, event: &KvEvent, block_size: u32) {
        match event {
            KvEvent::Stored { text, first, hashes, parent } => {
                let from = (*first as usize * block_size as usize).min(text.tokens.len());
                let to = (from + hashes.len() * block_size as usize).min(text.tokens.len());
                self.map(11);
                self.pair("type", "BlockStored");
                self.text("block_hashes");
                self.uints(hashes.iter().copied());
                self.text("parent_block_hash");
                self.option(*parent);
                self.text("token_ids");
                self.uints(text.tokens[from..to].iter().map(|id| u64::from(*id)));
                self.text("block_size");
                self.uint(u64::from(block_size));
                self.text("lora_id");
                self.option(text.adapter.as_ref().map(|(id, _)| u64::from(*id)));
                self.pair("medium", "GPU");
                self.text("lora_name");
                match &text.adapter {
                    Some((_, name)) => self.text(name),
                    None => self.nil(),
                }
                self.text("extra_keys");
                self.array(hashes.len());
                for index in (0u32..).take(hashes.len()) {
                    let salt = text.salt.as_deref().filter(|_| first + index == 0);
                    let adapter = text.adapter.as_ref().map(|(_, name)| name.as_str());
                    self.extra_keys(adapter, salt);
                }
                self.text("group_idx");
                self.uint(0);
                self.pair("kv_cache_spec_kind", "full_attention");
            }
            KvEvent::Removed { hash } => {
                self.map(4);
                self.pair("type", "BlockRemoved");
                self.text("block_hashes");
                self.uints(std::iter::once(*hash));
                self.pair("medium", "GPU");
                self.text("group_idx");
                self.uint(0);
            }
            KvEvent::Cleared => {
                self.map(1);
                self.pair("type", "AllBlocksCleared");
            }
        }
    }

    /// What a block's identity has besides its tokens: the adapter in each
    /// block, the salt in the first one only.
    fn extra_keys(&mut self, adapter: Option<&str>, salt: Option<&str>) {
        let keys = [adapter, salt].into_iter().flatten();
        match keys.clone().count() {
            0 => self.nil(),
            n => {
                self.array(n);
                keys.for_each(|key| self.text(key));
            }
        }
    }

    fn pair(&mut self, name: &str, value: &str) {
        self.text(name);
        self.text(value);
    }

    fn uints(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        self.array(values.len());
        values.for_each(|value| self.uint(value));
    }

    fn option(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.uint(value),
            None => self.nil(),
        }
    }

    fn nil(&mut self) {
        self.0.push(0xc0);
    }

    fn float(&mut self, value: f64) {
        self.0.push(0xcb);
        self.0.extend(value.to_be_bytes());
    }

    /// In the fewest bytes, as every number.
    fn uint(&mut self, value: u64) {
        let bytes = value.to_be_bytes();
        match value {
            0..0x80 => self.0.push(value as u8),
            0x80..0x100 => self.tagged(0xcc, &bytes[7..]),
            0x100..0x1_0000 => self.tagged(0xcd, &bytes[6..]),
            0x1_0000..0x1_0000_0000 => self.tagged(0xce, &bytes[4..]),
            _ => self.tagged(0xcf, &bytes),
        }
    }

    fn text(&mut self, text: &str) {
        match text.len() {
            n @ 0..32 => self.0.push(0xa0 | n as u8),
            n @ 32..0x100 => self.tagged(0xd9, &[n as u8]),
            n @ 0x100..0x1_0000 => self.tagged(0xda, &(n as u16).to_be_bytes()),
            n => self.tagged(0xdb, &(n as u32).to_be_bytes()),
        }
        self.0.extend(text.as_bytes());
    }

    fn array(&mut self, len: usize) {
        match len {
            n @ 0..16 => self.0.push(0x90 | n as u8),
            n @ 16..0x1_0000 => self.tagged(0xdc, &(n as u16).to_be_bytes()),
            n => self.tagged(0xdd, &(n as u32).to_be_bytes()),
        }
    }

    /// Of fewer than 16 pairs.
    fn map(&mut self, pairs: u8) {
        self.0.push(0x80 | pairs);
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0.extend(bytes);
    }
}
