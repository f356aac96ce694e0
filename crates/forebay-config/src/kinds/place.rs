//! Files, pages and publishers: where something is read from or written to.

use std::path::PathBuf;

use schemars::{Schema, json_schema};

use super::UrlPath;
use crate::endpoint_url::EndpointUrl;
use crate::scalar::{Complaint, Kind};

/// The longest path of a file, as on Linux.
const LONGEST_PATH: usize = 4096;

/// The longest address, in bytes.
const LONGEST_ADDRESS: usize = 256;

/// The path of a file.
pub(crate) struct FilePath;

impl Kind for FilePath {
    type Value = PathBuf;

    fn parse(text: &str) -> Result<PathBuf, Complaint> {
        let problem = if text.is_empty() {
            "is empty"
        } else if text.ends_with('/') {
            "is a directory; name a file"
        } else if text.chars().any(char::is_control) {
            "contains a line break or another control character"
        } else if text.len() > LONGEST_PATH {
            "is longer than 4096 bytes"
        } else {
            return Ok(text.into());
        };
        Err(Complaint::new(problem))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "path, from the working directory".to_owned()
    }
}

/// The URL of a page, `/metrics` when it has no path.
pub(crate) struct PageUrl;

impl Kind for PageUrl {
    type Value = String;

    fn parse(text: &str) -> Result<String, Complaint> {
        let host_at = text.find("://").map_or(0, |at| at + 3);
        let path_at = text[host_at..].find(['/', '?', '#']).map_or(text.len(), |at| host_at + at);
        let (host, path) = text.split_at(path_at);
        let url: EndpointUrl = host.parse().map_err(|error: crate::UrlError| Complaint::new(error.0))?;
        let path = if path.is_empty() || path == "/" { "/metrics" } else { path };
        Ok(format!("{url}{}", UrlPath::parse(path).map_err(|_| bad_path())?))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "`http://HOST:PORT/PATH`".to_owned()
    }
}

fn bad_path() -> Complaint {
    Complaint::new("has a path that is too long or has characters that must be percent-encoded")
}

/// The ZeroMQ address of a publisher. `{host}` may stand for its host.
pub(crate) struct Publisher;

impl Kind for Publisher {
    type Value = String;

    fn parse(text: &str) -> Result<String, Complaint> {
        if text.len() > LONGEST_ADDRESS || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Complaint::new("is too long or contains a space or a control character"));
        }
        if let Some(path) = text.strip_prefix("ipc://") {
            if path.is_empty() {
                return Err(Complaint::new("has no path after ipc://"));
            }
            return Ok(text.to_owned());
        }
        let rest = text
            .strip_prefix("tcp://")
            .ok_or_else(|| Complaint::new("is not an address; write tcp://HOST:PORT or ipc://PATH"))?;
        let port_ok = |port: &str| {
            port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0)
        };
        let Some((host, _)) = rest.rsplit_once(':').filter(|(_, port)| port_ok(port)) else {
            return Err(Complaint::new("has no port from 1 to 65535 at its end"));
        };
        // The host as it would be in a URL; a listener's may stand for every interface.
        let host = host.replace("{host}", "host");
        let host_ok = !host.contains('/') && format!("http://{host}:1").parse::<EndpointUrl>().is_ok();
        if host != "*" && !host_ok {
            return Err(Complaint::new("has a host that is neither a name nor an address, nor {host}"));
        }
        Ok(text.to_owned())
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "`tcp://HOST:PORT` or `ipc://PATH`".to_owned()
    }
}
