//! What the fleet is expected to do next: step times, learned speeds, output
//! lengths, arrivals, network time, and how far to trust all of it.
//!
//! Nothing here reads a clock or draws randomness; time comes as an argument.
//! All state can be written into a snapshot and read back. Input that makes no
//! sense (not finite, negative) is ignored: these numbers come from engines.

mod class_fit;
mod correction;
mod decay;
mod errors;
mod evidence;
#[cfg(test)]
mod hostile_tests;
mod lengths;
mod load_time;
mod network;
mod presets;
mod speeds;
mod step_model;
#[cfg(test)]
mod testing;
mod watchdog;

pub use class_fit::{Adopted, ClassFit, FirstTokenSample, TokenSample};
pub use correction::TpotCorrection;
pub use decay::{Arrivals, DecayedSum, Ewma};
pub use errors::{ErrorStats, ErrorSummary};
pub use lengths::OutputLengths;
pub use load_time::LoadTime;
pub use network::NetworkTime;
pub use speeds::{Predicted, SpeedReport, Speeds};
pub use step_model::StepModel;
pub use watchdog::{Trust, Watchdog, WatchdogLimits};
