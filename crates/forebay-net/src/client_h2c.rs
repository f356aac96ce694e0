//! Requests over HTTP/2 with prior knowledge, for endpoints that speak nothing
//! else. One connection for each: a probe is to find out whether new
//! connections are taken.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::{ClientError, Target, bad_url};

/// Fetches `url`, an `http://` URL, whole.
///
/// `timeout` is the limit for everything together; `max_body` is in bytes.
///
/// # Errors
/// As [`super::Client::get`].
pub async fn get_h2c(
    url: &str,
    timeout: Duration,
    max_body: usize,
) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
    whole(url, Request::default(), timeout, max_body).await
}

/// Posts JSON to `url`, an `http://` URL, and fetches the answer whole.
///
/// # Errors
/// As [`super::Client::get`].
pub async fn post_json_h2c(
    url: &str,
    body: Bytes,
    timeout: Duration,
    max_body: usize,
) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
    whole(url, super::json_post(body), timeout, max_body).await
}

async fn whole(
    url: &str,
    mut request: Request<Full<Bytes>>,
    timeout: Duration,
    max_body: usize,
) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
    *request.uri_mut() = url.parse().map_err(|_| bad_url(url, "it does not parse"))?;
    fetch_h2c(request, timeout, max_body).await
}

/// Sends a request to its absolute `http://` URL and fetches the answer whole.
///
/// # Errors
/// As [`super::Client::get`].
pub async fn fetch_h2c(
    request: Request<Full<Bytes>>,
    timeout: Duration,
    max_body: usize,
) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
    let target = Target::of(request.uri())?;
    let address = Arc::clone(&target.address);
    let fetch = async {
        let failed = |during| {
            let address = Arc::clone(&target.address);
            move |source| ClientError::Exchange { address, during, source }
        };
        let stream = TcpStream::connect((&*target.host, target.port))
            .await
            .map_err(|source| ClientError::Connect { address: Arc::clone(&target.address), source })?;
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(failed("the HTTP/2 handshake"))?;
        // Dropped, and so closed, with the request.
        let exchange = async {
            let response = sender.send_request(request).await.map_err(failed("the request"))?;
            let (head, body) = response.into_parts();
            let limit = max_body;
            let body = Limited::new(body, limit).collect().await.map_err(|error| {
                match error.downcast::<hyper::Error>() {
                    Ok(source) => failed("the body")(*source),
                    Err(_) => ClientError::BodyTooLong { address: Arc::clone(&target.address), limit },
                }
            })?;
            Ok((head.status, head.headers, body.to_bytes()))
        };
        let mut connection = std::pin::pin!(connection);
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            biased;
            result = &mut exchange => result,
            _ = &mut connection => exchange.await,
        }
    };
    match tokio::time::timeout(timeout, fetch).await {
        Ok(result) => result,
        Err(_) => Err(ClientError::Timeout { address, what: "complete answer", after: timeout }),
    }
}
