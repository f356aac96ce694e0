//! Which models an endpoint has.

use serde::Deserialize;

use super::{Dialect, ResidentModel, SignalsError};

/// The models in the answer to [`Dialect::resident_path`].
///
/// # Errors
/// When the body is not the JSON that this engine answers with.
pub fn read_models(dialect: Dialect, body: &[u8]) -> Result<Vec<ResidentModel>, SignalsError> {
    match dialect {
        Dialect::Ollama => Ok(parse::<Loaded>("/api/ps", body)?.models.into_iter().map(Into::into).collect()),
        Dialect::Triton => {
            let index: Vec<Indexed> = parse("/v2/repository/index", body)?;
            Ok(merge_versions(index))
        }
        _ => Ok(parse::<List>("/v1/models", body)?.data.into_iter().map(Into::into).collect()),
    }
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
}

impl From<Model> for ResidentModel {
    fn from(model: Model) -> Self {
        let parent = model.parent.filter(|p| !p.is_empty() && *p != model.id);
        Self { id: model.id, parent, ready: true }
    }
}

/// Ollama's list of what is in memory; null when nothing is.
#[derive(Deserialize)]
struct Loaded {
    #[serde(default, deserialize_with = "null_is_empty")]
    models: Vec<LoadedModel>,
}

#[derive(Deserialize)]
struct LoadedModel {
    name: String,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<LoadedModel>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
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
