//! What the data plane keeps of an endpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_net::upstream::Upstream;
use http::HeaderValue;

/// Whoever judges an endpoint's health hears of real traffic here.
pub trait EndpointSignals: Send + Sync {
    /// An answer began to come, or came to its end.
    fn succeeded(&self);
    /// No connection could be made.
    fn connect_failed(&self);
    /// It says that it does not have a model that it was taken to have.
    fn model_missing(&self);
    /// It says that it does not have the model of its pool.
    fn model_denied(&self);
}

/// Where requests go and how they are addressed there.
pub struct Endpoint {
    /// Canonical URL, as shown to people and in labels.
    pub name: String,
    pub(crate) name_value: Option<HeaderValue>,
    pub(crate) upstream: Arc<Upstream>,
    /// `host:port`, IPv6 in brackets.
    pub(crate) authority: String,
    pub(crate) host: Option<HeaderValue>,
    /// Put before every path; empty or `/prefix`.
    pub(crate) path_prefix: String,
    signals: OnceLock<Arc<dyn EndpointSignals>>,
    names_adapters_on_base: AtomicBool,
}

impl Endpoint {
    /// An endpoint with its connections.
    pub fn new(name: String, authority: String, path_prefix: String, upstream: Arc<Upstream>) -> Endpoint {
        Endpoint {
            name_value: HeaderValue::from_str(&name).ok(),
            host: HeaderValue::from_str(&authority).ok(),
            name,
            upstream,
            authority,
            path_prefix,
            signals: OnceLock::new(),
            names_adapters_on_base: AtomicBool::new(false),
        }
    }

    /// Its connections.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Says whether a LoRA adapter is asked for there as `BASE:ADAPTER`, as
    /// SGLang has it, and not by its own name.
    pub fn set_names_adapters_on_base(&self, on_base: bool) {
        self.names_adapters_on_base.store(on_base, Ordering::Relaxed);
    }

    /// Whether a LoRA adapter is asked for there as `BASE:ADAPTER`.
    pub fn names_adapters_on_base(&self) -> bool {
        self.names_adapters_on_base.load(Ordering::Relaxed)
    }

    /// Says who hears of real traffic; the first to say so stays.
    pub fn set_signals(&self, signals: Arc<dyn EndpointSignals>) {
        let _ = self.signals.set(signals);
    }

    pub(crate) fn succeeded(&self) {
        if let Some(signals) = self.signals.get() {
            signals.succeeded();
        }
    }

    pub(crate) fn connect_failed(&self) {
        if let Some(signals) = self.signals.get() {
            signals.connect_failed();
        }
    }

    pub(crate) fn model_denied(&self) {
        if let Some(signals) = self.signals.get() {
            signals.model_denied();
        }
    }

    pub(crate) fn model_missing(&self) {
        if let Some(signals) = self.signals.get() {
            signals.model_missing();
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).finish_non_exhaustive()
    }
}
