//! Conversations in groups that share a system prompt, a fixed number at a time.

use std::fmt;

use rand::distr::Distribution;
use rand_distr::Zipf;
use serde::Serialize;

use crate::error::{LoadError, positive};
use crate::seed::{Stream, generator};
use crate::text::text;

/// The "groups" workload: what shows whether a policy places shared prefixes
/// well. Many groups are cold: most system prompts are rare, and all together
/// are more than one engine holds.
///
/// It is a closed loop. `concurrency` conversations run at any time; each
/// belongs to a group drawn by popularity, and asks its questions one after the
/// other without a pause. When one ends the next begins. What is sent depends
/// on these figures and the seed alone, except for the answers, which are those
/// that really came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupsTraffic {
    /// Different system prompts.
    pub groups: usize,
    /// Length of each system prompt, in bytes.
    pub system_prompt_bytes: usize,
    /// Exponent of the Zipf law of the groups' popularity; 0 makes all equal.
    pub zipf_exponent: f64,
    /// Conversations in all, at least 1.
    pub conversations: u64,
    /// Questions in a conversation, at least 1.
    pub turns: usize,
    /// Conversations at a time, at least 1.
    pub concurrency: usize,
    /// Length of each question, in bytes.
    pub question_bytes: usize,
    /// Length of each answer, in tokens; at least 1.
    pub answer_tokens: u32,
    /// How much faster than life the engines run.
    pub time_scale: f64,
}

impl Default for GroupsTraffic {
    fn default() -> GroupsTraffic {
        GroupsTraffic {
            groups: 64,
            system_prompt_bytes: 16_384,
            zipf_exponent: 0.8,
            conversations: 640,
            turns: 2,
            concurrency: 32,
            question_bytes: 300,
            answer_tokens: 64,
            time_scale: 1.0,
        }
    }
}

impl GroupsTraffic {
    /// Refuses values outside their ranges.
    ///
    /// # Errors
    /// Names the first such value.
    pub fn validate(&self) -> Result<(), LoadError> {
        let least_one = |name, value: u64| match value {
            0 => Err(LoadError::Option { name, why: "0 is less than 1".into() }),
            _ => Ok(()),
        };
        least_one("groups", self.groups as u64)?;
        least_one("conversations", self.conversations)?;
        least_one("turns", self.turns as u64)?;
        least_one("concurrency", self.concurrency as u64)?;
        least_one("answer tokens", u64::from(self.answer_tokens))?;
        if !(self.zipf_exponent.is_finite() && self.zipf_exponent >= 0.0) {
            let why = format!("{} is not a number from 0 up", self.zipf_exponent);
            return Err(LoadError::Option { name: "zipf exponent", why });
        }
        positive("time-scale", self.time_scale)?;
        Ok(())
    }
}

impl fmt::Display for GroupsTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} system prompts of {} bytes (Zipf {}), {} conversations of {} turns, {} at a time, {}-byte questions, \
             {}-token answers",
            self.groups,
            self.system_prompt_bytes,
            self.zipf_exponent,
            self.conversations,
            self.turns,
            self.concurrency,
            self.question_bytes,
            self.answer_tokens,
        )
    }
}

/// One conversation as planned.
#[derive(Debug, PartialEq)]
pub(crate) struct GroupConversation {
    /// From 0, the most popular first.
    pub(crate) group: usize,
    pub(crate) questions: Vec<String>,
}

/// The plan: any conversation by its number.
pub(crate) struct GroupsPlan {
    traffic: GroupsTraffic,
    seed: u64,
    popularity: Zipf<f64>,
}

impl GroupsPlan {
    pub(crate) fn new(traffic: &GroupsTraffic, seed: u64) -> Result<GroupsPlan, LoadError> {
        traffic.validate()?;
        let popularity =
            Zipf::new(traffic.groups as f64, traffic.zipf_exponent).map_err(|_| LoadError::Option {
                name: "zipf exponent",
                why: format!("{} is out of range", traffic.zipf_exponent),
            })?;
        Ok(GroupsPlan { traffic: traffic.clone(), seed, popularity })
    }

    pub(crate) fn conversation(&self, index: u64) -> GroupConversation {
        let mut rng = generator(self.seed, Stream::Conversation, index);
        let group = (self.popularity.sample(&mut rng) as usize).saturating_sub(1);
        let turns = self.traffic.turns;
        let questions = (0..turns).map(|turn| {
            let mut words = generator(self.seed, Stream::Question, index * turns as u64 + turn as u64);
            // Different from the first byte on: questions share nothing.
            let head = format!("{index}.{}: a question. ", turn + 1);
            text(&mut words, &head, self.traffic.question_bytes)
        });
        GroupConversation { group, questions: questions.collect() }
    }
}
