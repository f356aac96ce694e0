//! The URL of an endpoint, in one canonical spelling.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The host part of an endpoint's URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Host {
    /// An address. IPv4-mapped IPv6 addresses have become IPv4.
    Ip(IpAddr),
    /// A link-local IPv6 address and its zone: an interface's name or number.
    Scoped(Ipv6Addr, String),
    /// A host name, in lower case.
    Name(String),
}

/// Where an endpoint is: `http://HOST:PORT[/PREFIX]`, in canonical form, so that two
/// spellings of one address are equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndpointUrl {
    /// The host.
    pub host: Host,
    /// The port; 80 when the URL has none.
    pub port: u16,
    /// What stands before the engine's own paths: empty, or `/` and a path
    /// without a slash at its end.
    pub path_prefix: String,
}

impl EndpointUrl {
    /// Host and port, as in the `Host` header: IPv6 in brackets, no zone (RFC 6874
    /// keeps zones inside the machine), always with the port.
    pub fn authority(&self) -> String {
        match &self.host {
            Host::Ip(IpAddr::V4(ip)) => format!("{ip}:{}", self.port),
            Host::Ip(IpAddr::V6(ip)) | Host::Scoped(ip, _) => format!("[{ip}]:{}", self.port),
            Host::Name(name) => format!("{name}:{}", self.port),
        }
    }
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Scoped(ip, zone) => write!(f, "http://[{ip}%25{zone}]:{}", self.port)?,
            _ => write!(f, "http://{}", self.authority())?,
        }
        f.write_str(&self.path_prefix)
    }
}

/// Why a text is not the URL of an endpoint. No message contains the text itself.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(pub(crate) &'static str);

impl FromStr for EndpointUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) =
            text.split_once("://").ok_or(UrlError("has no scheme; write http://HOST:PORT"))?;
        if scheme.eq_ignore_ascii_case("https") {
            return Err(UrlError("asks for https, but TLS to endpoints is not in this version; use http"));
        }
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(UrlError("has an unknown scheme; write http://HOST:PORT"));
        }
        if rest.contains(['?', '#']) {
            return Err(UrlError("must not have a query (?) or a fragment (#)"));
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(UrlError("must not contain a user name or password"));
        }
        let (host, port) = split_port(authority)?;
        Ok(EndpointUrl { host: parse_host(host)?, port: parse_port(port)?, path_prefix: parse_prefix(path)? })
    }
}

/// Splits `HOST:PORT`, `HOST`, `[V6]:PORT` or `[V6]`; brackets stay on the host.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), UrlError> {
    if authority.starts_with('[') {
        let end = authority.find(']').ok_or(UrlError("has a [ without its ]"))?;
        let (host, rest) = authority.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(UrlError("has text between ] and the port")),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            Err(UrlError("has an IPv6 address without brackets; write http://[ADDRESS]:PORT"))
        }
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((authority, None)),
    }
}

fn parse_port(port: Option<&str>) -> Result<u16, UrlError> {
    const BAD: UrlError = UrlError("has a port that is not a number from 1 to 65535");
    match port {
        None => Ok(80),
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().ok().filter(|&port| port != 0).ok_or(BAD)
        }
        Some(_) => Err(BAD),
    }
}

fn parse_host(host: &str) -> Result<Host, UrlError> {
    if let Some(inner) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return parse_v6(inner);
    }
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Ip(IpAddr::V4(ip)));
    }
    if host.is_empty() {
        return Err(UrlError("has no host"));
    }
    if !host.is_ascii() {
        return Err(UrlError("has a host name outside ASCII; write it in its xn-- form"));
    }
    let name = host.to_ascii_lowercase();
    let label_ok = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let labels = name.strip_suffix('.').unwrap_or(&name);
    if name.len() > 253 || !labels.split('.').all(label_ok) {
        return Err(UrlError("has a host that is neither a name nor an address"));
    }
    // A name that ends in a number would be read as an odd IPv4 spelling by some resolvers.
    let last = labels.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
        return Err(UrlError("has a host that looks like an IPv4 address but is none"));
    }
    Ok(Host::Name(name))
}

fn parse_v6(inner: &str) -> Result<Host, UrlError> {
    const BAD: UrlError = UrlError("has brackets around something that is not an IPv6 address");
    let Some((address, zone)) = inner.split_once('%') else {
        let ip: Ipv6Addr = inner.parse().map_err(|_| BAD)?;
        return Ok(Host::Ip(IpAddr::V6(ip).to_canonical()));
    };
    let ip: Ipv6Addr = address.parse().map_err(|_| BAD)?;
    // RFC 6874 writes % as %25; the bare form is what people copy from `ip addr`.
    let zone = zone.strip_prefix("25").unwrap_or(zone);
    let zone_ok = !zone.is_empty()
        && zone.len() <= 15
        && zone.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if !zone_ok {
        return Err(UrlError("has a zone (after %25) that is not an interface's name or number"));
    }
    if !ip.is_unicast_link_local() && !ip.is_multicast() {
        return Err(UrlError("has a zone (%25…) on an address that is not link-local (fe80::/10)"));
    }
    Ok(Host::Scoped(ip, zone.to_owned()))
}

fn parse_prefix(path: &str) -> Result<String, UrlError> {
    let prefix = path.trim_end_matches('/');
    let byte_ok = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&b);
    if !prefix.bytes().all(byte_ok) {
        return Err(UrlError("has a path with characters that must be percent-encoded"));
    }
    if prefix.split('/').skip(1).any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(UrlError("has a path with an empty, . or .. segment"));
    }
    if prefix.ends_with("/v1") {
        return Err(UrlError("ends in /v1, which the gateway adds itself; leave it out"));
    }
    if prefix.split('/').any(|segment| segment == "v1") {
        return Err(UrlError(
            "has /v1 in its path, which the gateway adds itself; leave it and what follows out",
        ));
    }
    Ok(prefix.to_owned())
}

#[cfg(test)]
mod tests;
