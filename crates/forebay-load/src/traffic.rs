//! What the demo's clients do.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::error::{LoadError, positive};

/// The demo's traffic. The default is *the* demo: figures are compared across
/// versions, so it changes only with a line in the changelog.
///
/// Each conversation picks a system prompt by popularity, asks `turns`
/// questions, and waits between an answer's end and the next question as long
/// as a reader thinks. `requests_per_second` counts requests of all turns:
/// conversations start as a Poisson process at `requests_per_second / turns`.
/// Traffic starts cold, so that in the first seconds, while there are no second
/// and third turns yet, fewer requests arrive.
///
/// All times are engine time; with a time scale of 10 everything arrives ten
/// times as fast on the wall clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoTraffic {
    /// Different system prompts.
    pub system_prompts: usize,
    /// Length of each system prompt, in bytes.
    pub system_prompt_bytes: usize,
    /// Exponent of the Zipf law of the prompts' popularity; 0 makes all equal.
    pub zipf_exponent: f64,
    /// Questions in a conversation, at least 1.
    pub turns: usize,
    /// Length of each question, in bytes.
    pub question_bytes: usize,
    /// Mean of the lognormal answer length, in tokens.
    pub answer_mean_tokens: f64,
    /// Standard deviation of the answer length's logarithm.
    pub answer_sigma: f64,
    /// Mean of the exponential think time, in seconds of engine time.
    pub think_mean_seconds: f64,
    /// Requests that arrive in a second of engine time, all turns together.
    pub requests_per_second: f64,
    /// How much faster than life the engines run.
    pub time_scale: f64,
}

impl Default for DemoTraffic {
    fn default() -> DemoTraffic {
        DemoTraffic {
            system_prompts: 64,
            system_prompt_bytes: 16_384,
            zipf_exponent: 0.8,
            turns: 3,
            question_bytes: 400,
            answer_mean_tokens: 180.0,
            answer_sigma: 0.8,
            think_mean_seconds: 4.0,
            requests_per_second: 12.0,
            time_scale: 1.0,
        }
    }
}

impl DemoTraffic {
    /// Conversations that start in a second of engine time.
    pub fn conversations_per_second(&self) -> f64 {
        self.requests_per_second / self.turns as f64
    }

    /// Engine time as wall time.
    pub(crate) fn wall(&self, engine: Duration) -> Duration {
        Duration::try_from_secs_f64(engine.as_secs_f64() / self.time_scale).unwrap_or(Duration::MAX)
    }

    /// Refuses values outside their ranges.
    ///
    /// # Errors
    /// Names the first such value.
    pub fn validate(&self) -> Result<(), LoadError> {
        let least_one = |name, value: usize| {
            if value == 0 {
                return Err(LoadError::Option { name, why: "0 is less than 1".into() });
            }
            Ok(())
        };
        let not_negative = |name, value: f64| {
            if value.is_finite() && value >= 0.0 {
                return Ok(());
            }
            Err(LoadError::Option { name, why: format!("{value} is not a number from 0 up") })
        };
        least_one("system prompts", self.system_prompts)?;
        least_one("turns", self.turns)?;
        not_negative("zipf exponent", self.zipf_exponent)?;
        not_negative("answer sigma", self.answer_sigma)?;
        not_negative("think time", self.think_mean_seconds)?;
        positive("mean answer length", self.answer_mean_tokens)?;
        positive("requests per second", self.requests_per_second)?;
        positive("time-scale", self.time_scale)?;
        Ok(())
    }
}

impl fmt::Display for DemoTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} system prompts of {} bytes (Zipf {}), {} turns a conversation, {}-byte questions, \
             answers lognormal with mean {} tokens (sigma {}), think time exponential with mean {} s, \
             conversations starting as a Poisson process so that {} requests arrive a second in all, \
             time scale {}",
            self.system_prompts,
            self.system_prompt_bytes,
            self.zipf_exponent,
            self.turns,
            self.question_bytes,
            self.answer_mean_tokens,
            self.answer_sigma,
            self.think_mean_seconds,
            self.requests_per_second,
            self.time_scale,
        )
    }
}
