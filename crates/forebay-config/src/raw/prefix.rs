//! How it is known which endpoint holds which prompt prefix, and the decision log.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Field;
use crate::kinds::{Bytes, FilePath, Flag, Int, Line, Publisher, Span};
use crate::schema::order;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOUR: u64 = 3_600_000;

/// What is remembered of who holds which prompt prefix, for all pools together.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PrefixIndex", transform = order::<RawPrefixIndex>)]
pub(crate) struct RawPrefixIndex {
    /// The memory that it may use; what was not asked for longest is forgotten first. Where
    /// `kv_events` are followed, three quarters of it are for what engines tell of their own caches, the
    /// same for each endpoint: blocks of 16 tokens take 140 bytes each, about, those of 64 or more 110, so
    /// that an engine with room for 400,000 tokens takes 3.5 MB. What does not fit is not known
    /// (`forebay_kv_blocks_total{result="over_limit"}`). Each group of pools that share no endpoint with
    /// others needs 1 MiB of the rest.
    #[schemars(extend("default" = "256MiB"))]
    pub(crate) max_bytes: Field<Bytes<MIB, { 64 * GIB }>>,

    /// A file that keeps it over a restart of the gateway. It holds hashes, no prompts.
    pub(crate) snapshot: Field<FilePath>,

    /// From one writing of that file to the next; it is also written when the program ends.
    #[schemars(extend("default" = "60s"))]
    pub(crate) snapshot_interval: Field<Span<1_000, HOUR>>,
}

/// Turns prompts into the tokens that the engine sees, so that prefixes are compared exactly and
/// KV-cache events can be used. Without it, prefixes are compared as text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tokenizer", transform = order::<RawTokenizer>)]
pub(crate) struct RawTokenizer {
    /// The model's `tokenizer.json`.
    #[schemars(required)]
    pub(crate) file: Field<FilePath>,

    /// The model's chat template: a Jinja file, or the `tokenizer_config.json` that has it. Without
    /// it, only prompts that are not chats are turned into tokens.
    pub(crate) chat_template: Field<FilePath>,

    /// How long one prompt may take. After that its text is used.
    #[schemars(extend("default" = "5ms"))]
    pub(crate) timeout: Field<Span<1, 1_000>>,

    /// Threads that do it.
    #[schemars(extend("default" = 1))]
    pub(crate) workers: Field<Int<1, 64>>,
}

/// Where the engines publish what their prefix caches gain and lose, over ZeroMQ. An empty mapping
/// (`kv_events: {}`) is every default; an engine `vllm` or `auto` is then asked where it publishes
/// (`GET /kv_event_sources`, vLLM 0.32 and newer), and one that does not say is looked for at the
/// default `url`, unless other endpoints have the same. In `url`, `replay` and `topic`, `{host}` stands for the
/// endpoint's host; inside braces such a text needs quotes. An engine `trtllm` publishes nothing:
/// with the default `url` it is asked for its events at the endpoint's own URL. Each answer empties
/// the engine's queue, so only one gateway may ask; the engine needs `enable_block_reuse` and an
/// `event_buffer_max_size` above 0.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "KvEvents", transform = order::<RawKvEvents>)]
pub(crate) struct RawKvEvents {
    /// The publisher of an endpoint. With `bind`, where the gateway listens, such as
    /// `tcp://0.0.0.0:5557`.
    #[schemars(extend("default" = "tcp://{host}:5557"))]
    pub(crate) url: Field<Publisher>,

    /// Where events that were missed are asked for, such as `tcp://{host}:5558`. Without it, a gap
    /// makes the gateway forget what the endpoint holds.
    pub(crate) replay: Field<Publisher>,

    /// What the topics of an endpoint begin with, such as `kv@{host}`. Default: any topic.
    pub(crate) topic: Field<Line>,

    /// Data-parallel ranks of each endpoint. Those after the first publish at the next ports.
    #[schemars(extend("default" = 1))]
    pub(crate) ranks: Field<Int<1, 1024>>,

    /// Whether the engines connect to the gateway. If not, the gateway connects to them.
    #[schemars(extend("default" = false))]
    pub(crate) bind: Field<Flag>,
}

/// Every decision and all that it was made from, to be replayed or explained later. Prompts are not
/// in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DecisionLog", transform = order::<RawDecisionLog>)]
pub(crate) struct RawDecisionLog {
    /// The file. The one before it is kept beside it, with `.1` at its end.
    #[schemars(required)]
    pub(crate) path: Field<FilePath>,

    /// A larger file is put aside and a new one begun, so that the two hold twice this at most;
    /// or four times the gateway's own state, which each file begins with, where that is more.
    #[schemars(extend("default" = "256MiB"))]
    pub(crate) max_bytes: Field<Bytes<MIB, { 1024 * GIB }>>,
}
