//! Why a page told nothing.

use std::fmt;

/// Why a page of an endpoint could not be fetched or told nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrapeFailure {
    /// The URL cannot be used, or not in the protocol that is set.
    Url,
    /// Nobody listens there, or there is no way to the host.
    Connect,
    /// The whole page was not there in time.
    Timeout,
    /// The connection broke, or what came is not HTTP.
    Broken,
    /// A status that is not 2xx.
    Status(u16),
    /// The page is compressed, although that was not asked for.
    Encoding,
    /// The page is longer than 5 MiB.
    TooLong,
    /// A 2xx answer without a body.
    Empty,
    /// Something else came, as an HTML page, or one without a known figure.
    NotSignals,
    /// No known engine answers there.
    Unknown,
}

impl ScrapeFailure {
    /// Every label, for whoever prepares metrics.
    pub const LABELS: [&str; 10] = [
        "url",
        "connect",
        "timeout",
        "broken",
        "status",
        "encoding",
        "too_long",
        "empty",
        "not_signals",
        "unknown",
    ];

    /// The reason in one word, one of [`LABELS`](Self::LABELS).
    pub const fn label(self) -> &'static str {
        match self {
            ScrapeFailure::Url => "url",
            ScrapeFailure::Connect => "connect",
            ScrapeFailure::Timeout => "timeout",
            ScrapeFailure::Broken => "broken",
            ScrapeFailure::Status(_) => "status",
            ScrapeFailure::Encoding => "encoding",
            ScrapeFailure::TooLong => "too_long",
            ScrapeFailure::Empty => "empty",
            ScrapeFailure::NotSignals => "not_signals",
            ScrapeFailure::Unknown => "unknown",
        }
    }

    /// Whether the endpoint answered at all, so that another page of it may tell more.
    pub(crate) const fn answered(self) -> bool {
        !matches!(self, ScrapeFailure::Url | ScrapeFailure::Connect | ScrapeFailure::Timeout)
    }

    /// Whether asking again would give the same: the page is not there, or not
    /// for us, or is another one.
    pub(crate) const fn is_final(self) -> bool {
        match self {
            ScrapeFailure::Status(status) => status < 500,
            ScrapeFailure::Connect | ScrapeFailure::Timeout | ScrapeFailure::Broken => false,
            _ => true,
        }
    }
}

impl fmt::Display for ScrapeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScrapeFailure::Url => f.write_str("its URL cannot be used"),
            ScrapeFailure::Connect => f.write_str("no connection"),
            ScrapeFailure::Timeout => f.write_str("no whole answer in time"),
            ScrapeFailure::Broken => f.write_str("the connection broke or it is not HTTP"),
            ScrapeFailure::Status(status) => write!(f, "status {status}"),
            ScrapeFailure::Encoding => f.write_str("the answer is compressed"),
            ScrapeFailure::TooLong => f.write_str("the answer is longer than 5 MiB"),
            ScrapeFailure::Empty => f.write_str("the answer is empty"),
            ScrapeFailure::NotSignals => f.write_str("the answer holds no known figure"),
            ScrapeFailure::Unknown => f.write_str("no known engine answers"),
        }
    }
}
