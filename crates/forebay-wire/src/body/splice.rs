//! Replacing the model's name and nothing else.

use bytes::Bytes;

use super::Scan;
use crate::json::push_string;

/// `body` with exactly the model's value replaced.
///
/// `scan` must be the scan of this `body`. A name that a multipart field
/// cannot carry (with a carriage return or line feed) leaves the body as it is.
pub fn splice_model(body: &[u8], scan: &Scan, new_model: &str) -> Vec<u8> {
    let (Some(value), Some(before), Some(after)) =
        (value(scan, new_model), body.get(..scan.model_span.start), body.get(scan.model_span.end..))
    else {
        return body.to_vec();
    };
    [before, &value, after].concat()
}

/// As [`splice_model`], without copying the body: what comes before the value,
/// the new value, and what comes after.
pub fn splice_model_parts(body: &Bytes, scan: &Scan, new_model: &str) -> [Bytes; 3] {
    let span = &scan.model_span;
    match value(scan, new_model) {
        Some(value) if span.start <= span.end && span.end <= body.len() => {
            [body.slice(..span.start), value.into(), body.slice(span.end..)]
        }
        _ => [body.clone(), Bytes::new(), Bytes::new()],
    }
}

fn value(scan: &Scan, model: &str) -> Option<Vec<u8>> {
    if scan.multipart {
        return (!model.contains(['\r', '\n'])).then(|| model.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(model.len() + 2);
    push_string(&mut out, model);
    Some(out)
}
