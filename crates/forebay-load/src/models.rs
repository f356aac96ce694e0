//! Asking a server which models it has.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde::Deserialize;
use tokio::time::timeout;

use crate::call::{Caller, join};
use crate::error::LoadError;

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

/// The first model that the server at `base` lists.
pub(crate) async fn first_model(caller: &Caller, base: &str) -> Result<String, LoadError> {
    let uri = join(base, "/v1/models")?;
    let url = uri.to_string();
    let limit = Duration::from_secs(10);
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = uri;
    if let Some(value) = caller.authorization() {
        request.headers_mut().insert(http::header::AUTHORIZATION, value.clone());
    }
    let no_model = |why| LoadError::NoModel { url: url.clone(), why };
    let fetch = async {
        let response = caller.client().send(request).await?;
        let status = response.status();
        Ok((status, response.into_body().read_whole(4 << 20).await?))
    };
    let (status, body) = match timeout(limit, fetch).await {
        Ok(answer) => answer.map_err(|source| LoadError::Models { url: url.clone(), source })?,
        Err(_) => return Err(no_model(format!("no answer within {limit:?}"))),
    };
    if status != StatusCode::OK {
        return Err(no_model(format!("it answered {status}")));
    }
    let models: Models =
        serde_json::from_slice(&body).map_err(|e| no_model(format!("not a list of models ({e})")))?;
    match models.data.into_iter().next() {
        Some(model) => Ok(model.id),
        None => Err(no_model("it has none".into())),
    }
}
