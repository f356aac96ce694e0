//! Parts of the decision that an experiment takes away.

use serde::{Deserialize, Serialize};

/// What `predictive` must do without, to find out what each part is worth. No
/// configuration sets it; the simulator's evaluation does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Without {
    /// Waiting for KV memory, and memory as a part of capacity.
    pub memory: bool,
    /// The tax of decoding streams on prefill.
    pub tax: bool,
    /// Counting KV memory in flight once for each distinct block: it is the
    /// sum over requests then.
    pub distinct: bool,
    /// The cost of crowds around a shared prefix.
    pub crowding: bool,
    /// Learning how fast endpoints and classes are; of every pool of the Gate.
    pub speeds: bool,
    /// The pool's correction of predicted time per token.
    pub correction: bool,
    /// The window of a gateway that has peers: it uses every endpoint.
    pub window: bool,
}
