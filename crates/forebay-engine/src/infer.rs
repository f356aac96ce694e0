//! Requests that use the model.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::api::openai::Kind;
use crate::api::{Plan, Whole, anthropic, openai, pooling, responses};
use crate::body::EngineBody;
use crate::conn::ConnState;
use crate::error::ApiError;
use crate::fault::RequestFault;
use crate::generation::Generation;
use crate::orca::Orca;
use crate::route::{Action, Answer, event_stream, fail, json, json_body};
use crate::shared::Shared;

/// A request, apart from its body.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) conn: &'a Arc<ConnState>,
    pub(crate) action: Action,
    /// Its id, from the client or drawn.
    pub(crate) id: &'a str,
    /// Whether and how the answer tells the load.
    pub(crate) orca: Option<Orca>,
}

/// Answers it: a stream at once, anything else when it is complete.
pub(crate) async fn infer(call: Call<'_>, map: &Map<String, Value>) -> Answer {
    let in_flight = call.shared.arrive();
    let fault = match call.shared.draw_fault() {
        Ok(fault) => fault,
        Err((error, retry_after)) => return fail(call.action, &error, retry_after),
    };
    let answer = match run(&call, map, fault).await {
        Ok(answer) => answer,
        Err(error) => fail(call.action, &error, None),
    };
    answer.map(|body| body.in_flight(in_flight))
}

async fn run(
    call: &Call<'_>,
    map: &Map<String, Value>,
    fault: Option<RequestFault>,
) -> Result<Answer, ApiError> {
    let (shared, id) = (call.shared, call.id);
    let Plan { spec, stream, whole } = match call.action {
        Action::Chat => openai::plan(shared, Kind::Chat, id, map),
        Action::Messages => anthropic::plan(shared, id, map),
        Action::Responses => responses::plan(shared, id, map),
        Action::Embeddings => pooling::embeddings(shared, id, map),
        Action::Score => pooling::score(shared, id, map),
        Action::Rerank => pooling::rerank(shared, id, map),
        _ => openai::plan(shared, Kind::Text, id, map),
    }?;
    if fault == Some(RequestFault::Hang) {
        return match stream {
            Some(_) => Ok(event_stream(EngineBody::hung())),
            None => std::future::pending().await,
        };
    }
    let generation = Generation::start(shared, spec)?;
    match stream {
        Some(dialect) => {
            Ok(event_stream(EngineBody::stream(generation, dialect, fault, Arc::clone(call.conn))))
        }
        None => complete(call, generation, whole, fault).await,
    }
}

/// An answer that is not streamed.
async fn complete(
    call: &Call<'_>,
    mut generation: Generation,
    whole: Whole,
    fault: Option<RequestFault>,
) -> Result<Answer, ApiError> {
    let most = match fault {
        Some(RequestFault::StreamError { .. }) => return Err(ApiError::engine_dead()),
        Some(RequestFault::Abort { after }) => after,
        _ => u32::MAX,
    };
    let texts = generation.collect(most).await?;
    let text = whole(&generation, &texts);
    if let Some(RequestFault::Cut { reset, .. }) = fault {
        call.conn.reset_on_close(reset);
        return Ok(json_body(StatusCode::OK, EngineBody::torn(text)));
    }
    let mut answer = json(StatusCode::OK, text);
    if let Some(orca) = call.orca {
        orca.tell(&call.shared.stats().load, answer.headers_mut());
    }
    Ok(answer)
}
