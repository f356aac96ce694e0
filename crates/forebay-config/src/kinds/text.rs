//! Names, addresses and URLs.

use std::net::SocketAddr;

use schemars::{Schema, json_schema};

use crate::endpoint_url::EndpointUrl;
use crate::scalar::{Complaint, Kind};

/// The longest name, in bytes: names become metric labels and log fields.
const LONGEST: usize = 256;

/// A name: any text on one line.
pub(crate) struct Name;

impl Kind for Name {
    type Value = String;

    fn parse(text: &str) -> Result<String, Complaint> {
        let problem = if text.is_empty() {
            "is empty"
        } else if text.chars().any(char::is_control) {
            "contains a line break or another control character"
        } else if text.trim() != text {
            "begins or ends with a space"
        } else if text.len() > LONGEST {
            "is longer than 256 bytes"
        } else {
            return Ok(text.to_owned());
        };
        Err(Complaint::new(problem))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "text, 1 to 256 bytes".to_owned()
    }
}

/// An address to listen on.
pub(crate) struct Address;

impl Kind for Address {
    type Value = SocketAddr;

    fn parse(text: &str) -> Result<SocketAddr, Complaint> {
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let not_one = Complaint::new("is not an address to listen on; write ADDRESS:PORT");
        let guess = |address: String| address.parse::<SocketAddr>().ok().map(|a| a.to_string());
        let port_only = text.strip_prefix(':').unwrap_or(text);
        let meant = guess(format!("127.0.0.1:{port_only}"))
            .or_else(|| text.strip_prefix("localhost:").and_then(|port| guess(format!("127.0.0.1:{port}"))))
            .or_else(|| text.strip_prefix("*:").and_then(|port| guess(format!("0.0.0.0:{port}"))))
            .or_else(|| guess(text.strip_prefix("http://")?.trim_end_matches('/').to_owned()))
            .or_else(|| text.rsplit_once(':').and_then(|(ip, port)| guess(format!("[{ip}]:{port}"))));
        Err(Complaint {
            nearest: meant,
            hint: Some(
                "127.0.0.1 and [::1] take connections from this machine, 0.0.0.0 and [::] from any".into(),
            ),
            ..not_one
        })
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "`ADDRESS:PORT`, IPv6 in brackets".to_owned()
    }
}

/// The URL of an endpoint.
pub(crate) struct UrlText;

impl Kind for UrlText {
    type Value = EndpointUrl;

    fn parse(text: &str) -> Result<EndpointUrl, Complaint> {
        text.parse().map_err(|error: crate::UrlError| Complaint::new(error.0))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "`http://HOST:PORT`, IPv6 in brackets".to_owned()
    }
}

/// A path to ask an endpoint for.
pub(crate) struct UrlPath;

impl Kind for UrlPath {
    type Value = String;

    fn parse(text: &str) -> Result<String, Complaint> {
        if !text.starts_with('/') {
            return Err(Complaint::new("does not begin with /"));
        }
        if text.len() > LONGEST {
            return Err(Complaint::new("is longer than 256 bytes"));
        }
        if text.contains('#') || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Complaint::new("contains a character that must be percent-encoded"));
        }
        Ok(text.to_owned())
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn describe() -> String {
        "path that begins with `/`".to_owned()
    }
}
