//! Where one engine tells what.

use std::sync::Arc;

use forebay_wire::signals::{Dialect, Reader};
use http::{Method, Uri, uri};

use super::ScrapeTarget;
use super::detect::Detected;
use super::failure::ScrapeFailure;
use super::fetch::Page;

/// The pages of one endpoint, once its dialect is known.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) dialect: Dialect,
    pub(crate) reader: Arc<Reader>,
    /// The Prometheus page, where the engine has one.
    pub(crate) metrics: Option<Page>,
    /// The server that answers the API is the one that has that page.
    pub(crate) metrics_here: bool,
    /// The load in JSON, where the engine has it.
    pub(crate) loads: Option<Page>,
    pub(crate) models: Page,
    /// In whose way the models are listed.
    pub(crate) listing: Dialect,
}

impl Engine {
    /// The pages of the engine that was found; the one that showed it is where it was.
    pub(crate) fn new<Id>(target: &ScrapeTarget<Id>, found: Detected) -> Result<Engine, ScrapeFailure> {
        let dialect = found.dialect;
        let here = |path: &str| here(target, Method::GET, path);
        // Triton's frontend for OpenAI's API has no repository.
        let listing = if found.lists && dialect == Dialect::Triton { Dialect::Openai } else { dialect };
        let (method, path) = listing.resident_path();
        let method = if method == "POST" { Method::POST } else { Method::GET };
        let metrics = match found.page {
            Some(page) => Some(page),
            None => metrics_page(target, dialect)?,
        };
        let models = self::here(target, method, path)?;
        let at = |page: &Page| page.uri().authority().cloned();
        Ok(Engine {
            dialect,
            reader: Arc::new(Reader::new(dialect, target.model.as_deref(), &target.custom)),
            metrics_here: metrics.as_ref().is_none_or(|metrics| at(metrics) == at(&models)),
            metrics,
            loads: dialect.loads_path().map(here).transpose()?,
            models,
            listing,
        })
    }

    /// Whether there is anything that tells its load.
    pub(crate) fn tells_load(&self) -> bool {
        self.metrics.is_some() || self.loads.is_some()
    }
}

/// The page with `dialect`'s metrics: what the user says, or else where the
/// engine has it by default.
pub(crate) fn metrics_page<Id>(
    target: &ScrapeTarget<Id>,
    dialect: Dialect,
) -> Result<Option<Page>, ScrapeFailure> {
    if let Some(url) = &target.metrics_url {
        // A page of its own port is served by another program than the API.
        let page = Page::get(url, false)?;
        let own: Option<Uri> = target.url.parse().ok();
        let key = target.key.as_ref().filter(|_| own.is_some_and(|own| is_one_server(&own, page.uri())));
        return Ok(Some(page.with_key(key)));
    }
    let Some(path) = dialect.metrics_path() else { return Ok(None) };
    match dialect.metrics_port() {
        None => here(target, Method::GET, path).map(Some),
        Some(port) => Page::get(&at_port(&target.url, port, path)?, false).map(Some),
    }
}

/// A page of the engine's own.
pub(crate) fn here<Id>(target: &ScrapeTarget<Id>, method: Method, path: &str) -> Result<Page, ScrapeFailure> {
    let page = Page::new(method, &beside(&target.url, path), target.h2c)?;
    Ok(page.with_key(target.key.as_ref()))
}

/// Whether both are at one port of one host.
fn is_one_server(a: &Uri, b: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().unwrap_or(80);
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    host(a).is_some() && host(a) == host(b) && port(a) == port(b)
}

/// A path of the engine, behind whatever path its URL has already.
pub(crate) fn beside(base: &str, path: &str) -> String {
    format!("{}{path}", base.trim_end_matches('/'))
}

