//! In whose words an engine tells its load.

use std::fmt;
use std::str::FromStr;

/// Whose names the metrics page and the list of models use. Inference itself
/// answers as vLLM does under every one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricsDialect {
    /// vLLM 0.32, in full.
    #[default]
    Vllm,
    /// SGLang 0.5.23: its page, and `/v1/loads`.
    Sglang,
    /// The server of llama.cpp.
    Llamacpp,
    /// Hugging Face text-generation-inference.
    Tgi,
    /// LMDeploy.
    Lmdeploy,
}

impl MetricsDialect {
    /// Every dialect.
    pub const ALL: &'static [MetricsDialect] = &[
        MetricsDialect::Vllm,
        MetricsDialect::Sglang,
        MetricsDialect::Llamacpp,
        MetricsDialect::Tgi,
        MetricsDialect::Lmdeploy,
    ];

    /// The word for it, which the gateway's `engine:` takes too.
    pub fn as_str(self) -> &'static str {
        match self {
            MetricsDialect::Vllm => "vllm",
            MetricsDialect::Sglang => "sglang",
            MetricsDialect::Llamacpp => "llamacpp",
            MetricsDialect::Tgi => "tgi",
            MetricsDialect::Lmdeploy => "lmdeploy",
        }
    }
}

impl fmt::Display for MetricsDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for MetricsDialect {
    type Err = String;

    fn from_str(word: &str) -> Result<MetricsDialect, String> {
        Self::ALL.iter().copied().find(|dialect| dialect.as_str() == word).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|dialect| dialect.as_str()).collect();
            format!("there is no such dialect; there are {}", known.join(", "))
        })
    }
}
