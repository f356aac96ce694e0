//! What a pool learns of its own requests: plain numbers that many workers
//! move a little each. Two at once may lose one step; they are means.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use forebay_wire::body::BLOCK_BYTES;

/// Bytes of text per token before any answer stated its tokens.
const FIRST: f32 = 4.0;
/// Shorter prompts are mostly the chat template's own tokens.
const MIN_BYTES: usize = 1024;
/// More tokens than this are in no event.
const MAX_PER_EVENT: f32 = 16.0;
/// Beginnings of prompts that are remembered: 32 KiB of memory.
const PLACES: usize = 4096;

/// How many bytes of rendered prompt make a token, by the engines' own counts.
///
/// Prose, source text and tables differ by a third, and what a prompt begins
/// with decides which it is. So beside a mean over all, single beginnings are
/// remembered, by the elements of the prefix chain that stand for them: the
/// first block, where what was held ended, and the prompt as a whole, which is
/// where the next turn of a conversation begins.
#[derive(Debug)]
pub(crate) struct BytesPerToken {
    /// Bits of an `f32`, below zero while nothing was seen.
    mean: AtomicU32,
    /// The upper half of a chain's element, and the bits of an `f32`.
    known: Box<[AtomicU64]>,
}

impl Default for BytesPerToken {
    fn default() -> BytesPerToken {
        let known = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        BytesPerToken { mean: AtomicU32::new((-FIRST).to_bits()), known }
    }
}

impl BytesPerToken {
    /// The mean so far; between 0.5 and 16.
    pub(crate) fn mean(&self) -> f32 {
        f32::from_bits(self.mean.load(Ordering::Relaxed)).abs()
    }

    /// Of the longest beginning of a text chain that is known; else the mean.
    pub(crate) fn of(&self, chain: &[u64]) -> f32 {
        chain.iter().rev().find_map(|element| self.recall(*element)).unwrap_or_else(|| self.mean())
    }

    /// An engine counted so many tokens in so many bytes of prompt, whose text
    /// chain this is; empty where it has none.
    pub(crate) fn learn(&self, bytes: usize, tokens: u64, chain: &[u64]) {
        if bytes < MIN_BYTES || tokens == 0 {
            return;
        }
        let seen = within(bytes as f32 / tokens as f32);
        let old = f32::from_bits(self.mean.load(Ordering::Relaxed));
        let new = if old < 0.0 { seen } else { old + (seen - old) / 16.0 };
        self.mean.store(new.to_bits(), Ordering::Relaxed);
        if let [first, .., last] = chain {
            self.remember(*first, self.recall(*first).map_or(seen, |old| old + (seen - old) / 4.0));
            // What answers said of the same end before is better: of a prompt with a
            // short question the last whole block is the last of what is shared.
            if self.recall(*last).is_none() {
                self.remember(*last, seen);
            }
        }
    }

    /// An engine had so many tokens of a prompt in its cache, of which it was
    /// taken to hold this text chain.
    ///
    /// Where that ends is known to half a block only; but whoever has the same
    /// beginning finds the same end again.
    pub(crate) fn found(&self, held: &[u64], cached: u64) {
        let Some(last) = held.last().filter(|_| held.len() * BLOCK_BYTES >= MIN_BYTES) else { return };
        let expected = (held.len() as f32 + 0.5) * BLOCK_BYTES as f32 / self.of(held);
        let block = expected / (held.len() as f32 + 0.5);
        // Otherwise the engine had evicted some of it, or it knew more.
        if cached > 0 && (cached as f32 - expected).abs() <= 1.5 * block {
            self.remember(*last, within((held.len() as f32 + 0.5) * BLOCK_BYTES as f32 / cached as f32));
        }
    }

    fn place(&self, element: u64) -> &AtomicU64 {
        &self.known[element as usize % PLACES]
    }

    fn remember(&self, element: u64, ratio: f32) {
        let entry = element >> 32 << 32 | u64::from(ratio.to_bits());
        self.place(element).store(entry, Ordering::Relaxed);
    }

    fn recall(&self, element: u64) -> Option<f32> {
        let entry = self.place(element).load(Ordering::Relaxed);
        (entry >> 32 == element >> 32 && entry != 0).then(|| f32::from_bits(entry as u32))
    }
}

/// Streams of fewer events say little.
const MIN_EVENTS: u64 = 8;

/// How many tokens an event of a stream carries, by the engines' own counts:
/// one as a rule, more where drafts are verified or events are held back.
#[derive(Debug)]
pub(crate) struct TokensPerEvent(AtomicU32);

impl Default for TokensPerEvent {
    fn default() -> TokensPerEvent {
        TokensPerEvent(AtomicU32::new(1.0f32.to_bits()))
    }
}

