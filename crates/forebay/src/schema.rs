//! `forebay schema`

use std::process::ExitCode;

use crate::cli::{Failure, SchemaArgs};

/// Prints the JSON Schema of the configuration.
pub(crate) fn run(_: &SchemaArgs) -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(&forebay_config::json_schema())
        .map_err(Failure::doing("cannot write the schema"))?;
    println!("{text}");
    Ok(ExitCode::SUCCESS)
}