/// A path at another port of the same host.
fn at_port(base: &str, port: u16, path: &str) -> Result<String, ScrapeFailure> {
    let base: Uri = base.parse().map_err(|_| ScrapeFailure::Url)?;
    let host = base.host().ok_or(ScrapeFailure::Url)?;
    let url = Uri::builder()
        .scheme(base.scheme().cloned().unwrap_or(uri::Scheme::HTTP))
        .authority(format!("{host}:{port}"))
        .path_and_query(path)
        .build();
    url.map(|url| url.to_string()).map_err(|_| ScrapeFailure::Url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(url: &str, dialect: Dialect) -> [String; 3] {
        let target = ScrapeTarget::new((), url);
        let engine = Engine::new(&target, dialect.into()).unwrap();
        let shown = |page: Option<Page>| page.map_or_else(String::new, |page| page.uri().to_string());
        [shown(engine.metrics), shown(engine.loads), engine.models.uri().to_string()]
    }

    #[test]
    fn every_engine_is_asked_where_it_answers() {
        let at = "http://10.0.0.1:8000";
        let page = |path: &str| if path.is_empty() { String::new() } else { format!("{at}{path}") };
        for (dialect, expected) in [
            (Dialect::Vllm, ["/metrics", "", "/v1/models"]),
            (Dialect::Sglang, ["/metrics", "/v1/loads?include=core,memory", "/v1/models"]),
            (Dialect::Trtllm, ["/prometheus/metrics", "", "/v1/models"]),
            (Dialect::Ollama, ["", "", "/api/ps"]),
            (Dialect::Openai, ["", "", "/v1/models"]),
        ] {
            assert_eq!(pages(at, dialect), expected.map(page), "{dialect}");
        }
    }

    #[test]
    fn a_page_at_another_port_keeps_the_host_and_not_the_path() {
        for (url, metrics) in [
            ("http://10.0.0.1:8000", "http://10.0.0.1:8002/metrics"),
            ("http://[::1]:8000/base/", "http://[::1]:8002/metrics"),
            ("http://triton", "http://triton:8002/metrics"),
        ] {
            assert_eq!(pages(url, Dialect::Triton)[0], metrics);
        }
        assert_eq!(pages("http://h/base/", Dialect::Triton)[2], "http://h/base/v2/repository/index");
    }

    #[test]
    fn the_users_page_is_asked_whatever_the_engine() {
        for dialect in Dialect::ALL {
            let target = ScrapeTarget {
                metrics_url: Some("http://exporter:9/m?x=1".to_owned()),
                ..ScrapeTarget::new((), "http://10.0.0.1:8000")
            };
            let engine = Engine::new(&target, dialect.into()).unwrap();
            assert_eq!(engine.metrics.unwrap().uri(), "http://exporter:9/m?x=1");
        }
    }

    #[test]
    fn a_key_is_shown_to_the_endpoint_alone() {
        let target = |metrics_url: Option<&str>| ScrapeTarget {
            key: Some(forebay_config::Secret::new("hunter2")),
            metrics_url: metrics_url.map(str::to_owned),
            ..ScrapeTarget::new((), "http://Engine:8000/base")
        };
        let shown = |target: &ScrapeTarget<()>, dialect: Dialect| {
            let engine = Engine::new(target, dialect.into()).unwrap();
            let pages = [engine.metrics, engine.loads, Some(engine.models)];
            pages.map(|page| page.map(|page| page.has_key()))
        };
        for (metrics_url, dialect, expected) in [
            (None, Dialect::Vllm, [Some(true), None, Some(true)]),
            (None, Dialect::Sglang, [Some(true), Some(true), Some(true)]),
            (None, Dialect::Trtllm, [Some(true), None, Some(true)]),
            // Another program, though on the same host.
            (None, Dialect::Triton, [Some(false), None, Some(true)]),
            (Some("http://engine:8000/m"), Dialect::Vllm, [Some(true), None, Some(true)]),
            (Some("http://engine:8001/m"), Dialect::Vllm, [Some(false), None, Some(true)]),
            (Some("http://engine/m"), Dialect::Vllm, [Some(false), None, Some(true)]),
            (Some("http://exporter:8000/m"), Dialect::Vllm, [Some(false), None, Some(true)]),
        ] {
            assert_eq!(shown(&target(metrics_url), dialect), expected, "{metrics_url:?} {dialect}");
        }
    }

    #[test]
    fn urls_that_cannot_be_used_are_errors() {
        for url in ["", "http://", "not a url", "/path", "http://a b/"] {
            let target = ScrapeTarget::new((), url);
            for dialect in Dialect::ALL {
                // What is no URL at all is refused here, the rest when it is asked.
                let _ = Engine::new(&target, dialect.into());
            }
            assert!(Engine::new(&target, Dialect::Triton.into()).is_err(), "{url:?}");
        }
    }
}
