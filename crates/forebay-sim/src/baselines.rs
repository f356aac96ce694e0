//! What other routers do, by their own rules and defaults.
//!
//! They see what Forebay's policies see: what this gateway sent and what came
//! back, the load that engines last reported, and the same prefix index. Each
//! states the knobs that its own project documents, so that all can be tuned
//! with the same effort.

mod aibrix;
mod bounded_hash;
mod desk;
mod dynamo;
mod least_request;
mod llmd_affinity;
mod llmd_scorers;
mod mooncake;
mod orca_wrr;
mod power_of_two;
mod preble;
mod prequal;
mod round_robin;
mod sglang;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use forebay_core::{LoadReport, OrcaLoad};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::engine::Profile;

pub(crate) use desk::Desk;

/// One number that a rival's users may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// Its name, as near as possible to the rival's.
    pub name: &'static str,
    /// The rival's default.
    pub default: f64,
    /// Values that a tuner tries.
    pub tries: &'static [f64],
    /// What it does.
    pub what: &'static str,
}

macro_rules! rivals {
    ($($(#[$doc:meta])* $variant:ident = $name:literal in $module:ident),+ $(,)?) => {
        /// Which rival.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum BaselineKind {
            $($(#[$doc])* $variant,)+
        }

        impl BaselineKind {
            /// Every rival, in the order of tables.
            pub const ALL: &'static [BaselineKind] = &[$(BaselineKind::$variant),+];

            /// The name in tables and on the command line.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(BaselineKind::$variant => $name,)+
                }
            }

            /// What its users may set, in the order of the values.
            pub const fn knobs(self) -> &'static [Knob] {
                match self {
                    $(BaselineKind::$variant => $module::KNOBS,)+
                }
            }

            pub(crate) fn make(self, knobs: &Knobs) -> Box<dyn Rival> {
                match self {
                    $(BaselineKind::$variant => Box::new($module::make(knobs)),)+
                }
            }
        }
    };
}

rivals! {
    /// Each endpoint in turn.
    RoundRobin = "rival-round-robin" in round_robin,
    /// The fewest requests in flight, over all endpoints.
    LeastRequest = "rival-least-request" in least_request,
    /// The fewest of a few drawn at random.
    PowerOfTwo = "rival-p2c" in power_of_two,
    /// Weighted round robin by ORCA reports, as gRPC (A58) and Envoy do it.
    OrcaWrr = "rival-orca-wrr" in orca_wrr,
    /// Google's Prequal (NSDI'24).
    Prequal = "rival-prequal" in prequal,
    /// SGLang's router and its successor SMG, `cache_aware`.
    Sglang = "rival-sglang" in sglang,
    /// NVIDIA Dynamo's KV router.
    Dynamo = "rival-dynamo" in dynamo,
    /// llm-d's weighted scorers.
    LlmdScorers = "rival-llmd-scorers" in llmd_scorers,
    /// llm-d's affinity filter.
    LlmdAffinity = "rival-llmd-affinity" in llmd_affinity,
    /// Mooncake's least time to first token.
    Mooncake = "rival-mooncake" in mooncake,
    /// Preble's exploit or explore.
    Preble = "rival-preble" in preble,
    /// AIBrix's prefix-cache routing.
    Aibrix = "rival-aibrix" in aibrix,
    /// Consistent hashing with bounded loads.
    BoundedHash = "rival-bounded-hash" in bounded_hash,
}

impl fmt::Display for BaselineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of a rival.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the name of a rival policy")]
pub struct UnknownBaseline;

impl FromStr for BaselineKind {
    type Err = UnknownBaseline;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        BaselineKind::ALL.iter().copied().find(|kind| kind.as_str() == s).ok_or(UnknownBaseline)
    }
}

/// A rival's values, in the order of [`BaselineKind::knobs`]; those left out
/// are at their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knobs(pub Vec<f64>);

impl Knobs {
    /// One value; a default stands in for one that is missing or not a number.
    pub(crate) fn get(&self, knobs: &[Knob], at: usize) -> f64 {
        let default = knobs.get(at).map_or(0.0, |knob| knob.default);
        self.0.get(at).copied().filter(|value| value.is_finite()).unwrap_or(default)
    }
}

/// What a gateway has in flight at an endpoint by its own account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    pub(crate) in_flight: u32,
    /// Prompt tokens sent, not taken to be cached, whose first token has not come.
    pub(crate) prefill_tokens: u64,
    /// The same in milliseconds by the endpoint's step constants.
    pub(crate) prefill_ms: f64,
    /// Prompt tokens of everything in flight.
    pub(crate) context: u64,
    /// Streams past their first token.
    pub(crate) streams: u32,
}

