//! What engines want to be shown by whoever asks them.

use bytes::Bytes;
use forebay_config::Secret;
use http::{HeaderValue, Request, header};
use http_body_util::Full;

/// Puts an engine's key into a request to it.
pub(crate) fn show(request: &mut Request<Full<Bytes>>, key: Option<&Secret>) {
    let value = key.and_then(|key| HeaderValue::from_str(&format!("Bearer {}", key.expose())).ok());
    if let Some(mut value) = value {
        // Not printed with the other headers, nor kept in tables of HTTP/2.
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
}
