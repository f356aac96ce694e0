//! Forebay's configuration: from the text that the user wrote to the values that the
//! program uses.

mod choices;
mod config;
mod endpoint_url;
mod pool;
mod sections;

pub use choices::{Engine, LogFormat, LogLevel, Protocol, UnknownWord};
pub use config::{Config, Listener, Log, ModelAlias, ResponseHeaders, Target};
pub use endpoint_url::{EndpointUrl, Host, UrlError};
pub use forebay_gate::PolicyKind;
pub use pool::{Endpoint, Pool, Slo};
pub use sections::{Drain, Health, Limits, Retry, Timeouts};
