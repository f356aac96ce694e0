//! Label values as closed sets. The words are part of the contract with users.

use std::marker::PhantomData;

/// A closed set of label values that can index an array.
pub(crate) trait Label: Copy + 'static {
    const ALL: &'static [Self];
    fn index(self) -> usize;
    fn word(self) -> &'static str;
}

macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The label value.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl Label for $name {
            const ALL: &'static [Self] = $name::ALL;
            fn index(self) -> usize { self as usize }
            fn word(self) -> &'static str { self.as_str() }
        }
    };
}

label! {
    /// How a request ended, as the client saw it.
    OutcomeLabel {
        /// A whole answer that is not the client's mistake went out.
        Ok = "finished",
        /// The request was wrong (4xx), by the engine's word or ours.
        ClientError = "client_error",
        /// The client went away before the end.
        ClientCancelled = "client_cancelled",
        /// The engine said 429, or 503 with `Retry-After`.
        Backpressure = "backpressure",
        /// No connection, a broken one before the answer, a 5xx, or an answer that is not HTTP.
        UpstreamError = "upstream_error",
        /// The answer began and broke off.
        UpstreamTruncated = "upstream_truncated",
        /// An error object or an abort inside a 200 stream.
        StreamError = "stream_error",
        /// No connection to an endpoint within the limit.
        TimeoutConnect = "timeout_connect",
        /// No first event, or no answer, within the limit.
        TimeoutFirstByte = "timeout_first_byte",
        /// Silence between two bytes beyond the limit.
        TimeoutIdle = "timeout_idle",
        /// The whole request took longer than its limit.
        TimeoutTotal = "timeout_total",
        /// Refused by the gateway: nothing ready, over a limit, draining.
        Rejected = "rejected",
        /// No such path or model.
        Unrouted = "unrouted",
        /// A fault of the gateway itself.
        InternalError = "internal_error",
    }
}

label! {
    /// Why the gateway refused a request itself.
    Reject {
        /// The body is not what the path needs, or names a field wrongly.
        BadRequest = "bad_request",
        /// No such path.
        UnknownPath = "unknown_path",
        /// No such model.
        UnknownModel = "unknown_model",
        /// The path exists, the method does not.
        MethodNotAllowed = "method_not_allowed",
        /// The body is over `limits` for one request.
        BodyTooLarge = "body_too_large",
        /// The header block is over its limit.
        HeadersTooLarge = "headers_too_large",
        /// The header block did not arrive in time.
        HeaderTimeout = "header_timeout",
        /// The body stalled.
        BodyTimeout = "body_timeout",
        /// No endpoint of the pool is ready.
        NotReady = "not_ready",
        /// The process is draining.
        Draining = "draining",
        /// Too many client connections.
        ConnectionLimit = "connection_limit",
        /// Too many requests in flight in the whole gateway.
        InflightLimit = "inflight_limit",
        /// Bodies of all requests together are over `limits.body_memory`.
        BodyMemory = "body_memory",
        /// The queue is full.
        QueueFull = "queue_full",
        /// It waited in the queue for as long as it may.
        QueueTimeout = "queue_timeout",
    }
}

label! {
    /// Why a request was sent to an endpoint a second time.
    Retry {
        /// The connection could not be made.
        Connect = "connect",
        /// A reused connection broke before the engine can have seen the request.
        StaleConnection = "stale_connection",
        /// The endpoint refused the stream unprocessed (HTTP/2 `REFUSED_STREAM` or GOAWAY).
        RefusedStream = "refused_stream",
        /// The endpoint did not have the adapter; another one has it.
        ModelMissing = "model_missing",
    }
}

label! {
    /// How an attempt to open a connection to an endpoint ended.
    Dial {
        /// Connected.
        Ok = "ok",
        /// Refused.
        Refused = "refused",
        /// Not established in time.
        Timeout = "timeout",
        /// Any other error.
        Error = "error",
    }
}

label! {
    /// How a readiness probe ended.
    Probe {
        /// The endpoint answered that it is healthy.
        Ok = "ok",
        /// It answered otherwise, not in time, or not at all.
        Failed = "failed",
    }
}

label! {
    /// How a request for a page of an endpoint ended.
    Scrape {
        /// The page told something.
        Ok = "ok",
        /// It did not come, or told nothing.
        Failed = "failed",
    }
}

label! {
    /// The pages of endpoints that are asked for.
    Page {
        /// The engine's Prometheus page.
        Metrics = "metrics",
        /// The engine's load in JSON.
        Loads = "loads",
        /// The list of models.
        Models = "models",
        /// The exporter of the node's GPUs.
        Gpu = "gpu",
        /// Asked for only to find out which engine answers.
        Detect = "detect",
    }
}

impl Page {
    /// The page with this word; none when there is no such page.
    pub fn from_word(word: &str) -> Option<Page> {
        Self::ALL.iter().copied().find(|page| page.as_str() == word)
    }
}

