//! The values that an expression is evaluated with.

use forebay_core::CUSTOM_SIGNALS;

use crate::variables::Variable;

/// What is known of a candidate; see the [table](crate::variables::TABLE).
/// Figures that are not finite count as unknown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EndpointVars<'a> {
    /// Its URL.
    pub name: &'a str,
    /// Its zone, empty without one.
    pub zone: &'a str,
    /// Its GPU class, empty without one.
    pub accelerator: &'a str,
    /// Its version, empty without one.
    pub version: &'a str,
    /// Requests in its running batch.
    pub running: Option<f64>,
    /// Requests in its own queue.
    pub waiting: Option<f64>,
    /// Share of its KV memory in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Tokens per second that it generates.
    pub throughput: Option<f64>,
    /// Share of time in which its GPU works, 0 to 1.
    pub gpu_utilization: Option<f64>,
    /// Degrees Celsius.
    pub gpu_temperature: Option<f64>,
    /// Kept below its clock by power or heat.
    pub gpu_throttled: Option<bool>,
    /// Seconds.
    pub signal_age: Option<f64>,
    /// Requests that this gateway has there.
    pub in_flight: f64,
    /// Milliseconds of prefill that it owes.
    pub owed_ms: f64,
    /// Tokens of this prompt that it holds.
    pub held_tokens: f64,
    /// How much slower than its class it prefills.
    pub prefill_factor: f64,
    /// How much slower than its class it decodes.
    pub decode_factor: f64,
    /// Its relative capacity.
    pub weight: f64,
    /// Share of its load that it may get, 0 to 1.
    pub ramp: f64,
    /// The operator's own signals, in the order of the configuration.
    pub signals: [Option<f64>; CUSTOM_SIGNALS],
}

impl Default for EndpointVars<'_> {
    /// An idle endpoint of which nothing was told.
    fn default() -> Self {
        EndpointVars {
            name: "",
            zone: "",
            accelerator: "",
            version: "",
            running: None,
            waiting: None,
            kv_usage: None,
            throughput: None,
            gpu_utilization: None,
            gpu_temperature: None,
            gpu_throttled: None,
            signal_age: None,
            in_flight: 0.0,
            owed_ms: 0.0,
            held_tokens: 0.0,
            prefill_factor: 1.0,
            decode_factor: 1.0,
            weight: 1.0,
            ramp: 1.0,
            signals: [None; CUSTOM_SIGNALS],
        }
    }
}

/// What is known of the request; see the [table](crate::variables::TABLE).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RequestVars<'a> {
    /// Tokens of the prompt, estimated.
    pub prompt_tokens: f64,
    /// Tokens of the answer, estimated.
    pub output_tokens: f64,
    /// Its class: 100 critical, 0 standard, below 0 sheddable.
    pub priority: f64,
    /// The client asked for an event stream.
    pub stream: bool,
    /// The name that the client asked for.
    pub model: &'a str,
    /// That name where it is an adapter's, else empty.
    pub adapter: &'a str,
    /// What stands for the session, empty without one.
    pub session: &'a str,
}

/// Both together.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) request: &'a RequestVars<'a>,
    pub(crate) endpoint: &'a EndpointVars<'a>,
}

impl<'a> Values<'a> {
    /// The value of a number; none where it is unknown or not finite.
    pub(crate) fn number(&self, variable: Variable) -> Option<f64> {
        let (request, endpoint) = (self.request, self.endpoint);
        let value = match variable {
            Variable::Running => endpoint.running,
            Variable::Waiting => endpoint.waiting,
            Variable::KvUsage => endpoint.kv_usage,
            Variable::Throughput => endpoint.throughput,
            Variable::GpuUtilization => endpoint.gpu_utilization,
            Variable::GpuTemperature => endpoint.gpu_temperature,
            Variable::SignalAge => endpoint.signal_age,
            Variable::Signal(place) => endpoint.signals.get(usize::from(place)).copied().flatten(),
            Variable::InFlight => Some(endpoint.in_flight),
            Variable::OwedMs => Some(endpoint.owed_ms),
            Variable::HeldTokens => Some(endpoint.held_tokens),
            Variable::PrefillFactor => Some(endpoint.prefill_factor),
            Variable::DecodeFactor => Some(endpoint.decode_factor),
            Variable::Weight => Some(endpoint.weight),
            Variable::Ramp => Some(endpoint.ramp),
            Variable::PromptTokens => Some(request.prompt_tokens),
            Variable::OutputTokens => Some(request.output_tokens),
            Variable::Priority => Some(request.priority),
            Variable::GpuThrottled
            | Variable::Stream
            | Variable::Name
            | Variable::Zone
            | Variable::Accelerator
            | Variable::Version
            | Variable::Model
            | Variable::Adapter
            | Variable::Session => None,
        };
        value.filter(|value| value.is_finite())
    }

    /// The value of a flag; none where it is unknown.
    pub(crate) fn flag(&self, variable: Variable) -> Option<bool> {
        match variable {
            Variable::GpuThrottled => self.endpoint.gpu_throttled,
            Variable::Stream => Some(self.request.stream),
            _ => None,
        }
    }

    /// The value of a text.
    pub(crate) fn text(&self, variable: Variable) -> &'a str {
        match variable {
            Variable::Name => self.endpoint.name,
            Variable::Zone => self.endpoint.zone,
            Variable::Accelerator => self.endpoint.accelerator,
            Variable::Version => self.endpoint.version,
            Variable::Model => self.request.model,
            Variable::Adapter => self.request.adapter,
            Variable::Session => self.request.session,
            _ => "",
        }
    }
}
