//! Heads of requests and responses.

/// How long the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    /// Neither header: no body in a request, all until the end in a response.
    Unsaid,
}

/// What is read from the head of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the head with the blank line that ends it.
    pub(crate) length: usize,
    pub(crate) start_line: String,
    pub(crate) framing: Framing,
    /// The sender closes the connection after this message.
    pub(crate) close: bool,
}

impl Head {
    /// Reads a head from the start of `bytes`; `None` when its end has not
    /// come yet. Bytes that are no head are an error.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Head>, String> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes[..end]).map_err(|e| format!("head: {e}"))?;
        let mut lines = text.split("\r\n");
        let start_line = lines.next().unwrap_or_default().to_owned();
        let mut head = Head { length: end + 4, start_line, framing: Framing::Unsaid, close: false };
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("header line {line:?}"))?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                let length = value.parse().map_err(|_| format!("content-length {value:?}"))?;
                head.framing = Framing::Length(length);
            } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked")
            {
                head.framing = Framing::Chunked;
            } else if name.eq_ignore_ascii_case("connection") {
                head.close = value.eq_ignore_ascii_case("close");
            }
        }
        Ok(Some(head))
    }

    /// The status code of a response's head.
    pub(crate) fn status(&self) -> Result<u16, String> {
        let code = self.start_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.ok_or_else(|| format!("status line {:?}", self.start_line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_heads() {
        let parse = |text: &str| Head::parse(text.as_bytes());
        assert_eq!(parse("HTTP/1.1 200 OK\r\nA: b\r\n"), Ok(None));
        for (text, framing, close) in [
            ("HTTP/1.1 200 OK\r\nContent-LENGTH: 12\r\n\r\nbody", Framing::Length(12), false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
                Framing::Chunked,
                true,
            ),
            ("HTTP/1.1 200 OK\r\n\r\n", Framing::Unsaid, false),
        ] {
            let head = parse(text).unwrap().unwrap();
            assert_eq!((head.framing, head.close, head.status()), (framing, close, Ok(200)), "{text:?}");
            assert_eq!(&text[head.length..], text.split_once("\r\n\r\n").unwrap().1);
        }
        assert!(parse("HTTP/1.1 200 OK\r\nno colon\r\n\r\n").is_err());
        assert!(parse("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n").is_err());
    }
}
