//! Words out of a fixed list, and switches.

use std::marker::PhantomData;

use forebay_gate::{PolicyKind, Profile};
use forebay_wire::signals::Combine;
use schemars::{Schema, json_schema};

use crate::choices::{Engine, LogFormat, LogLevel, OrcaAsk, Protocol};
use crate::scalar::{Complaint, Kind, VARIABLE, nearest};

/// One of the words of `T`.
pub(crate) struct Word<T>(PhantomData<T>);

/// What a list of words is called and what it holds.
pub(crate) trait Words: Sized {
    /// As in `unknown NOUN "…"`.
    const NOUN: &'static str;

    /// The words, in the order of the documentation.
    fn all() -> Vec<&'static str>;

    /// Reads a word; also older and common other names.
    fn read(text: &str) -> Option<Self>;
}

macro_rules! words {
    ($($name:ident: $noun:literal,)+) => {$(
        impl Words for $name {
            const NOUN: &'static str = $noun;

            fn all() -> Vec<&'static str> {
                $name::ALL.iter().map(|word| word.as_str()).collect()
            }

            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )+};
}

words! {
    Engine: "engine",
    Protocol: "protocol",
    PolicyKind: "policy",
    Profile: "profile",
    OrcaAsk: "format",
    LogLevel: "log level",
    LogFormat: "log format",
}

impl Words for Combine {
    const NOUN: &'static str = "way to combine";

    fn all() -> Vec<&'static str> {
        vec!["sum", "max", "mean"]
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "sum" => Some(Combine::Sum),
            "max" => Some(Combine::Max),
            "mean" => Some(Combine::Mean),
            _ => None,
        }
    }
}

/// Where the endpoints' weights come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WeightSource {
    /// From the configuration.
    Static,
    /// From the observed speeds.
    Dynamic,
}

impl Words for WeightSource {
    const NOUN: &'static str = "source of weights";

    fn all() -> Vec<&'static str> {
        vec!["static", "dynamic"]
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "static" => Some(WeightSource::Static),
            "dynamic" => Some(WeightSource::Dynamic),
            _ => None,
        }
    }
}

impl<T: Words> Kind for Word<T> {
    type Value = T;

    fn parse(text: &str) -> Result<T, Complaint> {
        if let Some(word) = T::read(text) {
            return Ok(word);
        }
        let all = T::all();
        Err(Complaint {
            before: format!("unknown {} ", T::NOUN).into(),
            nearest: nearest(text, all.iter().copied()).map(str::to_owned),
            hint: Some(format!("one of: {}", all.join(", ")).into()),
            ..Complaint::default()
        })
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "enum": T::all() }, { "type": "string", "pattern": VARIABLE }] })
    }

    fn describe() -> String {
        format!("one of {}", T::all().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "))
    }
}

/// `true` or `false`.
pub(crate) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn parse(text: &str) -> Result<bool, Complaint> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => {
                let meant = match text.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "y" | "1" | "true" => Some("true"),
                    "no" | "off" | "n" | "0" | "false" => Some("false"),
                    _ => None,
                };
                let complaint = Complaint::new("is neither true nor false");
                Err(Complaint { nearest: meant.map(str::to_owned), ..complaint })
            }
        }
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["boolean", "string"], "pattern": VARIABLE })
    }

    fn describe() -> String {
        "`true` or `false`".to_owned()
    }
}
