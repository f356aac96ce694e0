//! The plan of the demo's conversations: a function of traffic and seed alone.

use std::time::Duration;

use rand::distr::Distribution;
use rand_distr::{Exp, LogNormal, Zipf};
use rand_pcg::Pcg64;

use crate::error::LoadError;
use crate::seed::{Stream, generator};
use crate::text::text;
use crate::traffic::DemoTraffic;

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;

/// One conversation as planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// Its number, from 0.
    pub index: u64,
    /// When its first question is asked: engine time since the run's start.
    pub start: Duration,
    /// Which system prompt, from 0, the most popular first.
    pub system_prompt: usize,
    /// Its questions in order.
    pub turns: Vec<Turn>,
}

/// One question and its answer as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Engine time between the end of the last answer and this question; zero
    /// for the first.
    pub think: Duration,
    /// The question's text.
    pub question: String,
    /// Length of the answer in tokens, at least 1.
    pub answer_tokens: u32,
}

/// The endless sequence of conversations, by start.
pub struct Schedule {
    seed: u64,
    turns: usize,
    question_bytes: usize,
    popularity: Zipf<f64>,
    answer: LogNormal<f64>,
    think: Option<Exp<f64>>,
    gap: Exp<f64>,
    starts: Pcg64,
    /// Engine seconds.
    clock: f64,
    next: u64,
}

impl Schedule {
    /// The schedule of `traffic` with `seed`.
    ///
    /// # Errors
    /// A value of `traffic` is out of range.
    pub fn new(traffic: &DemoTraffic, seed: u64) -> Result<Schedule, LoadError> {
        traffic.validate()?;
        let bad = |name, value: f64| LoadError::Option { name, why: format!("{value} is out of range") };
        let sigma = traffic.answer_sigma;
        // The mean of a lognormal is exp(mu + sigma²/2).
        let mu = traffic.answer_mean_tokens.ln() - sigma * sigma / 2.0;
        let rate = traffic.conversations_per_second();
        let mean = traffic.think_mean_seconds;
        let think = match mean {
            0.0 => None,
            mean => Some(Exp::new(1.0 / mean).map_err(|_| bad("think time", mean))?),
        };
        Ok(Schedule {
            seed,
            turns: traffic.turns,
            question_bytes: traffic.question_bytes,
            popularity: Zipf::new(traffic.system_prompts as f64, traffic.zipf_exponent)
                .map_err(|_| bad("zipf exponent", traffic.zipf_exponent))?,
            answer: LogNormal::new(mu, sigma).map_err(|_| bad("answer sigma", sigma))?,
            think,
            gap: Exp::new(rate).map_err(|_| bad("requests per second", traffic.requests_per_second))?,
            starts: generator(seed, Stream::Starts, 0),
            clock: 0.0,
            next: 0,
        })
    }
}

impl Iterator for Schedule {
    type Item = Conversation;

    fn next(&mut self) -> Option<Conversation> {
        let index = self.next;
        self.next += 1;
        self.clock += self.gap.sample(&mut self.starts);
        let mut rng = generator(self.seed, Stream::Conversation, index);
        let system_prompt = self.popularity.sample(&mut rng) as usize;
        let turns = (0..self.turns).map(|turn| {
            let think = match (&self.think, turn) {
                (Some(think), 1..) => think.sample(&mut rng),
                _ => 0.0,
            };
            let answer = self.answer.sample(&mut rng).round().max(1.0);
            let mut words = generator(self.seed, Stream::Question, index * self.turns as u64 + turn as u64);
            let head = format!("Question {} of conversation {index}: ", turn + 1);
            Turn {
                think: seconds(think),
                question: text(&mut words, &head, self.question_bytes),
                answer_tokens: answer as u32,
            }
        });
        Some(Conversation {
            index,
            start: seconds(self.clock),
            system_prompt: system_prompt.saturating_sub(1),
            turns: turns.collect(),
        })
    }
}

fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)
}

/// The texts of `count` system prompts of `bytes` bytes, by their number.
///
/// They differ from the first bytes on: no two share a prefix worth caching.
pub(crate) fn system_prompts(count: usize, bytes: usize, seed: u64) -> Vec<String> {
    (0..count)
        .map(|i| {
            let mut rng = generator(seed, Stream::SystemPrompt, i as u64);
            text(&mut rng, &format!("{i:02}: You are assistant {i}. "), bytes)
        })
        .collect()
}
