//! The questions of the evaluation, each a section of the document.

mod ablation;
mod claims;
mod faults;
mod gateways;
mod headline;
mod knowledge;
mod scale;
mod tables;

use crate::context::Context;
use crate::doc::Doc;

/// A section: its name on the command line and what makes it.
pub(crate) type Section = (&'static str, fn(&Context<'_>) -> Result<Doc, String>);

/// The section that is about who carries how much.
pub(crate) const HEADLINE: &str = "headline";

/// In the order of the document.
pub(crate) const ALL: &[Section] = &[
    ("headline", headline::run),
    ("knowledge", knowledge::run),
    ("gateways", gateways::run),
    ("faults", faults::run),
    ("scale", scale::run),
    ("ablation", ablation::run),
    ("claims", claims::run),
];
