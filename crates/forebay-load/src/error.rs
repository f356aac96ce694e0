//! Why a run could not start.

use forebay_net::client::ClientError;

use crate::trace::TraceError;

/// A run that did not start. Requests that fail during a run are not errors:
/// they are counted in its summary.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// An option is out of its range.
    #[error("{name}: {why}")]
    Option {
        /// The option, as the command line spells it without dashes.
        name: &'static str,
        /// The value and what is allowed.
        why: String,
    },
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The server could not be asked for its models.
    #[error("asking {url} for its models: {source}")]
    Models {
        /// The URL that was asked.
        url: String,
        /// What went wrong.
        source: ClientError,
    },
    /// The server's list of models is no help.
    #[error("asking {url} for its models: {why}; name one with --model")]
    NoModel {
        /// The URL that was asked.
        url: String,
        /// What it answered.
        why: String,
    },
}

/// Refuses `value` unless it is a number above zero.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, LoadError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(LoadError::Option { name, why: format!("{value} is not a number above 0") })
    }
}
