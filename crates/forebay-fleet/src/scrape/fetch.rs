//! Fetching one page, whole and within limits.

use std::time::Duration;

use bytes::Bytes;
use forebay_config::Secret;
use forebay_net::client::{Client, ClientError, ClientOptions, fetch_h2c};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::failure::ScrapeFailure;
use crate::key;

/// Longest page that is read.
pub(crate) const MAX_PAGE: usize = 5 << 20;

/// Longest body of an answer that cannot be used; the connection closes at a longer one.
const MAX_REFUSAL: usize = 64 << 10;

/// Read at once at most. A connection keeps its buffer as long as it lives,
/// and one that grew with the page would hold twice the page.
const READ_BUFFER: usize = 16 << 10;

/// Buffers that grew beyond this are not kept for the next page.
const KEPT_BUFFER: usize = 256 << 10;

/// As many as requests usually run at once.
const KEPT_BUFFERS: usize = 32;

/// A page's address and how it is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    uri: Uri,
    method: Method,
    /// What the server wants to be shown.
    key: Option<Secret>,
    /// HTTP/2 with prior knowledge.
    h2c: bool,
}

impl Page {
    pub(crate) fn get(url: &str, h2c: bool) -> Result<Page, ScrapeFailure> {
        Page::new(Method::GET, url, h2c)
    }

    pub(crate) fn new(method: Method, url: &str, h2c: bool) -> Result<Page, ScrapeFailure> {
        let uri = url.parse().map_err(|_| ScrapeFailure::Url)?;
        Ok(Page { uri, method, key: None, h2c })
    }

    /// The same, with what the server wants to be shown.
    pub(crate) fn with_key(self, key: Option<&Secret>) -> Page {
        Page { key: key.cloned(), ..self }
    }

    #[cfg(test)]
    pub(crate) fn has_key(&self) -> bool {
        self.request().headers().contains_key(header::AUTHORIZATION)
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let body = if self.method == Method::POST { Bytes::from_static(b"{}") } else { Bytes::new() };
        let mut request = Request::new(Full::new(body));
        *request.uri_mut() = self.uri.clone();
        *request.method_mut() = self.method.clone();
        let headers = request.headers_mut();
        // Compressing a page costs the engine more than the network saves.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static("forebay"));
        if self.method == Method::POST {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        key::show(&mut request, self.key.as_ref());
        request
    }
}

/// Fetches pages, over connections that are kept.
pub(crate) struct Pages {
    client: Client,
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Pages {
    pub(crate) fn new() -> Pages {
        let options = ClientOptions {
            // The limit of the whole request applies, whatever takes the time.
            connect_timeout: Duration::from_secs(3600),
            // An endpoint is asked for one page after the other; a few more
            // are for what several endpoints share, as the exporter of a node's GPUs.
            max_idle_per_host: 4,
            read_buffer: READ_BUFFER,
            ..ClientOptions::default()
        };
        Pages { client: Client::new(options), buffers: Mutex::default() }
    }

    /// Fetches `page`, waiting at most `limit` for all of it, and hands its
    /// body to `read`. Without a body of a 2xx answer there is nothing to read.
    pub(crate) async fn fetch<T>(
        &self,
        page: &Page,
        limit: Duration,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, ScrapeFailure> {
        let mut body = self.buffers.lock().pop().unwrap_or_default();
        let result = match timeout(limit, self.exchange(page, limit, &mut body)).await {
            Ok(Ok(())) => Ok(read(&body)),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(ScrapeFailure::Timeout),
        };
        if body.capacity() <= KEPT_BUFFER {
            body.clear();
            let mut buffers = self.buffers.lock();
            if buffers.len() < KEPT_BUFFERS {
                buffers.push(body);
            }
        }
        result
    }

    async fn exchange(&self, page: &Page, limit: Duration, into: &mut Vec<u8>) -> Result<(), ScrapeFailure> {
        if page.h2c {
            let (status, headers, body) = fetch_h2c(page.request(), limit, MAX_PAGE).await?;
            usable(status, &headers)?;
            into.extend_from_slice(&body);
            return if into.is_empty() { Err(ScrapeFailure::Empty) } else { Ok(()) };
        }
        let answer = self.client.send(page.request()).await?;
        if let Err(failure) = usable(answer.status(), answer.headers()) {
            // Read to its end, so that the connection can be kept.
            let _ = answer.into_body().read_whole(MAX_REFUSAL).await;
            return Err(failure);
        }
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                if data.len() > MAX_PAGE - into.len() {
                    return Err(ScrapeFailure::TooLong);
                }
                into.extend_from_slice(&data);
            }
        }
        if into.is_empty() { Err(ScrapeFailure::Empty) } else { Ok(()) }
    }
}

fn usable(status: StatusCode, headers: &HeaderMap) -> Result<(), ScrapeFailure> {
    if !status.is_success() {
        return Err(ScrapeFailure::Status(status.as_u16()));
    }
    match headers.get(header::CONTENT_ENCODING) {
        Some(coding) if coding != "identity" => Err(ScrapeFailure::Encoding),
        _ => Ok(()),
    }
}

impl From<ClientError> for ScrapeFailure {
    fn from(error: ClientError) -> ScrapeFailure {
        match error {
            ClientError::Url { .. } => ScrapeFailure::Url,
            ClientError::Connect { .. } => ScrapeFailure::Connect,
            ClientError::Timeout { .. } => ScrapeFailure::Timeout,
            ClientError::Exchange { .. } => ScrapeFailure::Broken,
            ClientError::BodyTooLong { .. } => ScrapeFailure::TooLong,
        }
    }
}
