//! Under which name an endpoint is asked for a model.

use bytes::Bytes;
use forebay_wire::body::{Scan, splice_model_parts};

use crate::endpoint::Endpoint;
use crate::model_route::Route;

/// A request whose `model` depends on the endpoint that gets it, or is another
/// one than the client's everywhere.
///
/// Most engines know an adapter by its own name. SGLang answers such a request
/// from the base model, without a word: there the name is `BASE:ADAPTER`.
pub(crate) struct Naming {
    /// The client's name, which is put back into answers.
    asked: String,
    /// As the client sent it.
    body: Bytes,
    /// The body cut at the name: before it, the name that is sent instead, after it.
    own: Option<[Bytes; 3]>,
    /// The same for endpoints where an adapter's base is part of its name.
    on_base: Option<[Bytes; 3]>,
}

impl Naming {
    /// None where every endpoint gets the client's bytes.
    pub(crate) fn of(route: &Route, scan: &Scan, body: &Bytes) -> Option<Box<Naming>> {
        let (own, base) = (route.engine_name(), route.adapter.as_ref());
        if base.is_none() && own == scan.model {
            return None;
        }
        let cut = |name: &str| (name != scan.model).then(|| splice_model_parts(body, scan, name));
        let on_base = match base {
            // Some list their adapters under the whole name.
            Some(base) if !is_on(own, &base.name) => cut(&format!("{}:{own}", base.name)),
            _ => cut(own),
        };
        Some(Box::new(Naming { asked: scan.model.clone(), body: body.clone(), own: cut(own), on_base }))
    }

    /// The body as this endpoint is to get it.
    pub(crate) fn body(&self, endpoint: &Endpoint) -> Bytes {
        self.cut(endpoint).map_or_else(|| self.body.clone(), |parts| Bytes::from(parts.concat()))
    }

    /// The name to put into this endpoint's answer, where it was asked for another.
    pub(crate) fn put_back(&self, endpoint: &Endpoint) -> Option<&str> {
        self.cut(endpoint).map(|_| &*self.asked)
    }

    fn cut(&self, endpoint: &Endpoint) -> Option<&[Bytes; 3]> {
        if endpoint.names_adapters_on_base() { self.on_base.as_ref() } else { self.own.as_ref() }
    }
}

fn is_on(name: &str, base: &str) -> bool {
    name.strip_prefix(base).is_some_and(|rest| rest.starts_with(':'))
}
