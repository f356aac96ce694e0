//! The prefix hit that one cache for the whole fleet would have had.

use std::collections::BTreeSet;

/// What one infinite cache, shared by all endpoints, would have held of each
/// prompt: an upper bound for any placement.
///
/// Requests count in the order in which they ended. Of each group's system
/// prompt the first request pays in full and every later one finds it, also one
/// that was sent before the first had ended. A later turn finds everything
/// before its question. The share of a prompt is measured on its text in ChatML
/// (`<|im_start|>role\n…<|im_end|>\n` around every message) and applied to the
/// prompt tokens that the answer states. A real engine holds whole blocks only,
/// so even the best placement stays a little below.
#[derive(Default)]
pub(crate) struct Ideal {
    groups: BTreeSet<usize>,
    prompt_tokens: u64,
    found_tokens: f64,
}

/// `<|im_start|>`, `\n`, `<|im_end|>` and `\n`.
const FRAME: usize = 12 + 1 + 10 + 1;
/// The opening of the answer: `<|im_start|>assistant\n`.
const OPENING: usize = 12 + 9 + 1;

fn message(role: &str, content: &str) -> usize {
    FRAME + role.len() + content.len()
}

impl Ideal {
    /// A request of `group` ended well: its questions so far, and the answers
    /// to all of them but the last.
    pub(crate) fn add(
        &mut self,
        group: usize,
        system: &str,
        questions: &[String],
        answers: &[String],
        prompt_tokens: u64,
    ) {
        let system = message("system", system);
        let asked: usize = questions.iter().map(|text| message("user", text)).sum();
        let answered: usize = answers.iter().map(|text| message("assistant", text)).sum();
        let all = system + asked + answered + OPENING;
        let news = questions.last().map_or(0, |text| message("user", text)) + OPENING;
        let known = self.groups.replace(group).is_some();
        let found = match (answers.is_empty(), known) {
            (false, _) => all - news,
            (true, true) => system,
            (true, false) => 0,
        };
        self.prompt_tokens += prompt_tokens;
        self.found_tokens += prompt_tokens as f64 * found as f64 / all as f64;
    }

    /// The share of all prompt tokens, 0 to 1; none before the first request.
    pub(crate) fn hit(&self) -> Option<f64> {
        (self.prompt_tokens > 0).then(|| self.found_tokens / self.prompt_tokens as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_group_pays_and_later_turns_find_what_came_before() {
        let mut ideal = Ideal::default();
        let check = |ideal: &Ideal, want: f64| {
            assert!((ideal.hit().unwrap() - want).abs() < 1e-12, "{:?} {want}", ideal.hit());
        };
        assert_eq!(ideal.hit(), None);
        // 30 + 970 bytes of system prompt; 28 + 50 of question and 22 of opening.
        let (system, question) = ("s".repeat(970), "q".repeat(50));
        let one = std::slice::from_ref(&question);
        ideal.add(0, &system, one, &[], 1_000);
        check(&ideal, 0.0);
        ideal.add(0, &system, one, &[], 1_000);
        check(&ideal, 1_000.0 / 1_100.0 / 2.0);
        ideal.add(1, &system, one, &[], 1_000);
        check(&ideal, 1_000.0 / 1_100.0 / 3.0);
        // The second turn: only its question is new, 33 + 67 bytes of answer are not.
        let answers = ["a".repeat(67)];
        ideal.add(1, &system, &[question.clone(), question.clone()], &answers, 10_000);
        let found = 1_000.0 * (1_000.0 / 1_100.0) + 10_000.0 * (1_178.0 / 1_278.0);
        check(&ideal, found / 13_000.0);
    }
}
