//! Conversations in groups that share a system prompt, a fixed number at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::Time;
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{SimRequest, Workload, extend, link, zipf};

/// What shows whether a policy places shared prefixes well: many groups are
/// cold, and all system prompts together are more than one engine holds.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupsSpec {
    /// Different system prompts, at least 1.
    pub groups: usize,
    /// Tokens of each.
    pub system_tokens: u32,
    /// Exponent of the Zipf law of the groups' popularity; 0 makes all equal.
    pub zipf: f64,
    /// Conversations in all.
    pub conversations: u64,
    /// Questions in a conversation, at least 1.
    pub turns: u32,
    /// Conversations at a time, at least 1.
    pub concurrency: usize,
    /// Tokens of each question.
    pub question_tokens: u32,
    /// Tokens of each answer.
    pub answer_tokens: u32,
    /// Tokens in one block.
    pub block_tokens: u32,
}

impl Default for GroupsSpec {
    /// 64 system prompts of 16 KB, Zipf 0.8, 640 conversations of two turns, 32
    /// at a time.
    fn default() -> GroupsSpec {
        GroupsSpec {
            groups: 64,
            system_tokens: 4_096,
            zipf: 0.8,
            conversations: 640,
            turns: 2,
            concurrency: 32,
            question_tokens: 75,
            answer_tokens: 64,
            block_tokens: 64,
        }
    }
}

#[derive(Clone, Debug)]
struct Conversation {
    group: u64,
    turn: u32,
    /// Questions and answers so far, in tokens.
    said: u32,
}

/// A closed loop: when a conversation ends the next begins.
#[derive(Clone, Debug)]
pub struct Groups {
    spec: GroupsSpec,
    seed: u64,
    rng: Pcg64Mcg,
    /// Cumulated popularity.
    cumulated: Vec<f64>,
    begun: u64,
    running: BTreeMap<u64, Conversation>,
}

impl Groups {
    /// The workload with this seed.
    pub fn new(spec: GroupsSpec, seed: u64) -> Groups {
        let cumulated = zipf(spec.groups, spec.zipf);
        Groups {
            spec,
            seed,
            rng: Pcg64Mcg::seed_from_u64(seed ^ 0x6772_6f75),
            cumulated,
            begun: 0,
            running: BTreeMap::new(),
        }
    }

    fn begin(&mut self, at: Time) -> Option<SimRequest> {
        if self.begun >= self.spec.conversations {
            return None;
        }
        let session = self.begun;
        self.begun += 1;
        let total = self.cumulated.last().copied().unwrap_or(1.0);
        let x = self.rng.random::<f64>() * total;
        let group = self.cumulated.partition_point(|sum| *sum <= x) as u64;
        self.running.insert(session, Conversation { group, turn: 0, said: 0 });
        self.ask(session, at)
    }

    /// The next question of a conversation.
    fn ask(&mut self, session: u64, at: Time) -> Option<SimRequest> {
        let spec = &self.spec;
        let conversation = self.running.get_mut(&session)?;
        conversation.turn += 1;
        let prompt = spec.system_tokens + conversation.said + spec.question_tokens;
        conversation.said += spec.question_tokens + spec.answer_tokens;
        let block = spec.block_tokens.max(1);
        let mut chain = Vec::new();
        extend(&mut chain, link(self.seed, conversation.group), spec.system_tokens / block);
        let own = link(self.seed ^ 0xc0, session);
        let all = (spec.system_tokens + conversation.said) / block - spec.system_tokens / block;
        extend(&mut chain, own, all);
        let answer = chain.split_off((prompt / block) as usize);
        let mut request = SimRequest::new(at, Arc::from(chain), prompt, spec.answer_tokens);
        request.answer = Arc::from(answer);
        request.session = Some(session);
        request.affinity = link(self.seed, conversation.group);
        request.max_output_tokens = Some(spec.answer_tokens);
        Some(request)
    }
}

impl Workload for Groups {
    fn block_tokens(&self) -> u32 {
        self.spec.block_tokens.max(1)
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        if self.begun >= self.spec.concurrency.max(1) as u64 { None } else { self.begin(Time::ZERO) }
    }

    fn follow(&mut self, session: u64, at: Time, served: bool) -> Option<SimRequest> {
        let turn = self.running.get(&session)?.turn;
        if served && turn < self.spec.turns {
            return self.ask(session, at);
        }
        self.running.remove(&session);
        self.begin(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_extend_their_conversation_and_groups_share_their_system_prompt() {
        let spec = GroupsSpec { groups: 2, concurrency: 8, conversations: 20, ..GroupsSpec::default() };
        let mut groups = Groups::new(spec, 7);
        let first: Vec<_> = std::iter::from_fn(|| groups.next_request()).collect();
        assert_eq!(first.len(), 8);
        let heads: std::collections::BTreeSet<_> = first.iter().map(|r| r.chain[63]).collect();
        assert_eq!(heads.len(), 2);
        let one = &first[0];
        let two = groups.follow(one.session.unwrap(), Time::from_nanos(9), true).unwrap();
        assert_eq!(two.arrival, Time::from_nanos(9));
        // 4096 + 75 → 65 full blocks; with the answer 4235 → 66.
        assert_eq!((one.chain.len(), one.answer.len(), two.chain.len()), (65, 1, 67));
        assert_eq!(two.chain[..65], one.chain[..]);
        assert_eq!(two.chain[65], one.answer[0]);
        let three = groups.follow(one.session.unwrap(), Time::ZERO, true).unwrap();
        assert_ne!(three.session, one.session);
    }
}
