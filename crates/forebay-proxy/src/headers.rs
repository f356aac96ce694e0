//! What is taken off and put on a message's head when it passes.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

/// Headers that are about one connection only (RFC 9110 §7.6.1 and the usual strays).
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authorization"
            | "proxy-authenticate"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
    )
}

/// Headers that steer this gateway. Never forwarded, whoever sent them.
fn is_control(name: &str) -> bool {
    name.starts_with("x-forebay-") || name.starts_with("x-llm-d-") || name.starts_with("x-gateway-")
}

/// End-to-end headers that a `Connection` header must not be able to strip: the
/// nomination is ignored.
fn is_protected(name: &str) -> bool {
    matches!(
        name,
        "host"
            | "content-length"
            | "content-type"
            | "content-encoding"
            | "authorization"
            | "x-api-key"
            | "x-request-id"
            | "accept"
            | "cache-control"
            | "date"
            | "server"
    )
}

/// Removes what is about one connection only, with everything that `Connection` nominates.
fn strip_hop_by_hop(headers: &mut HeaderMap, also: impl Fn(&HeaderName) -> bool) {
    let mut gone: SmallVec<[HeaderName; 6]> = SmallVec::new();
    for value in headers.get_all(header::CONNECTION) {
        for token in value.as_bytes().split(|b| *b == b',') {
            if let Ok(name) = HeaderName::from_bytes(token.trim_ascii())
                && !is_protected(name.as_str())
            {
                gone.push(name);
            }
        }
    }
    gone.extend(headers.keys().filter(|name| is_hop_by_hop(name) || also(name)).cloned());
    for name in gone {
        headers.remove(name);
    }
}

/// Makes a client's head into the one for the engine, except for the host.
pub(crate) fn prepare_request(headers: &mut HeaderMap, request_id: &HeaderValue, identity: bool) {
    strip_hop_by_hop(headers, |name| {
        // The length is stated anew from the bytes that are sent.
        *name == header::CONTENT_LENGTH || *name == header::EXPECT || is_control(name.as_str())
    });
    if identity {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    headers.insert(HeaderName::from_static("x-request-id"), request_id.clone());
}

/// Makes an engine's head into the one for the client.
pub(crate) fn prepare_response(headers: &mut HeaderMap, request_id: &HeaderValue) {
    // The coding wins over a length beside it (RFC 9112 §6.3).
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    // An engine may be another gateway of this kind; which endpoint it picked is
    // not this one's to say.
    strip_hop_by_hop(headers, |name| matches!(name.as_str(), "x-forebay-endpoint" | "x-forebay-held-tokens"));
    for single in [header::DATE, header::SERVER] {
        if headers.get_all(&single).iter().nth(1).is_some()
            && let Some(first) = headers.get(&single).cloned()
        {
            headers.insert(single, first);
        }
    }
    headers.insert(HeaderName::from_static("x-request-id"), request_id.clone());
}

/// Why a head is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadHead {
    /// No `Host`, more than one, or one that is not a host.
    Host,
    /// A transfer coding other than exactly `chunked`.
    UnknownCoding,
    /// Two lengths: `Transfer-Encoding` and `Content-Length`.
    TwoLengths,
}

/// Checks what HTTP/1 leaves to the recipient and hyper does not refuse
/// (RFC 9112 §3.2 and §6.1).
pub(crate) fn check_http1(parts: &http::request::Parts) -> Result<(), BadHead> {
    let mut codings = parts.headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(first) = codings.next() {
        if codings.next().is_some() || !first.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Err(BadHead::UnknownCoding);
        }
        if parts.headers.contains_key(header::CONTENT_LENGTH) {
            return Err(BadHead::TwoLengths);
        }
    }
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(BadHead::Host),
        (Some(host), None) if !is_host(host.as_bytes()) => Err(BadHead::Host),
        (None, None) if parts.version == http::Version::HTTP_11 => Err(BadHead::Host),
        _ => Ok(()),
    }
}

/// `uri-host [":" port]`; empty is allowed (RFC 9112 §3.2).
fn is_host(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    if value.is_empty() {
        return true;
    }
    if value
        .iter()
        .any(|b| matches!(b, b',' | b' ' | b'\t' | b'/' | b'?' | b'#' | b'@' | b'\\' | b'"' | b'<' | b'>'))
    {
        return false;
    }
    http::uri::Authority::try_from(value).is_ok_and(|authority| {
        let rest = authority.as_str().rsplit_once(']').map_or(authority.as_str(), |(_, port)| port);
        let port = rest.rsplit_once(':').map(|(_, port)| port);
        authority.as_str().matches('[').count() == authority.as_str().matches(']').count()
            && port.is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn nominated_headers_go_and_protected_ones_stay() {
        let mut headers = map(&[
            ("connection", "close, X-Internal-Trace, Authorization"),
            ("x-internal-trace", "1"),
            ("authorization", "Bearer k"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("http2-settings", "AA"),
            ("proxy-authorization", "Basic eA=="),
            ("x-forebay-priority", "critical"),
            ("expect", "100-continue"),
            ("content-length", "7"),
            ("accept", "*/*"),
        ]);
        prepare_request(&mut headers, &HeaderValue::from_static("id"), true);
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "accept-encoding", "authorization", "x-request-id"]);
    }

    #[test]
    fn an_answer_has_one_length_and_only_our_own_endpoint() {
        let mut headers = map(&[
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("x-forebay-endpoint", "http://inner"),
            ("server", "uvicorn"),
        ]);
        prepare_response(&mut headers, &HeaderValue::from_static("id"));
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["server", "x-request-id"]);
    }

    #[test]
    fn hosts() {
        for good in ["g", "g:80", "[::1]:8080", "[::1]", "", "a.b-c.example:65535"] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in ["a,b", "a b", "[::1", "a/b", "u@h", "h:x", "h:80:90"] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn framing_that_could_be_read_two_ways_is_refused() {
        let parts = |pairs: &[(&'static str, &'static str)]| {
            let mut request = http::Request::new(());
            *request.headers_mut() = map(pairs);
            request.into_parts().0
        };
        let check = |pairs: &[(&'static str, &'static str)]| check_http1(&parts(pairs));
        assert_eq!(check(&[("host", "g"), ("transfer-encoding", "Chunked")]), Ok(()));
        for coding in ["chunked, chunked", "chunked, identity", "gzip, chunked", "xchunked"] {
            assert_eq!(check(&[("host", "g"), ("transfer-encoding", coding)]), Err(BadHead::UnknownCoding));
        }
        let both = [("host", "g"), ("transfer-encoding", "chunked"), ("content-length", "6")];
        assert_eq!(check(&both), Err(BadHead::TwoLengths));
        assert_eq!(check(&[("accept", "*/*")]), Err(BadHead::Host));
        assert_eq!(check(&[("host", "a"), ("host", "b")]), Err(BadHead::Host));
    }
}
