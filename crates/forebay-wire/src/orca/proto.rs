//! The serialized message: as much of protobuf as its nine fields need.

use super::{OrcaError, OrcaReport};

pub(super) fn parse(message: &[u8]) -> Result<(OrcaReport, u32), OrcaError> {
    let mut report = OrcaReport::default();
    let mut skipped = 0;
    let mut fields = Fields { message, at: 0 };
    while let Some((number, value)) = fields.next()? {
        let at = fields.at;
        let used = match (number, value) {
            (1, Value::Fixed64(bits)) => report.add("cpu_utilization", f64::from_bits(bits)),
            (2, Value::Fixed64(bits)) => report.add("mem_utilization", f64::from_bits(bits)),
            (3, Value::Varint(rps)) => report.add("rps", rps as f64),
            (6, Value::Fixed64(bits)) => report.add("rps_fractional", f64::from_bits(bits)),
            (7, Value::Fixed64(bits)) => report.add("eps", f64::from_bits(bits)),
            (9, Value::Fixed64(bits)) => report.add("application_utilization", f64::from_bits(bits)),
            (4 | 5 | 8, Value::Bytes(entry)) => {
                let map = match number {
                    4 => "request_cost",
                    5 => "utilization",
                    _ => "named_metrics",
                };
                let (key, value) = map_entry(entry).map_err(|inner| OrcaError::Message {
                    // The entry ends where the reader stands.
                    at: at - entry.len() + inner,
                })?;
                std::str::from_utf8(key).is_ok_and(|key| report.add(&format!("{map}.{key}"), value))
            }
            _ => false,
        };
        skipped += u32::from(!used);
    }
    Ok((report, skipped))
}

/// An entry of a map: a message of a string and a double, both optional.
fn map_entry(message: &[u8]) -> Result<(&[u8], f64), usize> {
    let mut fields = Fields { message, at: 0 };
    let (mut key, mut value): (&[u8], f64) = (b"", 0.0);
    loop {
        match fields.read() {
            Ok(None) => return Ok((key, value)),
            Ok(Some((1, Value::Bytes(bytes)))) => key = bytes,
            Ok(Some((2, Value::Fixed64(bits)))) => value = f64::from_bits(bits),
            Ok(Some(_)) => {}
            Err(Broken) => return Err(fields.at),
        }
    }
}

/// The fields of one message, in order.
struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

/// A field's value, by wire type.
#[derive(Clone, Copy)]
enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

struct Broken;

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, OrcaError> {
        self.read().map_err(|Broken| OrcaError::Message { at: self.at })
    }

    fn read(&mut self) -> Result<Option<(u64, Value<'a>)>, Broken> {
        if self.at == self.message.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| Broken)?)),
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(usize::try_from(len).map_err(|_| Broken)?)?)
            }
            5 => self.take(4).map(|_| Value::Fixed32)?,
            // Groups, which proto3 does not have.
            _ => return Err(Broken),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Broken> {
        let taken = self.message[self.at..].get(..len).ok_or(Broken)?;
        self.at += len;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Broken)
    }
}
