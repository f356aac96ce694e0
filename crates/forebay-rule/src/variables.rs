//! Everything that an expression can name: one table for the check, the
//! evaluation and the documentation.

/// What an expression reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the table below says what each one is")]
pub enum Variable {
    Running,
    Waiting,
    KvUsage,
    InFlight,
    OwedMs,
    HeldTokens,
    Throughput,
    GpuUtilization,
    GpuTemperature,
    GpuThrottled,
    PrefillFactor,
    DecodeFactor,
    Weight,
    Ramp,
    SignalAge,
    Name,
    Zone,
    Accelerator,
    Version,
    PromptTokens,
    OutputTokens,
    Priority,
    Stream,
    Model,
    Adapter,
    Session,
    /// A signal of the operator's own, by its place in the configuration.
    Signal(u8),
}

/// What kind of value a variable has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A double.
    Number,
    /// True or false.
    Flag,
    /// A string.
    Text,
}

impl Kind {
    /// The word in error messages and in the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Number => "a number",
            Kind::Flag => "true or false",
            Kind::Text => "a text",
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name in expressions.
    pub name: &'static str,
    /// What it reads.
    pub variable: Variable,
    /// Its type.
    pub kind: Kind,
    /// Whether it can be unknown.
    pub unknown: bool,
    /// What it is, with its unit.
    pub meaning: &'static str,
}

const fn entry(
    name: &'static str,
    variable: Variable,
    kind: Kind,
    unknown: bool,
    meaning: &'static str,
) -> Entry {
    Entry { name, variable, kind, unknown, meaning }
}

use Kind::{Flag, Number, Text};
use Variable as V;

/// Every variable but the operator's own signals, which are numbers that can
/// be unknown, by the name that the configuration gives them.
pub const TABLE: [Entry; 26] = [
    entry("running", V::Running, Number, true, "requests in the engine's running batch, as last reported"),
    entry("waiting", V::Waiting, Number, true, "requests in the engine's own queue, as last reported"),
    entry("kv_usage", V::KvUsage, Number, true, "share of the KV memory in use, 0 to 1, as last reported"),
    entry("throughput", V::Throughput, Number, true, "tokens per second that the engine says it generates"),
    entry("gpu_utilization", V::GpuUtilization, Number, true, "share of time in which a kernel ran, 0 to 1"),
    entry("gpu_temperature", V::GpuTemperature, Number, true, "degrees Celsius of the hottest GPU"),
    entry("gpu_throttled", V::GpuThrottled, Flag, true, "power or heat keeps a GPU below its clock"),
    entry("signal_age", V::SignalAge, Number, true, "seconds since the last report was true"),
    entry("in_flight", V::InFlight, Number, false, "requests that this gateway has there now"),
    entry("owed_ms", V::OwedMs, Number, false, "milliseconds of prefill sent there and not seen finished"),
    entry("held_tokens", V::HeldTokens, Number, false, "tokens of this prompt that the endpoint holds"),
    entry(
        "prefill_factor",
        V::PrefillFactor,
        Number,
        false,
        "learned: how much slower than its class it prefills",
    ),
    entry(
        "decode_factor",
        V::DecodeFactor,
        Number,
        false,
        "learned: how much slower than its class it decodes",
    ),
    entry("weight", V::Weight, Number, false, "its relative capacity as configured"),
    entry("ramp", V::Ramp, Number, false, "share of its load it may get while it starts slowly; 1 when done"),
    entry("name", V::Name, Text, false, "its URL as shown in status and metrics"),
    entry("zone", V::Zone, Text, false, "its zone as configured; \"\" without one"),
    entry("accelerator", V::Accelerator, Text, false, "its GPU class as configured; \"\" without one"),
    entry("version", V::Version, Text, false, "its version as configured; \"\" without one"),
    entry("prompt_tokens", V::PromptTokens, Number, false, "tokens of the prompt, estimated"),
    entry("output_tokens", V::OutputTokens, Number, false, "tokens of the answer, estimated"),
    entry("priority", V::Priority, Number, false, "100 critical, 0 standard, below 0 sheddable"),
    entry("stream", V::Stream, Flag, false, "the client asked for an event stream"),
    entry("model", V::Model, Text, false, "the name that the client asked for"),
    entry("adapter", V::Adapter, Text, false, "that name where it is a LoRA adapter's, else \"\""),
    entry(
        "session",
        V::Session,
        Text,
        false,
        "16 hexadecimal digits that stand for the session; \"\" without one",
    ),
];

/// Whether a name is in the table, so that no signal can have it.
pub fn is_variable(name: &str) -> bool {
    TABLE.iter().any(|entry| entry.name == name)
}

impl Variable {
    /// Its bit in a set; every signal of the operator's has the same.
    pub(crate) fn bit(self) -> u32 {
        let place = TABLE.iter().position(|entry| entry.variable == self).unwrap_or(31);
        1 << place
    }
}
