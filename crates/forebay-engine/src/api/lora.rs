//! Loading and unloading adapters while the engine runs.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::shared::Shared;

/// `POST /v1/load_lora_adapter`. Any path is fine: there are no weights.
pub(crate) fn load(shared: &Arc<Shared>, map: &Map<String, Value>) -> Result<String, ApiError> {
    let name = name(map)?;
    if !shared.load_adapter(name) {
        return Err(ApiError {
            status: StatusCode::BAD_REQUEST,
            kind: "InvalidUserInput".into(),
            message: format!(
                "The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, \
                 set 'load_inplace' to True."
            ),
            param: None,
        });
    }
    Ok(format!("Success: LoRA adapter '{name}' added successfully."))
}

/// `POST /v1/unload_lora_adapter`.
pub(crate) fn unload(shared: &Arc<Shared>, map: &Map<String, Value>) -> Result<String, ApiError> {
    let name = name(map)?;
    if !shared.unload_adapter(name) {
        return Err(ApiError::not_found(format!("The lora adapter '{name}' cannot be found."), None));
    }
    Ok(format!("Success: LoRA adapter '{name}' removed successfully."))
}

fn name(map: &Map<String, Value>) -> Result<&str, ApiError> {
    let mut fields = Fields::new(map);
    let name = fields.string("lora_name");
    if fields.get("lora_name").is_none() {
        fields.missing("lora_name");
    }
    fields.finish()?;
    Ok(name.unwrap_or_default())
}
