//! What the policies of affinity share: the bound on load and where to go
//! when affinity says nothing.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{Pick, View, total_work};

/// Keeps every endpoint below a multiple of its fair share of the requests in
/// flight, this gateway's and others', by weight (Mirrokni, Thorup and
/// Zadimoghaddam 2016).
pub(super) struct Bound {
    /// Requests per weight that an endpoint may have.
    per_weight: f64,
}

impl Bound {
    /// O(candidates).
    pub(super) fn new(view: &View<'_>) -> Bound {
        let (mut weights, mut in_flight) = (0.0, 1.0);
        for &slot in view.candidates {
            weights += view.weight(slot);
            in_flight += view.requests(slot);
        }
        let factor = view.config.hash_balance_factor;
        let factor = if factor.is_finite() { factor.max(1.0) } else { 1.25 };
        Bound { per_weight: factor * in_flight / weights }
    }

    /// Whether one more request stays within the bound. Rounding up leaves
    /// room at some candidate, as the bounds add up to at least the requests.
    pub(super) fn has_room(&self, view: &View<'_>, slot: u32) -> bool {
        let bound = (self.per_weight * view.weight(slot)).ceil();
        // Others' requests are an estimate: part of one is none.
        view.requests(slot).floor() + 1.0 <= bound
    }
}

/// Of the slots that `may` serve it, the one with the least outstanding work
/// per weight once this request is there, without what it holds of the prompt
/// and with what others have there.
///
/// Ties are common while the fleet is idle. They go to the one that was sent
/// the least prefill of late, so that one request after another goes round,
/// and then at random.
pub(super) fn least_work(
    view: &View<'_>,
    rng: &mut Pcg64Mcg,
    mut may: impl FnMut(u32) -> bool,
) -> Option<Pick> {
    let own = total_work(view.facts);
    let mut best: Option<(Pick, f64)> = None;
    let mut ties = 1u32;
    for &slot in view.candidates.iter().filter(|&&slot| may(slot)) {
        let left = own.saturating_sub(u64::from(view.held(slot)));
        let work = view.work(slot) + left as f64;
        let (score, of_late) = (work / view.weight(slot), view.endpoints.row(slot).dispatched);
        if let Some((pick, least)) = best {
            match score.total_cmp(&pick.score).then(of_late.total_cmp(&least)) {
                std::cmp::Ordering::Greater => continue,
                std::cmp::Ordering::Less => ties = 1,
                std::cmp::Ordering::Equal => {
                    // Reservoir sampling: the k-th tie replaces with chance 1/k.
                    ties += 1;
                    if rng.random_range(0..ties) != 0 {
                        continue;
                    }
                }
            }
        }
        best = Some((Pick { slot, score }, of_late));
    }
    best.map(|(pick, _)| pick)
}
