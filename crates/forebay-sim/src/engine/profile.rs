//! Hardware profiles: how long a step takes and how much KV memory there is.

use std::time::Duration;

/// One engine's speed and limits.
///
/// The time of one step, in milliseconds, is
///
/// `a + b·n_new + c·Σ chunk·(ctx + chunk/2) + d·Σ ctx_decode + e·B`
///
/// where `n_new` counts every token computed in the step (prefill chunks and
/// one per decoding sequence), the first sum runs over the prefill chunks
/// (`ctx`: tokens already computed for that sequence), the second over the
/// decoding sequences (`ctx_decode`: tokens they attend to), and `B` is the
/// number of decoding sequences. The linear part is fitted to Vidur's
/// profiles of the MLP and all-reduce operators (MLSys'24); the attention
/// terms follow from the memory bandwidth and peak compute of the hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The name a user picks it by.
    pub name: &'static str,
    /// Milliseconds that every step costs.
    pub a: f64,
    /// Milliseconds for each token computed.
    pub b: f64,
    /// Milliseconds for each pair of prefill token and token it attends to.
    pub c: f64,
    /// Milliseconds for each token of context of a decoding sequence.
    pub d: f64,
    /// Milliseconds for each decoding sequence.
    pub e: f64,
    /// KV cache capacity in tokens; the part that does not fill a block is lost.
    pub kv_tokens: u32,
    /// Most sequences in one step.
    pub max_num_seqs: u32,
    /// Most tokens computed in one step.
    pub max_batched_tokens: u32,
    /// Tokens in one KV block.
    pub block_size: u32,
}

/// Limits shared by all profiles: 2,048 tokens a step and 256 sequences, as in
/// the published evaluations of chunked prefill, and vLLM's block of 16.
const BASE: Profile = Profile {
    name: "",
    a: 0.0,
    b: 0.0,
    c: 0.0,
    d: 0.0,
    e: 0.02,
    kv_tokens: 0,
    max_num_seqs: 256,
    max_batched_tokens: 2048,
    block_size: 16,
};

impl Profile {
    /// Every profile there is.
    pub const ALL: &'static [Profile] = &[
        Profile { name: "h100-8b", a: 8.0, b: 0.0235, c: 0.87e-6, d: 0.049e-3, kv_tokens: 427_000, ..BASE },
        Profile { name: "a100-8b", a: 11.5, b: 0.0672, c: 2.2e-6, d: 0.082e-3, kv_tokens: 427_000, ..BASE },
        Profile {
            name: "h100-70b-tp4",
            a: 22.5,
            b: 0.0626,
            c: 1.09e-6,
            d: 0.030e-3,
            kv_tokens: 475_000,
            ..BASE
        },
        Profile {
            name: "h100-32b-tp2",
            a: 18.0,
            b: 0.0556,
            c: 1.1e-6,
            d: 0.048e-3,
            kv_tokens: 300_000,
            ..BASE
        },
    ];

    /// The profile of that name.
    pub fn by_name(name: &str) -> Option<&'static Profile> {
        Self::ALL.iter().find(|p| p.name == name)
    }

    /// Whole KV blocks that fit.
    pub fn blocks(&self) -> u32 {
        self.kv_tokens / self.block_size.max(1)
    }

    /// How long a step of this work takes.
    pub fn step_time(&self, work: &StepWork) -> Duration {
        let ms = self.a
            + self.b * work.new_tokens as f64
            + self.c * work.prefill_pairs
            + self.d * work.decode_context as f64
            + self.e * f64::from(work.decodes);
        // A profile made by hand could be negative or NaN; a cast maps both to zero.
        Duration::from_nanos((ms * 1e6).round() as u64)
    }
}

/// What one step computes, in the terms of the step-time formula.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepWork {
    /// Tokens computed, prefill and decode.
    pub new_tokens: u64,
    /// Σ chunk·(ctx + chunk/2) over the prefill chunks.
    pub prefill_pairs: f64,
    /// Σ context over the decoding sequences.
    pub decode_context: u64,
    /// Decoding sequences.
    pub decodes: u32,
}

impl StepWork {
    /// Adds a prefill chunk of `chunk` tokens after `ctx` computed ones.
    pub(super) fn prefill(&mut self, chunk: u32, ctx: u32) {
        let chunk_f = f64::from(chunk);
        self.new_tokens += u64::from(chunk);
        self.prefill_pairs += chunk_f * (f64::from(ctx) + chunk_f / 2.0);
    }

    /// Adds one decoding sequence with `ctx` tokens of context.
    pub(super) fn decode(&mut self, ctx: u32) {
        self.new_tokens += 1;
        self.decode_context += u64::from(ctx);
        self.decodes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(d: Duration) -> f64 {
        d.as_nanos() as f64 / 1e6
    }

    #[test]
    fn step_times_match_hand_computed_values() {
        let h100 = Profile::by_name("h100-8b").unwrap();
        // One chunk of 2,048 tokens from an empty cache:
        // 8 + .0235·2048 + .87e-6·2048·1024 = 8 + 48.128 + 1.824522
        let mut work = StepWork::default();
        work.prefill(2048, 0);
        assert!((ms(h100.step_time(&work)) - 57.952_522).abs() < 1e-3);
        // Ten decodes of 1,000 tokens: 8 + .0235·10 + .049e-3·10000 + .02·10 = 8.925
        let mut work = StepWork::default();
        for _ in 0..10 {
            work.decode(1000);
        }
        assert!((ms(h100.step_time(&work)) - 8.925).abs() < 1e-6);
        // Both together with a chunk that starts at 512:
        // a100: 11.5 + .0672·(256+1) + 2.2e-6·256·640 + .082e-3·300 + .02
        let a100 = Profile::by_name("a100-8b").unwrap();
        let mut work = StepWork::default();
        work.prefill(256, 512);
        work.decode(300);
        assert!((ms(a100.step_time(&work)) - (11.5 + 17.2704 + 0.360448 + 0.0246 + 0.02)).abs() < 1e-5);
    }

    #[test]
    fn names_are_unique_and_found() {
        for profile in Profile::ALL {
            assert_eq!(Profile::by_name(profile.name), Some(profile));
        }
        assert_eq!(Profile::by_name("h200"), None);
        assert_eq!(Profile::by_name("h100-8b").unwrap().blocks(), 26_687);
    }
}
