//! The settings that are one word out of a fixed list.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The text is not one of the words that the setting takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not one of the words that this setting takes")]
pub struct UnknownWord;

/// Declares an enum whose values are words: `as_str`, `ALL`, `FromStr`, `Display`.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The word in configuration, metrics and logs.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(s: &str) -> Result<Self, Self::Err> {
                $name::ALL.iter().copied().find(|w| w.as_str() == s).ok_or(UnknownWord)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// The software that answers at a pool's endpoints. It decides which paths,
    /// metrics and error shapes are expected there.
    Engine {
        /// Find out from the endpoint's answers; until then, plain OpenAI.
        #[default]
        Auto = "auto",
        /// vLLM.
        Vllm = "vllm",
        /// SGLang.
        Sglang = "sglang",
        /// TensorRT-LLM's own server.
        Trtllm = "trtllm",
        /// NVIDIA Triton.
        Triton = "triton",
        /// Text Generation Inference.
        Tgi = "tgi",
        /// llama.cpp's server.
        Llamacpp = "llamacpp",
        /// LMDeploy.
        Lmdeploy = "lmdeploy",
        /// Ollama.
        Ollama = "ollama",
        /// Anything else that speaks the OpenAI API.
        Openai = "openai",
    }
}

words! {
    /// How the gateway speaks to a pool's endpoints.
    Protocol {
        /// HTTP/1.1, one request at a time on each connection.
        #[default]
        Http1 = "http1",
        /// HTTP/2 without TLS, by prior knowledge: never probed.
        H2c = "h2c",
    }
}

words! {
    /// In which format engines are asked for a load report (ORCA) with each answer.
    OrcaAsk {
        /// They are not asked; a report that comes is still read.
        #[default]
        None = "none",
        /// `endpoint-load-metrics-format: text`.
        Text = "text",
        /// `endpoint-load-metrics-format: json`.
        Json = "json",
    }
}

words! {
    /// The least important messages that are still logged.
    LogLevel {
        /// Only what failed.
        Error = "error",
        /// Also what is suspicious.
        Warn = "warn",
        /// Also what a person running the program wants to know.
        #[default]
        Info = "info",
        /// Also how requests were decided.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

words! {
    /// The shape of a log line.
    LogFormat {
        /// For people.
        #[default]
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}
