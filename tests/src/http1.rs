//! A strict and literal reader of HTTP/1 heads: nothing is normalised, so that
//! a test can see what was really on the wire.

/// The start line and the fields of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Request line or status line, without its line end.
    pub start: String,
    /// Fields in order, names as spelled, values trimmed of blanks, both read as Latin-1.
    pub fields: Vec<(String, String)>,
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|b| char::from(*b)).collect()
}

impl Head {
    /// Reads one head from the front of `bytes`; gives it and its length with
    /// the blank line, or none while that line is not there.
    pub fn parse(bytes: &[u8]) -> Option<(Head, usize)> {
        let end = find(bytes, b"\r\n\r\n")?;
        let mut lines = bytes[..end].split(|b| *b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
        let start = latin1(lines.next().unwrap_or_default());
        let fields = lines
            .map(|line| {
                let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
                let value = latin1(line.get(colon + 1..).unwrap_or_default());
                (latin1(&line[..colon]), value.trim_matches([' ', '\t']).to_string())
            })
            .collect();
        Some((Head { start, fields }, end + 4))
    }

    /// Every value of the field, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// The first value of the field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// How many lines carry the field.
    pub fn count(&self, name: &str) -> usize {
        self.all(name).len()
    }

    /// The method of a request.
    pub fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// The target of a request, as sent.
    pub fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// The status of a response; 0 when the line has none.
    pub fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
    }

    /// True when the last transfer coding is `chunked`.
    pub fn is_chunked(&self) -> bool {
        self.all("transfer-encoding")
            .last()
            .is_some_and(|v| v.to_ascii_lowercase().trim().ends_with("chunked"))
    }

    /// The stated length of the body.
    pub fn content_length(&self) -> Option<usize> {
        self.get("content-length").and_then(|v| v.parse().ok())
    }
}

/// Where `needle` first is in `hay`.
pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    hay.windows(needle.len()).position(|w| w == needle)
}

/// How often `needle` is in `hay`, without overlap.
pub fn count(hay: &[u8], needle: &[u8]) -> usize {
    let mut n = 0;
    let mut rest = hay;
    while let Some(at) = find(rest, needle) {
        n += 1;
        rest = &rest[at + needle.len()..];
    }
    n
}

/// A request with `Host`, the given fields, and `Content-Length` when there is a body or the method has one.
pub fn request(method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("{method} {target} HTTP/1.1\r\n");
    if !fields.iter().any(|(n, _)| n.eq_ignore_ascii_case("host")) {
        out += "Host: gw.example\r\n";
    }
    for (name, value) in fields {
        out += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() || method == "POST" {
        out += &format!("Content-Length: {}\r\n", body.len());
    }
    out += "\r\n";
    let mut out = out.into_bytes();
    out.extend_from_slice(body);
    out
}

/// A JSON `POST`.
pub fn post(target: &str, body: &[u8]) -> Vec<u8> {
    request("POST", target, &[("Content-Type", "application/json")], body)
}

/// `body` as one chunk per `size` bytes, with the end chunk.
pub fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + body.len() / size.max(1) * 8 + 8);
    for piece in body.chunks(size.max(1)) {
        out.extend_from_slice(&chunk(piece));
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// One chunk of the chunked coding.
pub fn chunk(data: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", data.len()).into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_literally() {
        let (head, len) =
            Head::parse(b"POST /x HTTP/1.1\r\nHost: a\r\nX-B:  1 \r\nx-b: 2\r\n\r\nrest").unwrap();
        assert_eq!((head.method(), head.target(), len), ("POST", "/x", 47));
        assert_eq!(head.all("X-b"), ["1", "2"]);
        assert_eq!(head.count("missing"), 0);
        assert_eq!(Head::parse(b"POST /x HTTP/1.1\r\nHost: a\r\n"), None);
    }

    #[test]
    fn a_status_line_without_a_number_has_status_zero() {
        assert_eq!(Head::parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().0.status(), 204);
        assert_eq!(Head::parse(b"nonsense\r\n\r\n").unwrap().0.status(), 0);
    }

    #[test]
    fn occurrences_do_not_overlap() {
        assert_eq!(count(b"aaaa", b"aa"), 2);
        assert_eq!(count(b"abc", b"x"), 0);
    }
}
