//! The chunked transfer coding.

/// `data` as one chunk.
pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Takes a chunked body apart, however its bytes are cut.
#[derive(Debug, Default)]
pub(crate) struct Chunked {
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a size line: the size so far, and whether an extension has begun.
    #[default]
    Start,
    Size(u64, bool),
    Data(u64),
    /// Between a chunk's data and its line end.
    DataEnd,
    /// In the trailer: how many bytes the current line has.
    Trailer(usize),
    Done,
}

impl Chunked {
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what belongs to the body off `bytes`, gives its data to `data`,
    /// and returns how many bytes it took.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, String> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            if let State::Data(left) = self.state {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                data(&bytes[at..at + take]);
                at += take;
                let left = left - take as u64;
                self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                continue;
            }
            self.state = self.state.after(bytes[at])?;
            at += 1;
        }
        Ok(at)
    }
}

impl State {
    /// The state after a byte that is not data.
    fn after(self, byte: u8) -> Result<State, String> {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        Ok(match (self, byte) {
            (State::Start, _) => State::Size(digit.ok_or("a chunk without a size")?, false),
            (State::Size(0, _), b'\n') => State::Trailer(0),
            (State::Size(size, _), b'\n') => State::Data(size),
            (State::Size(..), b'\r') => self,
            (State::Size(size, false), _) => match digit {
                Some(digit) => State::Size(size.checked_mul(16).ok_or("a huge chunk")? + digit, false),
                None => State::Size(size, true),
            },
            (State::Size(..), _) => self,
            (State::DataEnd, b'\r') => self,
            (State::DataEnd, b'\n') => State::Start,
            (State::DataEnd, _) => return Err("a chunk is longer than its size".to_owned()),
            (State::Trailer(0), b'\n') => State::Done,
            (State::Trailer(_), b'\n') => State::Trailer(0),
            (State::Trailer(_), b'\r') => self,
            (State::Trailer(length), _) => State::Trailer(length + 1),
            (State::Data(_) | State::Done, _) => self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote_at_every_cut() {
        let mut bytes = [chunk(b"data: one\n\n"), chunk(&[b'x'; 200]), chunk(b"")].concat();
        let body = [b"data: one\n\n".as_slice(), &[b'x'; 200]].concat();
        let length = bytes.len();
        bytes.extend_from_slice(b"HTTP/1.1 next");
        for cut in 0..length {
            let (mut chunked, mut data) = (Chunked::default(), Vec::new());
            let first = chunked.feed(&bytes[..cut], |part| data.extend_from_slice(part)).unwrap();
            assert_eq!((first, chunked.is_done()), (cut, false));
            let second = chunked.feed(&bytes[cut..], |part| data.extend_from_slice(part)).unwrap();
            assert_eq!((first + second, chunked.is_done()), (length, true));
            assert_eq!(data, body, "cut at {cut}");
        }
    }

    #[test]
    fn reads_extensions_and_trailers_and_refuses_nonsense() {
        let mut data = Vec::new();
        let mut chunked = Chunked::default();
        let bytes = b"3;a=b\r\nabc\r\n0\r\nTrailer: x\r\n\r\n";
        assert_eq!(chunked.feed(bytes, |part| data.extend_from_slice(part)), Ok(bytes.len()));
        assert!(chunked.is_done() && data == b"abc");
        for bytes in ["x\r\n", "1\r\nab\r\n", "ffffffffffffffffff\r\n"] {
            assert!(Chunked::default().feed(bytes.as_bytes(), |_| {}).is_err(), "{bytes:?}");
        }
    }
}
