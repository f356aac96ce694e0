//! One probe of one endpoint.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use forebay_config::Secret;
use forebay_net::client::{Client, ClientError, ClientOptions, fetch_h2c};
use http::Request;
use http_body_util::Full;

use crate::key;

/// Why a probe did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeFailure {
    /// Nobody listens there: the connection was refused or there is no way to the host.
    NoConnection(String),
    /// Anything else: late, a status that is not 2xx, not HTTP.
    Unhealthy(String),
}

impl ProbeFailure {
    /// What happened, for people.
    pub fn reason(&self) -> &str {
        match self {
            ProbeFailure::NoConnection(reason) | ProbeFailure::Unhealthy(reason) => reason,
        }
    }
}

/// A way to ask an endpoint whether it is healthy.
pub trait Probe: Send + Sync + 'static {
    /// Asks `url`, showing `key`, and waits at most `timeout` for the whole answer.
    fn probe(
        &self,
        url: &str,
        key: Option<&Secret>,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ProbeFailure>> + Send;
}

/// `GET`, and any whole 2xx answer is healthy. A URL that begins with `h2c://`
/// is asked in HTTP/2 with prior knowledge, any other in HTTP/1.1.
///
/// Every probe opens a connection of its own: what a proxy needs to know is
/// whether the endpoint takes new connections, which a kept one hides.
pub struct HttpProbe {
    client: Client,
}

/// Far above what a health page says. One that is longer was still answered.
const MAX_BODY: usize = 256 << 10;

impl HttpProbe {
    /// A prober without connections yet.
    pub fn new() -> HttpProbe {
        let options = ClientOptions {
            // The limit of the whole probe applies, whatever takes the time.
            connect_timeout: Duration::from_secs(3600),
            max_idle_per_host: 0,
            ..ClientOptions::default()
        };
        HttpProbe { client: Client::new(options) }
    }
}

impl Default for HttpProbe {
    fn default() -> HttpProbe {
        HttpProbe::new()
    }
}

impl Probe for HttpProbe {
    async fn probe(&self, url: &str, key: Option<&Secret>, timeout: Duration) -> Result<(), ProbeFailure> {
        let (url, h2c) = match url.strip_prefix("h2c://") {
            Some(rest) => (Cow::Owned(format!("http://{rest}")), true),
            None => (Cow::Borrowed(url), false),
        };
        let mut request = Request::new(Full::default());
        *request.uri_mut() =
            url.parse().map_err(|_| ProbeFailure::Unhealthy(format!("cannot use the URL \"{url}\"")))?;
        key::show(&mut request, key);
        let answer = match h2c {
            true => fetch_h2c(request, timeout, MAX_BODY).await,
            false => self.client.fetch(request, timeout, MAX_BODY).await,
        };
        match answer {
            Ok((status, _, _)) if status.is_success() => Ok(()),
            Ok((status, _, _)) => Err(ProbeFailure::Unhealthy(format!("status {status}"))),
            Err(ClientError::BodyTooLong { .. }) => Ok(()),
            Err(error @ ClientError::Connect { .. }) => Err(ProbeFailure::NoConnection(error.to_string())),
            Err(error) => Err(ProbeFailure::Unhealthy(error.to_string())),
        }
    }
}