label! {
    /// Why blocks left the prefix index before anything said that they were gone.
    Eviction {
        /// The endpoint holds no more than that.
        Capacity = "capacity",
        /// The index may use no more memory.
        Memory = "memory",
    }
}

label! {
    /// What came of a KV-cache event.
    KvEvent {
        /// Handed on to the index.
        Applied = "applied",
        /// Of a type that is not known.
        Skipped = "skipped",
        /// Part of a message that could not be read; counted by message.
        Unreadable = "unreadable",
    }
}

label! {
    /// What interrupted the KV-cache events of an engine.
    KvFault {
        /// The connection could not be made or broke.
        Disconnected = "disconnected",
        /// Batches were missed.
        Gap = "gap",
        /// Missed batches were asked for again and did not come.
        ReplayFailed = "replay_failed",
        /// What was known was forgotten, because batches stayed missing.
        Reset = "reset",
        /// The engine began anew.
        Restart = "restart",
        /// An engine's blocks are not of the size that its pool goes by.
        MixedBlocks = "mixed_blocks",
    }
}

label! {
    /// What became of a block that a KV-cache event told of.
    KvBlock {
        /// Stored, and followed.
        Stored = "stored",
        /// Stored again where it was already.
        Repeated = "repeated",
        /// Removed.
        Removed = "removed",
        /// Not indexed: the block before it is not known, or not indexed.
        Unplaced = "unplaced",
        /// Not indexed: tokens do not tell what it holds.
        Opaque = "opaque",
        /// Not indexed: shorter than the engine's blocks, so that nobody shares it.
        Short = "short",
        /// Not indexed: of a KV cache group that makes no hit.
        OtherGroup = "other_group",
        /// Removed without being known.
        UnknownRemoved = "unknown_removed",
        /// Gone because another block was stored under its name.
        Replaced = "replaced",
        /// Not indexed: no room is left for blocks of its endpoint.
        OverLimit = "over_limit",
        /// An event whose numbers contradict each other.
        Malformed = "malformed",
    }
}

label! {
    /// What came of asking a pool's tokenizer for a prompt's tokens.
    Tokenized {
        /// They came in time.
        Tokens = "tokens",
        /// They did not come in time.
        Slow = "slow",
        /// Too much waited for a thread already.
        Busy = "busy",
        /// The prompt could not be rendered or tokenised.
        Failed = "failed",
        /// Nobody was asked: the engine counts other tokens.
        Off = "off",
    }
}

label! {
    /// What became of an entry of the decision log.
    LogEntry {
        /// Written.
        Written = "written",
        /// Lost, because the writer could not keep up.
        Lost = "lost",
        /// Its write failed.
        Failed = "failed",
        /// Dropped, because the file was full and could not be put aside.
        Full = "full",
    }
}

label! {
    /// A summary of how wrong predictions were, as factors.
    ErrorStatistic {
        /// Geometric mean of observed over predicted: above 1, predictions are too short.
        Bias = "bias",
        /// Mean error, at least 1: 1.2 is a fifth off, whichever way.
        Mean = "mean",
        /// Median error, at least 1.
        P50 = "p50",
        /// 90th percentile of the error, at least 1.
        P90 = "p90",
    }
}

label! {
    /// Whether a shadow policy chose the same endpoint.
    Agreed {
        /// It did.
        Yes = "true",
        /// It chose another one.
        No = "false",
    }
}

label! {
    /// The states of an endpoint; the same words as everywhere else.
    EndpointStateLabel {
        /// No probe has succeeded yet.
        Starting = "starting",
        /// Picked.
        Ready = "ready",
        /// Fails its probes.
        Unready = "unready",
        /// Taken out by an operator, keeps what it has.
        Draining = "draining",
        /// Taken out by an operator and not probed.
        Disabled = "disabled",
    }
}

impl EndpointStateLabel {
    /// The state with this word; none when there is no such state.
    pub fn from_word(word: &str) -> Option<EndpointStateLabel> {
        Self::ALL.iter().copied().find(|s| s.as_str() == word)
    }
}

label! {
    /// How a shadow policy's choice was priced, compared with the one that was made.
    ThanChosen {
        /// It would have cost more.
        Dearer = "dearer",
        /// It would have cost less.
        Cheaper = "cheaper",
    }
}

/// One cell for each value of a label.
pub(crate) struct PerLabel<L, T> {
    cells: Box<[T]>,
    label: PhantomData<L>,
}

impl<L: Label, T: Default> Default for PerLabel<L, T> {
    fn default() -> Self {
        PerLabel { cells: L::ALL.iter().map(|_| T::default()).collect(), label: PhantomData }
    }
}

impl<L: Label, T> PerLabel<L, T> {
    pub(crate) fn of(&self, label: L) -> &T {
        &self.cells[label.index()]
    }

    /// Every label value with its cell.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &T)> {
        L::ALL.iter().map(|label| label.word()).zip(&self.cells)
    }
}
