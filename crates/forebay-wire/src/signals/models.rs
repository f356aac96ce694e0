//! Which models an endpoint has.

use serde::Deserialize;

use super::{Dialect, MAX_RESIDENT, ResidentModel, SignalsError};

/// The models in the answer to [`Dialect::resident_path`], in its order, at
/// most [`MAX_RESIDENT`]. Of Triton's versions one is enough to be ready.
///
/// # Errors
/// When the body is not the JSON that this engine answers with.
pub fn read_models(dialect: Dialect, body: &[u8]) -> Result<Vec<ResidentModel>, SignalsError> {
    match dialect {
        Dialect::Ollama => {
            let loaded: Loaded = parse_object("/api/ps", body)?;
            Ok(bounded(loaded.models.unwrap_or_default()))
        }
        Dialect::Triton => {
            let index: Vec<Indexed> = parse("/v2/repository/index", body)?;
            Ok(bounded(merge_versions(index)))
        }
        _ => {
            let list: List = parse_object("/v1/models", body)?;
            Ok(bounded(list.data))
        }
    }
}

fn bounded<T: Into<ResidentModel>>(models: Vec<T>) -> Vec<ResidentModel> {
    models.into_iter().take(MAX_RESIDENT).map(Into::into).collect()
}

/// As [`parse`]; serde would take a list of the fields' values as well.
pub(super) fn parse_object<'a, T: Deserialize<'a>>(
    what: &'static str,
    body: &'a [u8],
) -> Result<T, SignalsError> {
    let value = parse(what, body)?;
    if body.trim_ascii_start().starts_with(b"{") {
        return Ok(value);
    }
    Err(SignalsError::Body { what, why: "not an object".to_owned() })
}

fn parse<'a, T: Deserialize<'a>>(what: &'static str, body: &'a [u8]) -> Result<T, SignalsError> {
    serde_json::from_slice(body).map_err(|e| SignalsError::Body { what, why: e.to_string() })
}

/// OpenAI's list; engines add `parent` for adapters.
#[derive(Deserialize)]
struct List {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    #[serde(default)]
    parent: Option<String>,
    /// llama.cpp's, when it serves several models: they are loaded when asked for.
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    value: String,
}

impl From<Model> for ResidentModel {
    fn from(model: Model) -> Self {
        let parent = model.parent.filter(|p| !p.is_empty() && *p != model.id);
        let ready = model.status.is_none_or(|status| status.value == "loaded");
        Self { id: model.id, parent, ready }
    }
}

/// Ollama's list of what is in memory; null when nothing is.
#[derive(Deserialize)]
struct Loaded {
    // So that a body without the key is refused, not read as an empty list.
    #[serde(deserialize_with = "Option::deserialize")]
    models: Option<Vec<LoadedModel>>,
}

#[derive(Deserialize)]
struct LoadedModel {
    name: String,
}

impl From<LoadedModel> for ResidentModel {
    fn from(model: LoadedModel) -> Self {
        Self { id: model.name, parent: None, ready: true }
    }
}

/// A line of Triton's repository index: one for each version of a model; those
/// never loaded have no state.
#[derive(Deserialize)]
struct Indexed {
    name: String,
    #[serde(default)]
    state: Option<String>,
}

/// One entry for each model, ready when any of its versions is.
fn merge_versions(index: Vec<Indexed>) -> Vec<ResidentModel> {
    let mut models: Vec<ResidentModel> = Vec::with_capacity(index.len());
    for Indexed { name, state } in index {
        let ready = state.as_deref() == Some("READY");
        match models.last_mut().filter(|last| last.id == name) {
            Some(last) => last.ready |= ready,
            None => models.push(ResidentModel { id: name, parent: None, ready }),
        }
    }
    models
}
