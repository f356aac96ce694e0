//! Conversations that begin by themselves and go on in a closed loop: people
//! who read and think, agents that call tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Time;
use rand::RngExt;
use rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use super::arrivals::Arrivals;
use super::{ArrivalSpec, Class, Length, SimRequest, Workload, WorkloadError, extend, link, zipf};

/// Conversations of many turns; each turn's prompt is all that was said.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationsSpec {
    /// Different system prompts, at least 1.
    pub systems: usize,
    /// Exponent of the Zipf law of their popularity; 0 makes all equal.
    pub zipf: f64,
    /// Tokens of each system prompt.
    pub system: Length,
    /// Tokens of the first question.
    pub first: Length,
    /// Tokens that each later turn adds: a question, or what a tool said.
    pub next: Length,
    /// Tokens of each answer.
    pub answer: Length,
    /// Turns, at least 1.
    pub turns: Length,
    /// Mean of the time between an answer and the next turn; exponential.
    pub think: Duration,
    /// The longest that it is.
    pub think_most: Duration,
    /// When conversations begin.
    pub arrivals: ArrivalSpec,
    /// Conversations in all.
    pub conversations: u64,
    /// A conversation ends before its prompt and answer exceed so many tokens.
    pub context: u32,
    /// Tokens in one block.
    pub block_tokens: u32,
    /// What all requests are.
    pub class: Class,
}

impl ConversationsSpec {
    /// People who chat: a short system prompt, about six turns, half a minute between them.
    pub fn chat(rate: f64, conversations: u64) -> ConversationsSpec {
        let log_normal = |mean, sigma, most| Length::LogNormal { mean, sigma, most };
        ConversationsSpec {
            systems: 4,
            zipf: 1.0,
            system: Length::Fixed(800),
            first: log_normal(300.0, 1.0, 8_000),
            next: log_normal(120.0, 1.0, 4_000),
            answer: log_normal(280.0, 0.8, 2_000),
            turns: log_normal(6.0, 0.8, 30),
            think: Duration::from_secs(30),
            think_most: Duration::from_secs(300),
            arrivals: ArrivalSpec::poisson(rate),
            conversations,
            context: 120_000,
            block_tokens: 64,
            class: Class::default(),
        }
    }

    /// Agents: a long shared prompt of instructions and tools, many short steps.
    pub fn agents(rate: f64, conversations: u64) -> ConversationsSpec {
        let log_normal = |mean, sigma, most| Length::LogNormal { mean, sigma, most };
        ConversationsSpec {
            systems: 6,
            zipf: 0.5,
            system: Length::Uniform(9_000, 20_000),
            first: log_normal(800.0, 1.0, 16_000),
            next: log_normal(1_100.0, 1.2, 30_000),
            answer: log_normal(400.0, 0.9, 4_000),
            turns: log_normal(18.0, 0.7, 60),
            think: Duration::from_secs(6),
            think_most: Duration::from_secs(120),
            ..ConversationsSpec::chat(rate, conversations)
        }
    }

    /// Refuses what cannot be played.
    ///
    /// # Errors
    /// Names the first such value.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        super::positive("systems", self.systems as f64)?;
        super::at_most("systems", self.systems as f64, 1e7)?;
        super::at_most("zipf", self.zipf, 10.0)?;
        let lengths = [
            ("system", self.system),
            ("first", self.first),
            ("next", self.next),
            ("answer", self.answer),
            ("turns", self.turns),
        ];
        for (field, length) in lengths {
            length.validate(field)?;
        }
        super::positive("context", f64::from(self.context))?;
        super::positive("block_tokens", f64::from(self.block_tokens))?;
        self.arrivals.validate()
    }
}

#[derive(Clone, Debug)]
struct Conversation {
    system: usize,
    turns_left: u32,
    /// Tokens said after the system prompt.
    said: u32,
}

/// The requests of a [`ConversationsSpec`].
#[derive(Clone, Debug)]
pub struct Conversations {
    spec: ConversationsSpec,
    seed: u64,
    rng: Pcg64Mcg,
    arrivals: Arrivals,
    cumulated: Vec<f64>,
    systems: Vec<u32>,
    begun: u64,
    running: BTreeMap<u64, Conversation>,
}

