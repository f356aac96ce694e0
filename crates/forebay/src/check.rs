//! `forebay check`

use std::path::Path;
use std::process::ExitCode;

use forebay_config::{Config, Errors, ModelAlias};
use serde_json::json;

use crate::cli::{CheckArgs, Failure};
use crate::status::adapter_edits_of;

/// Reads a configuration file with the environment's variables.
///
/// # Errors
/// Every error of the file, for people.
pub(crate) fn load(file: &Path) -> Result<Config, Failure> {
    read(file)?.map_err(|errors| Failure::Usage(format!("the configuration is refused.\n\n{errors}")))
}

fn read(file: &Path) -> Result<Result<Config, Errors>, Failure> {
    let name = file.display().to_string();
    let text = read_text(file)
        .map_err(|error| Failure::Usage(format!("cannot read the configuration {name}: {error}")))?;
    Ok(forebay_config::parse(&name, &text, &|variable| std::env::var(variable).ok()))
}

/// A configuration larger than this is not one.
const MAX_FILE: u64 = 64 << 20;

/// Reads a regular file of a sane size; a device or a pipe might never end.
fn read_text(file: &Path) -> std::io::Result<String> {
    let about = std::fs::metadata(file)?;
    let refuse = |why| Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    if !about.is_file() {
        return refuse("it is not a regular file");
    }
    if about.len() > MAX_FILE {
        return refuse("it is larger than 64 MiB");
    }
    std::fs::read_to_string(file)
}

/// Says what is wrong with a configuration, or that nothing is.
pub(crate) fn run(options: &CheckArgs) -> Result<ExitCode, Failure> {
    let result = match read(&options.config) {
        Err(failure) if options.json => {
            let file = options.config.display().to_string();
            let error = json!({"file": file, "line": null, "column": null, "path": "", "message": failure.to_string()});
            println!("{}", json!({"ok": false, "errors": [error], "warnings": [], "body_edits": []}));
            return Ok(ExitCode::from(2));
        }
        result => result?,
    };
    let bad = ExitCode::from(2);
    match (result, options.json) {
        (Ok(config), false) => {
            crate::tokenizers::check(&config)?;
            for lint in forebay_config::warnings(&config) {
                println!("warning: {lint}");
            }
            for edit in edits(&config) {
                println!("note: {edit}");
            }
            println!("{}", summary(&config));
            Ok(ExitCode::SUCCESS)
        }
        (Ok(config), true) => {
            let warnings = forebay_config::warnings(&config);
            println!(
                "{}",
                json!({"ok": true, "errors": [], "warnings": warnings, "body_edits": edits(&config)})
            );
            Ok(ExitCode::SUCCESS)
        }
        (Err(errors), false) => {
            eprintln!("{errors}");
            Ok(bad)
        }
        (Err(errors), true) => {
            println!("{}", json!({"ok": false, "errors": errors, "warnings": [], "body_edits": []}));
            Ok(bad)
        }
    }
}

/// Every place where the gateway changes bytes that pass through.
fn edits(config: &Config) -> Vec<String> {
    let alias = |alias: &ModelAlias| {
        format!("requests for \"{}\" have their model name replaced, and their answers too", alias.name)
    };
    config.models.iter().map(alias).chain(config.pools.iter().filter_map(adapter_edits_of)).collect()
}

fn summary(config: &Config) -> String {
    let endpoints: usize = config.pools.iter().map(|pool| pool.endpoints.len()).sum();
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let pools = config.pools.len();
    format!("ok: {pools} pool{}, {endpoints} endpoint{}", plural(pools), plural(endpoints))
}
