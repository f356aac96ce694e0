//! Finding out which engine answers.
//!
//! The list of models is asked first: most engines name themselves in it, and
//! TensorRT-LLM's `/metrics` takes what it tells from a queue, so it must not
//! be asked on suspicion. What a metrics page shows counts for more: an engine
//! can be listed under the name of one whose API it imitates.

use std::future::Future;

use forebay_wire::signals::{Dialect, detect, detect_models, detect_root, read_models};

use http::{Method, Uri};

use super::ScrapeTarget;
use super::engine::{here, metrics_page};
use super::failure::ScrapeFailure;
use super::fetch::Page;

/// How pages are asked for, with all that is told about it.
pub(crate) trait Ask {
    /// Hands the page to `read`.
    fn ask<T: Send>(
        &self,
        page: &Page,
        read: impl FnOnce(&[u8]) -> T + Send,
    ) -> impl Future<Output = Result<T, ScrapeFailure>> + Send;
}

/// What was found out.
#[derive(Clone, Debug)]
pub(crate) struct Detected {
    pub(crate) dialect: Dialect,
    /// The metrics page that showed it.
    pub(crate) page: Option<Page>,
    /// It lists its models as OpenAI does, whatever its own way is.
    pub(crate) lists: bool,
}

impl From<Dialect> for Detected {
    fn from(dialect: Dialect) -> Detected {
        Detected { dialect, page: None, lists: false }
    }
}

/// Which engine answers at `target`. An endpoint where nobody answers, or not
/// in time, is asked no further.
pub(crate) async fn find<Id>(target: &ScrapeTarget<Id>, ask: &impl Ask) -> Result<Detected, ScrapeFailure> {
    let here = |path: &str| here(target, Method::GET, path);

    let listed = answered(
        ask.ask(&here("/v1/models")?, |body| {
            (detect_models(body), read_models(Dialect::Openai, body).is_ok())
        })
        .await,
    )?;
    let (named, is_list) = listed.unwrap_or((None, false));
    if named == Some(Dialect::Ollama) {
        return Ok(Dialect::Ollama.into());
    }

    // Triton's page is at another port, where another program may have one;
    // its frontend for OpenAI's API has one at its own.
    let pages: &[Dialect] = match &named {
        Some(Dialect::Triton) => &[Dialect::Vllm, Dialect::Triton],
        Some(dialect) => std::slice::from_ref(dialect),
        None => &[Dialect::Vllm, Dialect::Trtllm],
    };
    let mut asked_before: Option<Uri> = None;
    for of in pages {
        let Some(page) = metrics_page(target, *of)? else { continue };
        // The user's page is the same for every engine.
        if asked_before.as_ref() == Some(page.uri()) {
            continue;
        }
        match ask.ask(&page, detect).await {
            Ok(Some(dialect)) => return Ok(Detected { dialect, page: Some(page), lists: is_list }),
            Ok(None) => {}
            Err(failure) if failure.answered() || named.is_some() => {}
            Err(failure) => return Err(failure),
        }
        asked_before = Some(page.uri().clone());
    }
    if let Some(dialect) = named {
        // Its page is switched off, or in trouble just now.
        return Ok(Detected { dialect, page: None, lists: is_list });
    }

    let is_triton = answered(ask.ask(&here("/v2")?, is_triton).await)?;
    if is_triton == Some(true) {
        return Ok(Dialect::Triton.into());
    }
    if let Some(Some(dialect)) = answered(ask.ask(&here("/")?, detect_root).await)? {
        return Ok(dialect.into());
    }
    if is_list { Ok(Dialect::Openai.into()) } else { Err(ScrapeFailure::Unknown) }
}

/// An answer that cannot be used is none; no answer at all ends the search.
fn answered<T>(result: Result<T, ScrapeFailure>) -> Result<Option<T>, ScrapeFailure> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(failure) if failure.answered() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The server's metadata in the Open Inference Protocol begin with its name.
fn is_triton(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).take(4096).collect();
    compact.contains("\"name\":\"triton\"")
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