impl Conversations {
    /// The workload with this seed.
    pub fn new(spec: ConversationsSpec, seed: u64) -> Conversations {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x636f_6e76);
        let systems = (0..spec.systems.max(1)).map(|_| spec.system.draw(&mut rng)).collect();
        Conversations {
            arrivals: Arrivals::new(&spec.arrivals, seed),
            cumulated: zipf(spec.systems, spec.zipf),
            systems,
            spec,
            seed,
            rng,
            begun: 0,
            running: BTreeMap::new(),
        }
    }

    /// The next turn of a conversation; none when it would get too long.
    fn ask(&mut self, session: u64, at: Time, adds: u32) -> Option<SimRequest> {
        let output = self.spec.answer.draw(&mut self.rng);
        let conversation = self.running.get_mut(&session)?;
        let system = self.systems[conversation.system];
        let prompt = (system + conversation.said + adds).max(1);
        if prompt.saturating_add(output) > self.spec.context || conversation.turns_left == 0 {
            self.running.remove(&session);
            return None;
        }
        conversation.turns_left -= 1;
        conversation.said += adds + output;
        let block = self.spec.block_tokens.max(1);
        let all = (system + conversation.said) / block;
        let mut chain = Vec::with_capacity(all as usize);
        let shared = link(self.seed, conversation.system as u64);
        extend(&mut chain, shared, system / block);
        extend(&mut chain, link(self.seed ^ 0x73, session), all - system / block);
        let answer = chain.split_off((prompt / block) as usize);
        let mut request = SimRequest::new(at, Arc::from(chain), prompt, output);
        request.answer = Arc::from(answer);
        request.session = Some(session);
        request.affinity = link(self.seed ^ 0x73, session);
        self.spec.class.put_on(&mut request);
        Some(request)
    }
}

impl Workload for Conversations {
    fn block_tokens(&self) -> u32 {
        self.spec.block_tokens.max(1)
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        while self.begun < self.spec.conversations {
            let at = self.arrivals.next_time()?;
            let session = self.begun;
            self.begun += 1;
            let x = self.rng.random::<f64>() * self.cumulated.last().copied().unwrap_or(1.0);
            let system = self.cumulated.partition_point(|sum| *sum <= x).min(self.systems.len() - 1);
            let turns_left = self.spec.turns.draw(&mut self.rng).max(1);
            self.running.insert(session, Conversation { system, turns_left, said: 0 });
            let adds = self.spec.first.draw(&mut self.rng);
            // One that is too long from the start is left out.
            if let Some(request) = self.ask(session, at, adds) {
                return Some(request);
            }
        }
        None
    }

    fn follow(&mut self, session: u64, at: Time, served: bool) -> Option<SimRequest> {
        if !served {
            self.running.remove(&session);
            return None;
        }
        let pause: f64 = Exp1.sample(&mut self.rng);
        let think = self.spec.think.as_secs_f64() * pause;
        let think = think.min(self.spec.think_most.as_secs_f64()).max(0.0);
        let adds = self.spec.next.draw(&mut self.rng);
        self.ask(session, at + Duration::from_secs_f64(think), adds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_with_all_that_was_said() {
        let spec = ConversationsSpec { turns: Length::Fixed(4), ..ConversationsSpec::agents(1.0, 30) };
        spec.validate().unwrap();
        let mut agents = Conversations::new(spec, 2);
        let mut turns = Vec::new();
        let mut next = agents.next_request();
        while let Some(request) = next {
            next = agents.follow(0, request.arrival + Duration::from_secs(3), true);
            turns.push(request);
        }
        assert_eq!(turns.len(), 4);
        for pair in turns.windows(2) {
            let before: Vec<u64> = pair[0].chain.iter().chain(pair[0].answer.iter()).copied().collect();
            assert!(pair[1].chain.starts_with(&before));
            assert!(pair[1].prompt_tokens > pair[0].prompt_tokens + pair[0].output_tokens);
            assert!(pair[1].arrival > pair[0].arrival);
        }
        assert!(agents.running.is_empty());
    }

    #[test]
    fn what_fails_or_gets_too_long_ends() {
        let spec = ConversationsSpec {
            context: 3_000,
            turns: Length::Fixed(1_000),
            ..ConversationsSpec::chat(1.0, 10)
        };
        let mut chat = Conversations::new(spec, 2);
        while let Some(request) = chat.next_request() {
            let session = request.session.unwrap();
            let mut count = 0;
            while chat.follow(session, request.arrival, count < 20).is_some() {
                count += 1;
            }
            assert!(count <= 20);
        }
        assert!(chat.running.is_empty());
    }
}
