//! A tree of seeded generators: every stream of random numbers has its own
//! seed, so that drawing more from one never shifts another.

use rand::SeedableRng;
use rand_pcg::Pcg64;

/// What a stream is for; part of its seed.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    /// When conversations start.
    Starts = 1,
    /// Everything drawn for one conversation.
    Conversation = 2,
    /// The text of one system prompt.
    SystemPrompt = 3,
    /// The text of one question.
    Question = 4,
    /// One block of a prompt that others share.
    Block = 5,
    /// A prompt that nobody shares.
    Prompt = 6,
}

/// The generator number `index` of a stream.
pub(crate) fn generator(seed: u64, stream: Stream, index: u64) -> Pcg64 {
    Pcg64::seed_from_u64(mix(mix(mix(seed) ^ stream as u64) ^ index))
}

/// The finaliser of SplitMix64: neighbouring inputs give unrelated outputs.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
