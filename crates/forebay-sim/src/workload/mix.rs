//! Several workloads at once.

use forebay_core::Time;

use super::{SimRequest, Workload};

/// Workloads that come to the same gateways, in order of arrival.
pub struct Mix {
    parts: Vec<(Box<dyn Workload>, Option<SimRequest>)>,
    block_tokens: u32,
    begun: bool,
}

/// Bits that name the part a session is of.
const PART_BITS: u32 = 8;

impl Mix {
    /// At most 256 workloads with blocks of one size.
    ///
    /// # Errors
    /// Gives the sizes of the first two that differ, or 0 and the number of
    /// workloads when there are none or too many.
    pub fn new(parts: Vec<Box<dyn Workload>>) -> Result<Mix, (u32, u32)> {
        let Some(block_tokens) = parts.first().map(|part| part.block_tokens()) else { return Err((0, 0)) };
        if parts.len() > 1 << PART_BITS {
            return Err((0, parts.len() as u32));
        }
        if let Some(other) = parts.iter().find(|part| part.block_tokens() != block_tokens) {
            return Err((block_tokens, other.block_tokens()));
        }
        Ok(Mix { parts: parts.into_iter().map(|part| (part, None)).collect(), block_tokens, begun: false })
    }

    /// Of a few workloads that the caller made with blocks of one size.
    pub(super) fn of_alike(parts: Vec<Box<dyn Workload>>) -> Mix {
        let block_tokens = parts.first().map_or(1, |part| part.block_tokens());
        debug_assert!(parts.iter().all(|part| part.block_tokens() == block_tokens));
        Mix { parts: parts.into_iter().map(|part| (part, None)).collect(), block_tokens, begun: false }
    }
}

fn named(part: usize, request: Option<SimRequest>) -> Option<SimRequest> {
    request.map(|mut request| {
        request.session = request.session.map(|session| session << PART_BITS | part as u64);
        request
    })
}

impl Workload for Mix {
    fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        if !std::mem::replace(&mut self.begun, true) {
            for (number, (part, next)) in self.parts.iter_mut().enumerate() {
                *next = named(number, part.next_request());
            }
        }
        let arrival = |next: &Option<SimRequest>| next.as_ref().map_or(Time::MAX, |request| request.arrival);
        let (number, (part, next)) =
            self.parts.iter_mut().enumerate().min_by_key(|(_, (_, next))| arrival(next))?;
        let request = next.take();
        *next = named(number, part.next_request());
        request
    }

    fn follow(&mut self, session: u64, at: Time, served: bool) -> Option<SimRequest> {
        let number = (session & ((1 << PART_BITS) - 1)) as usize;
        let (part, _) = self.parts.get_mut(number)?;
        named(number, part.follow(session >> PART_BITS, at, served))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Conversations, ConversationsSpec, Tenants, TenantsSpec};

    #[test]
    fn parts_come_in_order_and_keep_their_sessions() {
        let chat = Conversations::new(ConversationsSpec::chat(2.0, 50), 1);
        let saas = Tenants::new(TenantsSpec::saas(3.0, 80), 1);
        let agents = Conversations::new(ConversationsSpec::agents(1.0, 20), 1);
        let mut mix = Mix::new(vec![Box::new(chat), Box::new(saas), Box::new(agents)]).unwrap();
        let all: Vec<_> = std::iter::from_fn(|| mix.next_request()).collect();
        assert_eq!(all.len(), 150);
        assert!(all.windows(2).all(|pair| pair[0].arrival <= pair[1].arrival));
        let longest = all.iter().max_by_key(|r| r.prompt_tokens).unwrap();
        let next = mix.follow(longest.session.unwrap(), longest.arrival, true);
        if let Some(next) = next {
            assert_eq!(next.session, longest.session);
            assert!(next.chain.starts_with(&longest.chain));
        }
        let odd = Tenants::new(TenantsSpec { block_tokens: 16, ..TenantsSpec::saas(3.0, 80) }, 1);
        let chat = Conversations::new(ConversationsSpec::chat(2.0, 50), 1);
        assert_eq!(Mix::new(vec![Box::new(chat), Box::new(odd)]).err(), Some((64, 16)));
    }
}