impl Load {
    pub(crate) fn add(&mut self, other: &Load) {
        self.in_flight += other.in_flight;
        self.prefill_tokens += other.prefill_tokens;
        self.prefill_ms += other.prefill_ms;
        self.context += other.context;
        self.streams += other.streams;
    }
}

/// What is known of an endpoint beside its load.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) profile: Profile,
    pub(crate) weight: f64,
    pub(crate) report: Option<LoadReport>,
    pub(crate) orca: Option<(u64, OrcaLoad)>,
}

impl Known {
    /// Prefill of `uncached` tokens after `cached` ones, alone.
    pub(crate) fn prefill_ms(&self, uncached: u32, cached: u32) -> f64 {
        let (u, h) = (f64::from(uncached), f64::from(cached));
        u * (self.profile.b + self.profile.c * (h + u / 2.0))
    }

    /// One decode step of this load, in milliseconds.
    pub(crate) fn step_ms(&self, load: &Load) -> f64 {
        let p = &self.profile;
        p.a + f64::from(load.streams) * (p.b + p.e) + p.d * load.context as f64
    }
}

/// Everything that a rival may look at.
pub(crate) struct View<'a> {
    /// Nanoseconds.
    pub(crate) now: u64,
    /// Endpoints that may be picked, in order; never empty.
    pub(crate) candidates: &'a [u32],
    /// By endpoint: what this gateway has there, with what others told of.
    pub(crate) loads: &'a [Load],
    pub(crate) known: &'a [Known],
    /// By endpoint: tokens of the prompt that it holds.
    pub(crate) held: &'a [u32],
    /// By endpoint: requests really there, as a probe would find.
    pub(crate) really: &'a [u32],
    pub(crate) prompt: u32,
    pub(crate) chain: &'a std::sync::Arc<[u64]>,
    pub(crate) block_tokens: u32,
    pub(crate) affinity: u64,
    /// The index is fed by engines and not by what was sent.
    pub(crate) exact: bool,
}

impl View<'_> {
    pub(crate) fn load(&self, endpoint: u32) -> &Load {
        &self.loads[endpoint as usize]
    }

    pub(crate) fn held(&self, endpoint: u32) -> u32 {
        self.held[endpoint as usize].min(self.prompt)
    }

    pub(crate) fn uncached(&self, endpoint: u32) -> u32 {
        self.prompt - self.held(endpoint)
    }

    /// Share of the prompt that is held, 0 to 1.
    pub(crate) fn matched(&self, endpoint: u32) -> f64 {
        f64::from(self.held(endpoint)) / f64::from(self.prompt.max(1))
    }

    pub(crate) fn in_flight(&self, endpoint: u32) -> f64 {
        f64::from(self.load(endpoint).in_flight)
    }

    /// The most and the fewest requests in flight.
    pub(crate) fn spread(&self) -> (u32, u32) {
        let loads = self.candidates.iter().map(|&endpoint| self.load(endpoint).in_flight);
        loads.fold((0, u32::MAX), |(most, least), load| (most.max(load), least.min(load)))
    }
}

/// Chooses among endpoints by a rival's rule.
pub(crate) trait Rival {
    /// One of the candidates.
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32>;

    /// It was sent there.
    fn sent(&mut self, _view: &View<'_>, _endpoint: u32) {}

    /// A first token came after so long; so many requests were there when it was sent.
    fn first_token(&mut self, _endpoint: u32, _ms: f64, _really: u32) {}

    /// A request is over there.
    fn ended(&mut self, _endpoint: u32, _ended: &Ended<'_>) {}
}

/// A request that is over.
pub(crate) struct Ended<'a> {
    pub(crate) chain: &'a std::sync::Arc<[u64]>,
    /// Prompt tokens in no whole block.
    pub(crate) tail: u64,
    /// Tokens that came out; 0 when it was not served.
    pub(crate) output: u32,
}

/// The endpoint with the least score; exact ties at random.
pub(crate) fn argmin(
    endpoints: impl Iterator<Item = u32>,
    rng: &mut Pcg64Mcg,
    mut score: impl FnMut(u32) -> f64,
) -> Option<u32> {
    let mut best: Option<(f64, u32)> = None;
    let mut ties = 1u32;
    for endpoint in endpoints {
        let s = score(endpoint);
        match best {
            Some((least, _)) if s > least => {}
            Some((least, _)) if s == least => {
                ties += 1;
                if rng.random_range(0..ties) == 0 {
                    best = Some((s, endpoint));
                }
            }
            _ => {
                ties = 1;
                best = Some((s, endpoint));
            }
        }
    }
    best.map(|(_, endpoint)| endpoint)
}
