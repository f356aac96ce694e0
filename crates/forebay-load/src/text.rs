//! Text of an exact length that reads like prose and differs from its first
//! bytes on.

use rand::RngExt;
use rand_pcg::Pcg64;

const WORDS: &[&str] = &[
    "the", "a", "water", "level", "gate", "turbine", "flow", "answer", "always", "never", "when", "customer",
    "order", "policy", "returns", "within", "days", "please", "short", "sentence", "use", "plain", "words",
    "report", "number", "table", "first", "second", "before", "after", "check", "each", "value", "and", "or",
    "because", "river", "storage", "demand", "peak", "hour", "night", "forecast", "station", "operator",
];

/// `head` and then random words, cut to exactly `bytes` ASCII bytes.
///
/// `head` is ASCII; it is cut as well when it is longer than `bytes`.
pub(crate) fn text(rng: &mut Pcg64, head: &str, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    text.push_str(head);
    let mut words = 0;
    while text.len() < bytes {
        text.push_str(WORDS[rng.random_range(0..WORDS.len())]);
        words += 1;
        text.push_str(if words % 14 == 0 { ".\n" } else { " " });
    }
    text.truncate(bytes);
    text
}
