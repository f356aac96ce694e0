//! Which engine speaks, and where it tells what.

use std::fmt;

/// The way in which an engine states its load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dialect {
    /// vLLM, with its names of before and after 0.12.
    Vllm,
    /// SGLang; its metrics page needs `--enable-metrics`, `/v1/loads` does not.
    Sglang,
    /// TensorRT-LLM's own server, `trtllm-serve`; needs `return_perf_metrics`.
    Trtllm,
    /// Triton Inference Server, with or without the TensorRT-LLM backend.
    Triton,
    /// Hugging Face text-generation-inference.
    Tgi,
    /// The server of llama.cpp; its metrics page needs `--metrics`.
    Llamacpp,
    /// LMDeploy's `api_server`.
    Lmdeploy,
    /// Ollama, which states no load at all.
    Ollama,
    /// Anything else that answers OpenAI's API; states no load.
    Openai,
}

impl Dialect {
    /// Every dialect, in the order of the configuration's names.
    pub const ALL: [Self; 9] = [
        Self::Vllm,
        Self::Sglang,
        Self::Trtllm,
        Self::Triton,
        Self::Tgi,
        Self::Llamacpp,
        Self::Lmdeploy,
        Self::Ollama,
        Self::Openai,
    ];

    /// The name, as the configuration spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Trtllm => "trtllm",
            Self::Triton => "triton",
            Self::Tgi => "tgi",
            Self::Llamacpp => "llamacpp",
            Self::Lmdeploy => "lmdeploy",
            Self::Ollama => "ollama",
            Self::Openai => "openai",
        }
    }

    /// The dialect called `name` in the configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }

    /// The path of the Prometheus page; none where the engine has none.
    pub const fn metrics_path(self) -> Option<&'static str> {
        match self {
            // Its `/metrics` is JSON, and reading it takes from a queue.
            Self::Trtllm => Some("/prometheus/metrics"),
            Self::Vllm | Self::Sglang | Self::Triton | Self::Tgi | Self::Llamacpp | Self::Lmdeploy => {
                Some("/metrics")
            }
            Self::Ollama | Self::Openai => None,
        }
    }

    /// The port of the Prometheus page, where it is by default another one
    /// than that of the API.
    pub const fn metrics_port(self) -> Option<u16> {
        match self {
            Self::Triton => Some(8002),
            _ => None,
        }
    }

    /// Path and query of a load feed in JSON, for [`read_loads`](super::read_loads).
    pub const fn loads_path(self) -> Option<&'static str> {
        match self {
            Self::Sglang => Some("/v1/loads?include=core,memory"),
            _ => None,
        }
    }

    /// Method and path that tell which models are present, for
    /// [`read_models`](super::read_models). Ollama tells those in memory, the
    /// others those that it serves.
    pub const fn resident_path(self) -> (&'static str, &'static str) {
        match self {
            Self::Ollama => ("GET", "/api/ps"),
            Self::Triton => ("POST", "/v2/repository/index"),
            _ => ("GET", "/v1/models"),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
