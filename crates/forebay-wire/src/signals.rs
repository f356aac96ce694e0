//! What engines tell of themselves: load, capacity, counters, models.
//!
//! Every engine has its own words for the same things; here they become one
//! [`Signals`]. Answers come from the network, so nothing in them is trusted:
//! a figure that is missing or means nothing is unknown, never zero, and one
//! bad line does not spoil the rest.

mod adapters;
mod dcgm;
mod denial;
mod detect;
mod dialect;
mod figure;
mod loads;
mod models;
mod page;
mod plan;
pub mod rates;
mod reader;
mod sources;
mod values;

pub use dcgm::read_dcgm;
pub use denial::denies_model;
pub use detect::{detect, detect_models, detect_root, detect_server_header};
pub use dialect::Dialect;
pub use loads::read_loads;
pub use models::read_models;
pub use reader::Reader;
pub use values::{
    Adapters, Combine, Counters, CustomSignal, Gpu, MAX_ADAPTERS, MAX_CUSTOM, MAX_MODELS, MAX_RESIDENT,
    ResidentModel, Signals, SignalsError,
};
