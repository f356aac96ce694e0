//! A msgpack reader that pulls one value at a time.
//!
//! No tree, no recursion: a value that nobody wants is passed over with a
//! counter, so nesting costs no stack. A length that the rest of the payload
//! cannot hold is refused before anything is reserved for it.

use super::KvEventError;

/// One value, or the head of an array or a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    /// An integer as its 64 bits; `negative` when the sign is to be kept.
    Int {
        bits: u64,
        negative: bool,
    },
    Float(f64),
    Str(&'a [u8]),
    Bin(&'a [u8]),
    /// So many values follow.
    Array(usize),
    /// So many pairs follow.
    Map(usize),
    Ext,
}

#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// An error at the place that was read last.
    pub(super) fn error<T>(&self, problem: &'static str) -> Result<T, KvEventError> {
        Err(KvEventError::Payload { at: self.at, problem })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], KvEventError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..n)) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => self.error("it ends within a value"),
        }
    }

    /// A big-endian number of `n` ≤ 8 bytes.
    fn number(&mut self, n: usize) -> Result<u64, KvEventError> {
        Ok(self.take(n)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn length(&mut self, n: usize) -> Result<usize, KvEventError> {
        Ok(usize::try_from(self.number(n)?).unwrap_or(usize::MAX))
    }

    /// The number of values that follow, each of which takes a byte at least.
    fn count(&self, n: usize, bytes_each: usize) -> Result<usize, KvEventError> {
        if n > (self.bytes.len() - self.at) / bytes_each {
            return self.error("a length is greater than what is left of the payload");
        }
        Ok(n)
    }

    pub(super) fn next(&mut self) -> Result<Value<'a>, KvEventError> {
        let int = |bits| Value::Int { bits, negative: false };
        let signed = |bits: i64| Value::Int { bits: bits as u64, negative: bits < 0 };
        let first = self.number(1)? as u8;
        Ok(match first {
            0x00..=0x7f => int(u64::from(first)),
            0x80..=0x8f => Value::Map(self.count(usize::from(first & 0x0f), 2)?),
            0x90..=0x9f => Value::Array(self.count(usize::from(first & 0x0f), 1)?),
            0xa0..=0xbf => Value::Str(self.take(usize::from(first & 0x1f))?),
            0xc0 => Value::Nil,
            0xc1 => return self.error("0xc1 is no value"),
            0xc2 | 0xc3 => Value::Bool(first == 0xc3),
            0xc4..=0xc6 => {
                let n = self.length(1 << (first - 0xc4))?;
                Value::Bin(self.take(n)?)
            }
            0xc7..=0xc9 => {
                let n = self.length(1 << (first - 0xc7))?;
                self.take(n.saturating_add(1))?;
                Value::Ext
            }
            0xca => Value::Float(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => Value::Float(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => int(self.number(1 << (first - 0xcc))?),
            0xd0 => signed(i64::from(self.number(1)? as i8)),
            0xd1 => signed(i64::from(self.number(2)? as i16)),
            0xd2 => signed(i64::from(self.number(4)? as i32)),
            0xd3 => signed(self.number(8)? as i64),
            0xd4..=0xd8 => {
                self.take(1 + (1 << (first - 0xd4)))?;
                Value::Ext
            }
            0xd9..=0xdb => {
                let n = self.length(1 << (first - 0xd9))?;
                Value::Str(self.take(n)?)
            }
            0xdc | 0xdd => {
                let n = self.length(2 << (first - 0xdc))?;
                Value::Array(self.count(n, 1)?)
            }
            0xde | 0xdf => {
                let n = self.length(2 << (first - 0xde))?;
                Value::Map(self.count(n, 2)?)
            }
            0xe0..=0xff => signed(i64::from(first as i8)),
        })
    }

    /// Passes over one value with everything in it.
    pub(super) fn skip(&mut self) -> Result<(), KvEventError> {
        let mut left = 1usize;
        while left > 0 {
            left -= 1;
            left += match self.next()? {
                Value::Array(n) => n,
                Value::Map(n) => n * 2,
                _ => 0,
            };
        }
        Ok(())
    }

    /// The head of an array; `None` for nil.
    pub(super) fn array(&mut self, problem: &'static str) -> Result<Option<usize>, KvEventError> {
        match self.next()? {
            Value::Array(n) => Ok(Some(n)),
            Value::Nil => Ok(None),
            _ => self.error(problem),
        }
    }

    /// A text; `None` for nil. What is no UTF-8 is replaced, not refused.
    pub(super) fn text(&mut self, problem: &'static str) -> Result<Option<String>, KvEventError> {
        match self.next()? {
            Value::Str(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
            Value::Nil => Ok(None),
            _ => self.error(problem),
        }
    }

    /// A number from 0 to 2³² − 1; `None` for nil.
    pub(super) fn small(&mut self, problem: &'static str) -> Result<Option<u32>, KvEventError> {
        match self.next()? {
            Value::Int { bits, negative: false } if bits <= u64::from(u32::MAX) => Ok(Some(bits as u32)),
            Value::Nil => Ok(None),
            _ => self.error(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_number() {
        let cases: [(&[u8], u64, bool); 10] = [
            (&[0x7f], 127, false),
            (&[0xe0], -32i64 as u64, true),
            (&[0xcc, 0xff], 255, false),
            (&[0xcd, 1, 0], 256, false),
            (&[0xce, 0, 1, 0, 0], 65_536, false),
            (&[0xcf, 0xff, 0, 0, 0, 0, 0, 0, 1], 0xff00_0000_0000_0001, false),
            (&[0xd0, 0x80], -128i64 as u64, true),
            (&[0xd1, 0x80, 0], -32_768i64 as u64, true),
            (&[0xd2, 0x80, 0, 0, 0], i64::from(i32::MIN) as u64, true),
            (&[0xd3, 0, 0, 0, 0, 0, 0, 0, 9], 9, false),
        ];
        for (bytes, bits, negative) in cases {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.next(), Ok(Value::Int { bits, negative }), "{bytes:02x?}");
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn skipping_passes_over_exactly_one_value() {
        let nested = [0x92, 0x82, 0xa1, b'a', 0x91, 0xc0, 0x01, 0xc4, 2, 9, 9, 0xd5, 1, 2, 3, 0x2a];
        let mut reader = Reader::new(&nested);
        reader.skip().unwrap();
        assert_eq!(reader.next(), Ok(Value::Int { bits: 42, negative: false }));
        let deep = [0x91; 100_000];
        assert!(Reader::new(&deep).skip().is_err(), "and without a stack");
    }

    #[test]
    fn lengths_are_held_against_what_is_left() {
        for bytes in [
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 1][..],
            &[0xdf, 0, 0, 0, 2, 1, 1, 1],
            &[0xc6, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xc9, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xcf, 1],
            &[0xc1],
            &[],
        ] {
            assert!(Reader::new(bytes).next().is_err(), "{bytes:02x?}");
        }
    }
}