impl TokensPerEvent {
    /// So many events carried what their engine counted as so many tokens.
    pub(crate) fn learn(&self, events: u64, tokens: u64) {
        // An answer that was thought over unseen says nothing of those that are seen.
        let seen = tokens as f32 / events.max(1) as f32;
        if events >= MIN_EVENTS && (1.0..=MAX_PER_EVENT).contains(&seen) {
            let old = f32::from_bits(self.0.load(Ordering::Relaxed));
            self.0.store((old + (seen - old) / 16.0).to_bits(), Ordering::Relaxed);
        }
    }

    /// Tokens that so many events stand for where nobody states them.
    pub(crate) fn tokens(&self, events: u64) -> u64 {
        (events as f64 * f64::from(f32::from_bits(self.0.load(Ordering::Relaxed)))).round() as u64
    }
}

fn within(ratio: f32) -> f32 {
    ratio.clamp(0.5, 16.0)
}

#[cfg(test)]
mod tests {
    use forebay_prefix::chain;

    use super::*;

    #[test]
    fn it_settles_on_what_engines_count() {
        let ratio = BytesPerToken::default();
        assert_eq!(ratio.mean(), FIRST);
        ratio.learn(3000, 1000, &[]);
        assert_eq!(ratio.mean(), 3.0, "nothing true was known before");
        for _ in 0..60 {
            ratio.learn(6000, 1000, &[]);
        }
        assert!((ratio.mean() - 6.0).abs() < 0.2, "{}", ratio.mean());
        ratio.learn(100, 1, &[]);
        ratio.learn(6000, 0, &[]);
        assert!((ratio.mean() - 6.0).abs() < 0.2);
        ratio.learn(usize::MAX, 1, &[]);
        assert!(ratio.mean() <= 16.0);
    }

    #[test]
    fn beginnings_keep_their_own() {
        let ratio = BytesPerToken::default();
        let prose = chain(1, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let table = chain(1, &[11, 12, 13, 14, 15, 16, 17, 18]);
        ratio.learn(2048, 512, &prose);
        ratio.learn(2048, 1024, &table);
        // The next turn of each, and another prompt with the same first block.
        let longer = |blocks: &[u64]| chain(1, &[blocks, &[9, 10]].concat());
        assert_eq!(ratio.of(&longer(&[1, 2, 3, 4, 5, 6, 7, 8])), 4.0);
        assert_eq!(ratio.of(&longer(&[11, 12, 13, 14, 15, 16, 17, 18])), 2.0);
        assert_eq!(ratio.of(&chain(1, &[11, 20, 30])), 2.0);
        assert_eq!(ratio.of(&chain(1, &[40, 50])), ratio.mean());
        assert_eq!(ratio.of(&[]), ratio.mean());
    }

    #[test]
    fn events_stand_for_as_many_tokens_as_engines_count_in_them() {
        let per_event = TokensPerEvent::default();
        assert_eq!(per_event.tokens(40), 40);
        for _ in 0..100 {
            per_event.learn(100, 300);
        }
        assert!((118..=120).contains(&per_event.tokens(40)), "{}", per_event.tokens(40));
        // Too few, none at all, thinking that is not shown, fewer than one.
        for (events, tokens) in [(7, 7), (0, 10), (20, 4000), (100, 0), (u64::MAX, 1)] {
            per_event.learn(events, tokens);
            assert!((118..=120).contains(&per_event.tokens(40)), "{events} and {tokens}");
        }
        assert_eq!(per_event.tokens(0), 0);
    }

    #[test]
    fn where_a_match_ends_answers_tell() {
        let ratio = BytesPerToken::default();
        let prompt = chain(1, &[1, 2, 3, 4, 5, 6, 7, 8]);
        ratio.learn(2048, 512, &prompt);
        // Five and a half blocks are 352 tokens at that rate; the engine had 320.
        ratio.found(&prompt[..5], 320);
        let other = chain(1, &[1, 2, 3, 4, 5, 60, 70]);
        let tokens = 5.5 * BLOCK_BYTES as f32 / ratio.of(&other);
        assert!((tokens - 320.0).abs() < 0.5, "{tokens}");
        // Much less, nothing, and too short to say anything change nothing; nor does
        // a prompt that has no whole block after it.
        let before = ratio.of(&other);
        ratio.learn(1400, 500, &prompt[..5]);
        ratio.found(&prompt[..5], 128);
        ratio.found(&prompt[..5], 0);
        ratio.found(&prompt[..2], 120);
        ratio.found(&[], 10);
        assert_eq!(ratio.of(&other), before);
    }
}
