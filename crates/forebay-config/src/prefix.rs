//! How it is known which endpoint holds which prompt prefix.

pub(crate) mod publishers;

use std::path::PathBuf;
use std::time::Duration;

/// The index of prefixes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrefixIndex {
    /// Most bytes of memory that it may use.
    pub max_bytes: usize,
    /// The file that keeps it over a restart.
    pub snapshot: Option<PathBuf>,
    /// Between two writings of that file.
    pub snapshot_interval: Duration,
}

impl Default for PrefixIndex {
    fn default() -> Self {
        PrefixIndex { max_bytes: 256 << 20, snapshot: None, snapshot_interval: Duration::from_secs(60) }
    }
}

/// How prompts are turned into the tokens that the engine sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tokenizer {
    /// The model's `tokenizer.json`.
    pub file: PathBuf,
    /// The model's chat template: a Jinja file, or a `tokenizer_config.json` that has it.
    pub chat_template: Option<PathBuf>,
    /// How long one prompt may take; after that the text decides.
    pub timeout: Duration,
    /// Threads; at least 1.
    pub workers: usize,
}

impl Tokenizer {
    /// The tokenizer in a file, everything else as documented.
    pub fn new(file: impl Into<PathBuf>) -> Tokenizer {
        Tokenizer { file: file.into(), chat_template: None, timeout: Duration::from_millis(5), workers: 1 }
    }
}

/// Where engines publish what their prefix caches gain and lose.
///
/// In a pool, texts may contain `{host}`, which stands for an endpoint's host;
/// [`Pool::kv_events_of`](crate::Pool::kv_events_of) puts it in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KvEvents {
    /// The publisher of rank 0, `tcp://HOST:PORT` or `ipc://PATH`; with `bind`, the
    /// address at which the gateway listens.
    pub url: String,
    /// Where missed events of rank 0 are asked for.
    pub replay: Option<String>,
    /// What topics begin with; empty for any.
    pub topic: String,
    /// Data-parallel ranks of each endpoint, at least 1; those after the first
    /// have the next ports.
    pub ranks: u32,
    /// Whether the engines connect to the gateway, not the gateway to them.
    pub bind: bool,
}

impl Default for KvEvents {
    fn default() -> Self {
        KvEvents {
            url: "tcp://{host}:5557".to_owned(),
            replay: None,
            topic: String::new(),
            ranks: 1,
            bind: false,
        }
    }
}

impl KvEvents {
    /// The same for one host: `{host}` is put in, IPv6 in brackets where an address has it.
    pub(crate) fn at(&self, host: &str) -> KvEvents {
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        KvEvents {
            url: self.url.replace("{host}", &bracketed),
            replay: self.replay.as_ref().map(|replay| replay.replace("{host}", &bracketed)),
            topic: self.topic.replace("{host}", host),
            ..*self
        }
    }
}
