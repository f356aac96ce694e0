//! What a route learns of its own requests: plain numbers that many workers
//! move a little each. Two at once may lose one step; they are means.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of text per token before any answer stated its tokens.
const FIRST: f32 = 4.0;
/// Shorter prompts are mostly the chat template's own tokens.
const MIN_BYTES: usize = 1024;

/// How many bytes of rendered prompt make a token, by the engines' own counts.
#[derive(Debug)]
pub(crate) struct BytesPerToken(AtomicU32);

impl Default for BytesPerToken {
    fn default() -> BytesPerToken {
        BytesPerToken(AtomicU32::new(FIRST.to_bits()))
    }
}

impl BytesPerToken {
    /// The mean so far; between 0.5 and 16.
    pub(crate) fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// An engine counted so many tokens in so many bytes of prompt.
    pub(crate) fn learn(&self, bytes: usize, tokens: u64) {
        if bytes < MIN_BYTES || tokens == 0 {
            return;
        }
        let seen = (bytes as f32 / tokens as f32).clamp(0.5, 16.0);
        let old = self.get();
        // A long way off means that nothing true was known yet.
        let step = if (seen / old - 1.0).abs() > 0.25 { 0.5 } else { 1.0 / 16.0 };
        self.0.store((old + (seen - old) * step).to_bits(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_settles_on_what_engines_count() {
        let ratio = BytesPerToken::default();
        for _ in 0..40 {
            ratio.learn(6000, 1000);
        }
        assert!((ratio.get() - 6.0).abs() < 0.2, "{}", ratio.get());
        ratio.learn(100, 1);
        ratio.learn(6000, 0);
        assert!((ratio.get() - 6.0).abs() < 0.2);
        ratio.learn(usize::MAX, 1);
        assert!(ratio.get() <= 16.0);
    }
}
