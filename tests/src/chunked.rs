//! A strict incremental decoder of the chunked coding, which knows the
//! difference between an end and a cut.

/// Where the decoder stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Size,
    Data(usize),
    DataEnd,
    Trailer,
    Done,
    Bad(String),
}

/// Decodes one chunked body that comes in pieces.
#[derive(Debug)]
pub struct ChunkDecoder {
    state: State,
    buffer: Vec<u8>,
}

impl Default for ChunkDecoder {
    fn default() -> Self {
        ChunkDecoder { state: State::Size, buffer: Vec::new() }
    }
}

impl ChunkDecoder {
    /// Takes what came and gives the payload that is whole so far.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.buffer.extend_from_slice(bytes);
        let mut out = Vec::new();
        let mut at = 0;
        loop {
            let rest = &self.buffer[at..];
            match &mut self.state {
                State::Size => {
                    let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else { break };
                    let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                    let digits = line.split(';').next().unwrap_or_default().trim();
                    at += end + 2;
                    self.state = match usize::from_str_radix(digits, 16) {
                        Ok(0) => State::Trailer,
                        Ok(n) => State::Data(n),
                        Err(_) => State::Bad(format!("chunk size {line:?}")),
                    };
                }
                State::Data(left) => {
                    if rest.is_empty() {
                        break;
                    }
                    let n = rest.len().min(*left);
                    out.extend_from_slice(&rest[..n]);
                    at += n;
                    *left -= n;
                    if *left == 0 {
                        self.state = State::DataEnd;
                    }
                }
                State::DataEnd => {
                    if rest.len() < 2 {
                        break;
                    }
                    self.state = if rest.starts_with(b"\r\n") {
                        State::Size
                    } else {
                        State::Bad("no line end after a chunk".to_string())
                    };
                    at += 2;
                }
                State::Trailer => {
                    let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else { break };
                    at += end + 2;
                    if end == 0 {
                        self.state = State::Done;
                    }
                }
                State::Done | State::Bad(_) => break,
            }
        }
        self.buffer.drain(..at);
        out
    }

    /// True when the last chunk and the trailer are there.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// What was wrong with the framing.
    pub fn error(&self) -> Option<&str> {
        match &self.state {
            State::Bad(why) => Some(why),
            _ => None,
        }
    }

    /// Takes the bytes behind the body.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"5\r\nhello\r\n6;x=1\r\n world\r\n0\r\nX-T: 1\r\n\r\nNEXT";

    #[test]
    fn every_split_point_gives_the_same_payload() {
        for cut in 0..=BODY.len() {
            let mut decoder = ChunkDecoder::default();
            let mut out = decoder.push(&BODY[..cut]);
            out.extend(decoder.push(&BODY[cut..]));
            assert_eq!(out, b"hello world", "cut at {cut}");
            assert!(decoder.is_done(), "cut at {cut}");
            assert_eq!(decoder.take_rest(), b"NEXT");
        }
    }

    #[test]
    fn a_cut_body_is_not_done() {
        let end = BODY.len() - b"\r\n\r\nNEXT".len();
        for cut in 0..end {
            let mut decoder = ChunkDecoder::default();
            decoder.push(&BODY[..cut]);
            assert!(!decoder.is_done(), "cut at {cut}");
            assert_eq!(decoder.error(), None, "cut at {cut}");
        }
    }

    #[test]
    fn wrong_framing_is_an_error() {
        for bad in [&b"xyz\r\n"[..], b"1\r\nabc\r\n", b"-1\r\n"] {
            let mut decoder = ChunkDecoder::default();
            decoder.push(bad);
            assert!(decoder.error().is_some(), "{bad:?}");
            assert!(!decoder.is_done());
        }
    }
}
