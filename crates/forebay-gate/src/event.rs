//! What the Gate is told, and what follows from it.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{
    EndpointFacts, EndpointId, EndpointState, LoadReport, ModelId, OrcaLoad, Outcome, PoolId, TicketId,
};
use serde::{Deserialize, Serialize};

use crate::peers::PeerWord;
use crate::pool::PoolConfig;
use crate::verdict::{Decision, Refusal};

/// How far one request has come since it was last reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Which request.
    pub ticket: TicketId,
    /// Tokens that have come out so far, in all.
    pub tokens: u32,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Streams went on; sent in batches. The first report of a request says
    /// that its prefill is over.
    Progress(Vec<Progress>),
    /// A request ended.
    Outcome(TicketId, Outcome),
    /// A request was given up by its owner, in whatever stage.
    Cancelled(TicketId),
    /// An endpoint said how loaded it is.
    Report(EndpointId, LoadReport),
    /// An answer carried what its endpoint said of itself (ORCA).
    Orca(EndpointId, OrcaLoad),
    /// The engine at an endpoint began anew: its caches are empty.
    Restarted(EndpointId),
    /// A connect or a probe took so long there and back.
    Network(EndpointId, Duration),
    /// The adapters that an endpoint lists.
    Adapters(EndpointId, Vec<ModelId>),
    /// Adapters that an endpoint has loaded now, and how many fit.
    Loaded(EndpointId, Vec<ModelId>, Option<u32>),
    /// An endpoint joins a pool. One that is already in another pool of this
    /// Gate, by name, is shared: one load, one state.
    Join(PoolId, EndpointFacts, EndpointState),
    /// An endpoint may or may not be picked from now on.
    State(EndpointId, EndpointState),
    /// An endpoint's relative capacity changed.
    Weight(EndpointId, f64),
    /// An endpoint leaves every pool. Requests in flight there go on.
    Leave(EndpointId),
    /// A pool appears or is configured anew; waiting requests keep their place.
    Configure(PoolId, PoolConfig),
    /// This gateway is one of several before the same endpoints.
    Among {
        /// Its number among them, from 0: all agree on who has which.
        me: u32,
        /// How many there are, itself included.
        gateways: u32,
    },
    /// Another gateway told what it has in flight; none: nothing new since.
    Peer(u32, Option<Arc<PeerWord>>),
    /// The time given by [`crate::Gate::next_timer`] has come.
    Timer,
}

/// What must now be done. Each list is in the order it must be carried out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    /// Waiting requests that now go.
    pub go: Vec<Decision>,
    /// Waiting requests that are refused; their tickets are gone.
    pub refuse: Vec<(TicketId, Refusal)>,
    /// The endpoint that joined, for [`Event::Join`].
    pub joined: Option<EndpointId>,
}

impl Effects {
    /// True when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.go.is_empty() && self.refuse.is_empty() && self.joined.is_none()
    }
}
