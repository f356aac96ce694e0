//! The answers: how long, and which words. Both follow from the prompt and the
//! seed alone.

use crate::tokens::token_id;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FinishReason {
    /// It was complete.
    Stop,
    /// The limit was reached.
    Length,
    /// The engine gave it up.
    Abort,
}

impl FinishReason {
    /// The word in `finish_reason`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Abort => "abort",
        }
    }
}

/// What the request says about the length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LengthLimits {
    /// The limit of the request or the model, at least 1.
    pub(crate) max_tokens: u32,
    /// Not shorter than this.
    pub(crate) min_tokens: u32,
    /// Go on to the limit.
    pub(crate) ignore_eos: bool,
}

/// One answer, known before its first token is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    seed: u64,
    /// Tokens in all.
    pub(crate) len: u32,
    /// How it ends when nothing goes wrong.
    pub(crate) finish: FinishReason,
}

/// ln(180) − σ²/2: a lognormal of mean 180 tokens.
const MU: f64 = 5.192_956_850_889_02 - SIGMA * SIGMA / 2.0;
const SIGMA: f64 = 0.8;

impl Answer {
    /// The answer to the prompt whose hash, mixed with every seed, is `seed`.
    pub(crate) fn new(seed: u64, limits: LengthLimits) -> Answer {
        let natural = (MU + SIGMA * normal(seed)).exp().round().max(1.0) as u32;
        let natural = natural.max(limits.min_tokens);
        let (len, finish) = if limits.ignore_eos || natural >= limits.max_tokens {
            (limits.max_tokens, FinishReason::Length)
        } else {
            (natural, FinishReason::Stop)
        };
        Answer { seed, len, finish }
    }

    /// No text: a request that only computes its prompt.
    pub(crate) fn none() -> Answer {
        Answer { seed: 0, len: 0, finish: FinishReason::Stop }
    }

    /// The text of token `index`: three letters and a space.
    pub(crate) fn word(&self, index: u32) -> [u8; 4] {
        const OUTER: &[u8; 16] = b"bdfghklmnprstvwz";
        const INNER: &[u8; 8] = b"aeiouaei";
        let bits = mix(self.seed.wrapping_add(u64::from(index).wrapping_mul(GOLDEN)));
        let outer = |shift: u32| OUTER[(bits >> shift) as usize % 16];
        [outer(0), INNER[(bits >> 8) as usize % 8], outer(16), b' ']
    }

    /// Its token ids.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len).map(|i| token_id(&self.word(i)))
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of SplitMix64: every bit depends on every bit.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A standard normal value from a seed (Box–Muller).
fn normal(seed: u64) -> f64 {
    let unit = |z: u64| (mix(z) >> 11) as f64 / (1u64 << 53) as f64;
    let (u, v) = (unit(seed.wrapping_add(GOLDEN)), unit(seed.wrapping_add(GOLDEN.wrapping_mul(2))));
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: LengthLimits = LengthLimits { max_tokens: 100_000, min_tokens: 0, ignore_eos: false };

    #[test]
    fn lengths_are_lognormal_with_mean_180() {
        let n = 20_000;
        let lens: Vec<f64> = (0..n).map(|s| f64::from(Answer::new(mix(s), FREE).len)).collect();
        let mean = lens.iter().sum::<f64>() / n as f64;
        assert!((mean - 180.0).abs() < 6.0, "{mean}");
        let logs: Vec<f64> = lens.iter().map(|l| l.ln()).collect();
        let m = logs.iter().sum::<f64>() / n as f64;
        let sd = (logs.iter().map(|l| (l - m).powi(2)).sum::<f64>() / n as f64).sqrt();
        assert!((sd - SIGMA).abs() < 0.03, "{sd}");
    }

    #[test]
    fn limits_decide_length_and_reason() {
        let natural = Answer::new(7, FREE);
        assert_eq!(natural.finish, FinishReason::Stop);
        let limits = |max_tokens, min_tokens, ignore_eos| LengthLimits { max_tokens, min_tokens, ignore_eos };
        let check = |limits, len, finish| {
            let answer = Answer::new(7, limits);
            assert_eq!((answer.len, answer.finish), (len, finish));
        };
        check(limits(natural.len, 0, false), natural.len, FinishReason::Length);
        check(limits(natural.len + 1, 0, false), natural.len, FinishReason::Stop);
        check(limits(3, 0, false), 3, FinishReason::Length);
        check(limits(5000, 0, true), 5000, FinishReason::Length);
        check(limits(5000, 5000, false), 5000, FinishReason::Length);
        check(limits(5000, 4000, false), 4000, FinishReason::Stop);
    }

    #[test]
    fn words_are_four_plain_bytes_and_repeat_with_the_seed() {
        let (a, b) = (Answer::new(1, FREE), Answer::new(2, FREE));
        let text = |a: &Answer| (0..20).flat_map(|i| a.word(i)).collect::<Vec<u8>>();
        assert_eq!(text(&a), text(&Answer::new(1, FREE)));
        assert_ne!(text(&a), text(&b));
        assert!(text(&a).iter().all(|c| c.is_ascii_lowercase() || *c == b' '));
    }
}
