//! Addresses as ZeroMQ writes them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a socket is: `tcp://HOST:PORT` or `ipc://PATH`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KvAddress {
    /// TCP. The host of a bound socket may be `*`: every interface.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port; 0 for any free one, where a socket is bound.
        port: u16,
    },
    /// A Unix socket.
    Ipc(PathBuf),
    /// No socket of ZeroMQ: a URL that is asked again and again, as TensorRT-LLM
    /// wants it ([`KvSource::polled`](super::KvSource::polled)).
    Http(String),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("KV event address \"{text}\": {problem}")]
pub struct KvAddressError {
    text: String,
    problem: &'static str,
}

impl KvAddressError {
    pub(super) fn new(text: &str, problem: &'static str) -> KvAddressError {
        KvAddressError { text: text.to_owned(), problem }
    }
}

impl FromStr for KvAddress {
    type Err = KvAddressError;

    fn from_str(text: &str) -> Result<KvAddress, KvAddressError> {
        let error = |problem| KvAddressError::new(text, problem);
        if let Some(path) = text.strip_prefix("ipc://") {
            return match path {
                "" => Err(error("the path is empty")),
                path => Ok(KvAddress::Ipc(PathBuf::from(path))),
            };
        }
        let rest =
            text.strip_prefix("tcp://").ok_or_else(|| error("expected tcp://HOST:PORT or ipc://PATH"))?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| error("the port is missing"))?;
        let port = port.parse().map_err(|_| error("the port is not a number from 0 to 65535"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(error("the host is empty"));
        }
        Ok(KvAddress::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for KvAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KvAddress::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            KvAddress::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            KvAddress::Ipc(path) => write!(f, "ipc://{}", path.display()),
            KvAddress::Http(url) => f.write_str(url),
        }
    }
}

impl KvAddress {
    /// Whether it names every interface, which nobody can connect to.
    pub fn is_wildcard(&self) -> bool {
        matches!(self, KvAddress::Tcp { host, .. } if matches!(host.as_str(), "*" | "0.0.0.0" | "::"))
    }

    /// The same address on another host.
    pub(super) fn at_host(self, new: &str) -> KvAddress {
        match self {
            KvAddress::Tcp { port, .. } => KvAddress::Tcp { host: new.to_owned(), port },
            other => other,
        }
    }

    /// The address of a rank: its port is the first one's plus the rank.
    /// `None` past the last port.
    pub(super) fn of_rank(self, rank: u32) -> Option<KvAddress> {
        match self {
            KvAddress::Tcp { host, port } => {
                let port = u16::try_from(u32::from(port).checked_add(rank)?).ok()?;
                Some(KvAddress::Tcp { host, port })
            }
            other => Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["tcp://10.0.0.1:5557", "tcp://*:5557", "tcp://[::1]:80", "ipc:///tmp/kv.ipc"] {
            assert_eq!(text.parse::<KvAddress>().unwrap().to_string(), text);
        }
        for text in ["", "inproc://a", "tcp://host", "tcp://:1", "tcp://h:70000", "ipc://"] {
            let error = text.parse::<KvAddress>().unwrap_err().to_string();
            assert!(error.contains(&format!("\"{text}\": ")), "{error}");
        }
        let wild = |text: &str| text.parse::<KvAddress>().unwrap().is_wildcard();
        assert!(wild("tcp://*:1") && wild("tcp://[::]:1") && wild("tcp://0.0.0.0:1"));
        assert!(!wild("tcp://[::1]:1") && !wild("ipc://*"));
    }

    #[test]
    fn ranks_follow_by_port() {
        let first: KvAddress = "tcp://h:65534".parse().unwrap();
        assert_eq!(first.clone().of_rank(1).unwrap().to_string(), "tcp://h:65535");
        assert_eq!(first.clone().of_rank(2), None);
        assert_eq!(first.of_rank(u32::MAX), None);
    }
}
