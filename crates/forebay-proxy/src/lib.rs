//! The HTTP data plane: accept, read, forward, relay, drain.
//!
//! One request's way through, in the order of the modules: [`serve`] accepts
//! connections and hands each request to `handle`; `route` knows the path;
//! `read` collects the body; `facts` finds what routing needs in it; the Gate
//! admits and picks; `forward` sends it and waits for the first byte; `relay`
//! streams the answer; `settle` tells everyone how it ended.

mod connection;
mod endpoint;
mod facts;
mod forward;
mod handle;
mod headers;
mod ids;
mod learned;
mod model_route;
mod naming;
mod orca;
mod pool_route;
mod problem;
mod proxy;
mod read;
mod registry;
#[cfg(test)]
mod registry_tests;
mod relay;
mod reply;
mod route;
mod rule;
mod serve;
mod settle;
mod timer;
mod tokens;
mod versions;
mod watching;

pub use endpoint::{Endpoint, EndpointSignals};
pub use proxy::{DrainPhase, Proxy, Settings};
pub use registry::{Registry, RegistryBuilder};
pub use rule::CandidateSignals;
pub use serve::serve;
pub use tokens::{PromptTokens, TokensFuture};
pub use versions::Versions;
