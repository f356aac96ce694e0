//! What nearly every test starts with.

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::client::Response;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;

/// One backend and a gateway with the default configuration before it.
pub async fn through(
    handler: impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static,
) -> (Backend, Gateway) {
    through_with("", handler).await
}

/// The same with further top-level lines of configuration.
pub async fn through_with(
    yaml: &str,
    handler: impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static,
) -> (Backend, Gateway) {
    let backend = Backend::start(handler).await;
    let gateway = Gateway::start(&Config::chat([backend.url().as_str()]).with(yaml)).await;
    (backend, gateway)
}

/// Two backends with the same script, taken in turn.
pub async fn through_two(
    yaml: &str,
    handler: impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + Clone + 'static,
) -> ([Backend; 2], Gateway) {
    let backends = [Backend::start(handler.clone()).await, Backend::start(handler).await];
    let (a, b) = (backends[0].url(), backends[1].url());
    let gateway = Gateway::start(&Config::chat([a.as_str(), b.as_str()]).with(yaml)).await;
    wait_endpoints(&gateway, 2).await;
    (backends, gateway)
}

/// Waits until this many endpoints are ready.
pub async fn wait_endpoints(gateway: &Gateway, ready: u32) {
    gateway.wait_metric("forebay_endpoint_state", &[("state", "ready")], f64::from(ready)).await;
}

/// Asserts the OpenAI error shape and gives its message.
#[track_caller]
pub fn openai_error(response: &Response, status: u16) -> String {
    assert_eq!(response.status(), status, "{}", response.text());
    assert!(response.is_complete(), "a cut error: {:?}", response.end);
    let kind = response.head.get("content-type").unwrap_or_default();
    assert!(kind.starts_with("application/json"), "content-type {kind:?}");
    let body = response.json();
    let error = &body["error"];
    for key in ["message", "type", "param", "code"] {
        assert!(error.get(key).is_some(), "no {key} in {body}");
    }
    assert!(error["type"].is_string(), "{body}");
    error["message"].as_str().unwrap_or_else(|| panic!("no message in {body}")).to_string()
}

/// Asserts a `Retry-After` of whole seconds, at least one.
#[track_caller]
pub fn retry_after(response: &Response) -> u64 {
    let value =
        response.head.get("retry-after").unwrap_or_else(|| panic!("no Retry-After: {:?}", response.head));
    let seconds = value.parse().unwrap_or_else(|_| panic!("Retry-After {value:?}"));
    assert!(seconds >= 1, "Retry-After {seconds}");
    seconds
}

/// A small seeded generator for cut points and moments: reproducible, no crate.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        // Knuth's MMIX constants; the low bits are the weak ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(n).unwrap()).unwrap()
    }
}
