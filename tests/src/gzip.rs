//! Gzip with stored blocks only, written and read by hand: one member, flushed
//! after every event, which is what a compressing mesh puts on the wire.

/// Writes one gzip member piece by piece.
#[derive(Default)]
pub struct Encoder {
    started: bool,
    crc: Crc,
    len: u32,
}

impl Encoder {
    /// The bytes that carry `data` (at most 65,535 bytes) and end at a byte boundary.
    pub fn flush(&mut self, data: &[u8]) -> Vec<u8> {
        let mut out = self.header();
        self.crc.update(data);
        self.len = self.len.wrapping_add(u32::try_from(data.len()).unwrap());
        out.extend_from_slice(&block(data, false));
        out
    }

    /// The end of the member.
    pub fn finish(mut self) -> Vec<u8> {
        let mut out = self.header();
        out.extend_from_slice(&block(b"", true));
        out.extend_from_slice(&self.crc.value().to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out
    }

    fn header(&mut self) -> Vec<u8> {
        if std::mem::replace(&mut self.started, true) {
            return Vec::new();
        }
        vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]
    }
}

fn block(data: &[u8], last: bool) -> Vec<u8> {
    let len = u16::try_from(data.len()).expect("a stored block holds at most 65,535 bytes");
    let mut out = vec![u8::from(last)];
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(data);
    out
}

/// One whole member.
pub fn encode(data: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut out = encoder.flush(data);
    out.extend(encoder.finish());
    out
}

/// Decodes one whole member of stored blocks, checking lengths and checksum.
pub fn decode(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut rest = bytes.strip_prefix(&[0x1f, 0x8b, 8, 0]).ok_or("no gzip header")?;
    rest = rest.get(6..).ok_or("header cut")?;
    let mut out = Vec::new();
    loop {
        let head = rest.get(..5).ok_or("block header cut")?;
        let len = u16::from_le_bytes([head[1], head[2]]);
        if head[0] > 1 || u16::from_le_bytes([head[3], head[4]]) != !len {
            return Err(format!("not a stored block: {head:?}"));
        }
        out.extend_from_slice(rest.get(5..5 + usize::from(len)).ok_or("block cut")?);
        rest = &rest[5 + usize::from(len)..];
        if head[0] == 1 {
            break;
        }
    }
    let mut crc = Crc::default();
    crc.update(&out);
    let mut trailer = crc.value().to_le_bytes().to_vec();
    trailer.extend_from_slice(&u32::try_from(out.len()).unwrap().to_le_bytes());
    if rest == trailer { Ok(out) } else { Err("wrong trailer".to_string()) }
}

struct Crc(u32);

impl Default for Crc {
    fn default() -> Self {
        Crc(!0)
    }
}

impl Crc {
    fn update(&mut self, data: &[u8]) {
        for byte in data {
            self.0 ^= u32::from(*byte);
            for _ in 0..8 {
                self.0 = if self.0 & 1 == 1 { (self.0 >> 1) ^ 0xedb8_8320 } else { self.0 >> 1 };
            }
        }
    }

    fn value(&self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_standard_one() {
        let mut crc = Crc::default();
        crc.update(b"123456789");
        assert_eq!(crc.value(), 0xcbf4_3926);
    }

    #[test]
    fn what_is_written_can_be_read_and_a_cut_is_noticed() {
        let mut encoder = Encoder::default();
        let mut bytes = encoder.flush(b"one");
        bytes.extend(encoder.flush(b"two"));
        bytes.extend(encoder.finish());
        assert_eq!(decode(&bytes).unwrap(), b"onetwo");
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
