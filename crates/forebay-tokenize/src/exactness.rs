//! Whether what is rendered here is what the engine renders.

/// How many answers are looked back on.
const WINDOW: u32 = 20;

/// So many of them with another count of tokens are too many.
const MAX_DIFFERENT: u32 = 3;

/// Why token prefixes of a model are not used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// How many of the last answers differed.
    pub different: u32,
    /// How many answers that was out of.
    pub of: u32,
    /// The last difference: what was predicted.
    pub predicted: u32,
    /// What the engine counted.
    pub counted: u32,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { different, of, predicted, counted } = self;
        write!(
            f,
            "the engine counted other prompt tokens than predicted in {different} of the last {of} answers, last \
             {counted} instead of {predicted}: template or tokenizer are not the engine's"
        )
    }
}

/// Compares predicted prompt tokens with those that the engine counts, answer
/// by answer. Once 3 of the last 20 differ, it is off, and stays so: only new
/// files of the model can help, and with them comes a new one of these.
#[derive(Clone, Debug, Default)]
pub struct Exactness {
    /// One bit for each of the last answers, the newest lowest.
    history: u32,
    seen: u64,
    different: u64,
    off: Option<Mismatch>,
}

impl Exactness {
    /// One that has seen nothing and is on.
    pub fn new() -> Exactness {
        Exactness::default()
    }

    /// Takes one answer's count. The mismatch, when this one turned it off.
    pub fn observe(&mut self, predicted: u32, counted: u32) -> Option<Mismatch> {
        let differs = predicted != counted;
        self.seen += 1;
        self.different += u64::from(differs);
        self.history = (self.history << 1 | u32::from(differs)) & ((1 << WINDOW) - 1);
        if self.off.is_some() || !differs {
            return None;
        }
        let different = self.history.count_ones();
        if different < MAX_DIFFERENT {
            return None;
        }
        let of = u32::try_from(self.seen).unwrap_or(u32::MAX).min(WINDOW);
        self.off = Some(Mismatch { different, of, predicted, counted });
        self.off
    }

    /// Why it is off; `None` while it is on.
    pub fn off(&self) -> Option<Mismatch> {
        self.off
    }

    /// Answers compared so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Answers so far whose count differed.
    pub fn different(&self) -> u64 {
        self.different
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_differences_are_borne_and_forgotten() {
        let mut exactness = Exactness::new();
        for round in 0..50 {
            // Two of every twenty.
            for at in 0..20 {
                assert_eq!(exactness.observe(10, if at < 2 { 11 } else { 10 }), None, "round {round}");
            }
        }
        assert_eq!((exactness.seen(), exactness.different(), exactness.off()), (1_000, 100, None));
    }

    #[test]
    fn the_third_of_twenty_turns_it_off_for_good() {
        let mut exactness = Exactness::new();
        assert_eq!(exactness.observe(10, 12), None);
        (0..17).for_each(|_| assert_eq!(exactness.observe(7, 7), None));
        assert_eq!(exactness.observe(10, 12), None);
        let mismatch = exactness.observe(20, 24).unwrap();
        assert_eq!(mismatch, Mismatch { different: 3, of: 20, predicted: 20, counted: 24 });
        assert!(mismatch.to_string().contains("3 of the last 20 answers, last 24 instead of 20"));
        (0..100).for_each(|_| assert_eq!(exactness.observe(7, 7), None));
        (0..9).for_each(|_| assert_eq!(exactness.observe(7, 8), None, "said once"));
        assert_eq!(exactness.off(), Some(mismatch));
    }

    #[test]
    fn a_wrong_template_is_noticed_at_once() {
        let mut exactness = Exactness::new();
        assert_eq!(exactness.observe(1, 2), None);
        assert_eq!(exactness.observe(1, 2), None);
        assert_eq!(exactness.observe(1, 2), Some(Mismatch { different: 3, of: 3, predicted: 1, counted: 2 }));
    }
}
