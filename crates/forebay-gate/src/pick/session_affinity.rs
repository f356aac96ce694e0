//! The endpoint that served the session before, within a bound on load.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::bounded::{Bound, least_work};
use super::sessions::Sessions;
use super::{Pick, Policy, View};
use crate::policy_kind::PolicyKind;

/// Sessions that are remembered; the least recently used is forgotten first.
const SESSIONS: usize = 65_536;

/// A session goes where its last request was sent, while that endpoint may be
/// picked and is below `factor` times its fair share of the requests in flight;
/// else to the least outstanding work, and stays there from then on. A request
/// that names no session is kept together by its affinity key: the user or the
/// start of the prompt. An endpoint that left is forgotten when it is met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionAffinity {
    sessions: Sessions,
}

impl Default for SessionAffinity {
    fn default() -> SessionAffinity {
        SessionAffinity { sessions: Sessions::new(SESSIONS) }
    }
}

fn key(view: &View<'_>) -> u64 {
    view.facts.session.unwrap_or(view.facts.affinity)
}

impl Policy for SessionAffinity {
    fn kind(&self) -> PolicyKind {
        PolicyKind::SessionAffinity
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        if let Some(endpoint) = self.sessions.get(key(view)) {
            match view.endpoints.slot(endpoint) {
                None => self.sessions.remove(key(view)),
                Some(slot) => {
                    let picked = view.candidates.binary_search(&slot).is_ok();
                    if picked && Bound::new(view).has_room(view, slot) {
                        return Some(Pick { slot, score: 0.0 });
                    }
                }
            }
        }
        least_work(view, rng, |_| true)
    }

    fn sent(&mut self, view: &View<'_>, slot: u32) {
        self.sessions.put(key(view), view.endpoints.id(slot));
    }
}

#[cfg(test)]
#[path = "session_affinity_tests.rs"]
mod tests;
