//! Forebay's configuration: from the text that the user wrote to the values that the
//! program uses.
//!
//! Two steps. `raw` is the file, version 1, field by field; fields that it does not know are
//! refused. `resolve` gives every field its meaning and finds every error of meaning at
//! once. What comes out, a [`Config`], needs no further check.
//!
//! Nothing here reads files, the environment or a clock: the caller passes texts in.
//!
//! ```
//! let text = "
//! version: 1
//! pools:
//!   - name: chat
//!     model: tide-7b
//!     endpoints:
//!       - url: http://127.0.0.1:8001
//! ";
//! let config = forebay_config::parse_str("forebay.yaml", text)?;
//! assert_eq!(config.pools[0].endpoints[0].name, "http://127.0.0.1:8001");
//! # Ok::<(), forebay_config::Errors>(())
//! ```

mod choices;
mod config;
mod endpoint_url;
mod error;
mod fleet_file;
mod groups;
mod kinds;
mod lint;
mod places;
mod pool;
mod prefix;
mod raw;
mod resolve;
mod routing;
mod scalar;
mod schema;
mod secret;
mod sections;
mod syntax;
mod variables;

pub use choices::{Engine, LogFormat, LogLevel, OrcaAsk, Protocol, UnknownWord};
pub use config::{Config, DecisionLog, Listener, Log, ModelAlias, ResponseHeaders, Target};
pub use endpoint_url::{EndpointUrl, Host, UrlError};
pub use error::{Also, ConfigError, Errors, Place};
pub use fleet_file::{
    FleetFile, FleetFileChange, FleetFileEvent, FleetGroup, Hardware, MOST_ENDPOINTS, MOST_POOLS, StepTimes,
    parse_fleet,
};
pub use forebay_gate::{OrcaConfig, PolicyKind, Profile, SlowStart};
pub use forebay_wire::signals::{Combine, CustomSignal};
pub use groups::{IndexShares, groups};
pub use lint::{Lint, warnings};
pub use pool::{Endpoint, Pool, Slo};
pub use prefix::{KvEvents, PrefixIndex, Tokenizer};
pub use routing::{NamedSignal, Orca, Rule, Scrape, WarmUp};
pub use schema::json_schema;
pub use secret::Secret;
pub use sections::{Drain, Health, Limits, Retry, Timeouts};

/// Reads a configuration in which no environment variable is set.
///
/// # Errors
/// As [`parse`]; `${NAME}` is one.
pub fn parse_str(file_name: &str, text: &str) -> Result<Config, Errors> {
    parse(file_name, text, &|_| None)
}

/// Reads a configuration. `file_name` is for messages only; `env` gives the value of an
/// environment variable, or `None` where it is not set.
///
/// # Errors
/// A text that is not YAML or has another shape than expected is one error; otherwise every
/// error of meaning is reported, in the file's order. No error shows a value that `env` gave.
pub fn parse(file_name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Errors> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let places = places::Places::read(text, syntax::options())
        .map_err(|error| syntax::explain(&error, file_name, text, None))?;
    syntax::check_version(file_name, text, &places, "a pool with its endpoints", env)?;
    let raw: raw::RawConfig = serde_saphyr::from_str_with_options(text, syntax::options())
        .map_err(|error| syntax::explain(&error, file_name, text, Some(&places)))?;
    let source = resolve::Source { file: file_name, text, places: &places };
    resolve::resolve(&raw, source, env)
}
