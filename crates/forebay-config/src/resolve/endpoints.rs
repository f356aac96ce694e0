//! The endpoints of a pool.

use std::collections::BTreeMap;

use super::Resolver;
use crate::endpoint_url::EndpointUrl;
use crate::error::quote;
use crate::places::join;
use crate::pool::Endpoint;
use crate::raw::RawEndpoint;

impl Resolver<'_> {
    pub(super) fn endpoints(&mut self, raw: Option<&[RawEndpoint]>, pool_path: &str) -> Vec<Endpoint> {
        let raw = raw.unwrap_or_default();
        if raw.is_empty() {
            let message = "at least one endpoint is needed, such as - url: http://127.0.0.1:8000";
            self.error(&join(pool_path, "endpoints"), message.to_owned());
        }
        let mut seen: BTreeMap<EndpointUrl, String> = BTreeMap::new();
        let mut endpoints = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            let path = format!("{pool_path}.endpoints[{index}]");
            let Some(endpoint) = self.endpoint(raw, &path) else { continue };
            let url_path = join(&path, "url");
            if let Some(first) = seen.get(&endpoint.url) {
                let written = raw.url.as_ref().map_or_else(String::new, |url| quote(&url.text));
                self.error_with(
                    &url_path,
                    format!("{written} is in this pool twice; spellings of one address count as the same"),
                    &[(first, "the first one")],
                );
                continue;
            }
            seen.insert(endpoint.url.clone(), url_path);
            endpoints.push(endpoint);
        }
        endpoints
    }

    /// One endpoint, or `None` where its URL cannot be read.
    fn endpoint(&mut self, raw: &RawEndpoint, path: &str) -> Option<Endpoint> {
        let url = self.required(&raw.url, path, "url");
        let weight = self.field(&raw.weight, path, "weight", 1.0);
        let accelerator = self.optional(&raw.accelerator, path, "accelerator");
        let zone = self.optional(&raw.zone, path, "zone");
        let version = self.optional(&raw.version, path, "version");
        let metrics_url = self.optional(&raw.metrics_url, path, "metrics_url");
        let dcgm_url = self.optional(&raw.dcgm_url, path, "dcgm_url");
        let gpus = raw.gpus.as_deref().unwrap_or_default().iter().enumerate();
        let gpus =
            gpus.filter_map(|(index, gpu)| self.scalar(gpu, &format!("{path}.gpus[{index}]"))).collect();
        let kv_events = self.optional(&raw.kv_events, path, "kv_events");
        let kv_replay = self.optional(&raw.kv_replay, path, "kv_replay");
        Some(Endpoint {
            weight,
            accelerator,
            zone,
            version,
            metrics_url,
            dcgm_url,
            gpus,
            kv_events,
            kv_replay,
            ..Endpoint::new(url?)
        })
    }
}
