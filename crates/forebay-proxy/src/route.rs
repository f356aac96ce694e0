//! Which paths there are.

use forebay_wire::body::Api;
use http::Method;

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target<'a> {
    /// An API of the engines; the body names the model.
    Engine(Api),
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`; the id as it stands in the path.
    Model(&'a str),
}

/// Why a path leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoute {
    /// There is no such path.
    Unknown,
    /// There is, for another method; the one it takes.
    Method(&'static str),
}

/// Looks a path up. Paths of an engine that are not part of its inference API
/// are not here and so not reachable.
pub(crate) fn route<'a>(method: &Method, path: &'a str) -> Result<Target<'a>, NoRoute> {
    let api = match path {
        "/v1/chat/completions" => Api::Chat,
        "/v1/completions" => Api::Completions,
        "/v1/responses" => Api::Responses,
        "/v1/embeddings" => Api::Embeddings,
        "/v1/messages" => Api::Messages,
        "/v1/messages/count_tokens" => Api::CountTokens,
        "/v1/rerank" | "/v2/rerank" | "/rerank" => Api::Rerank,
        "/v1/score" | "/score" => Api::Score,
        "/pooling" | "/v1/pooling" | "/classify" | "/v1/classify" => Api::Pooling,
        "/v1/moderations" => Api::Moderations,
        "/v1/images/generations" | "/v1/images/edits" | "/v1/images/variations" => Api::Images,
        "/v1/audio/transcriptions" | "/v1/audio/translations" | "/v1/audio/speech" => Api::Audio,
        _ => return models(method, path),
    };
    if method == Method::POST { Ok(Target::Engine(api)) } else { Err(NoRoute::Method("POST")) }
}

fn models<'a>(method: &Method, path: &'a str) -> Result<Target<'a>, NoRoute> {
    let Some(rest) = path.strip_prefix("/v1/models") else { return Err(NoRoute::Unknown) };
    let target = match rest {
        "" | "/" => Target::Models,
        _ => Target::Model(rest.strip_prefix('/').ok_or(NoRoute::Unknown)?),
    };
    if method == Method::GET || method == Method::HEAD {
        Ok(target)
    } else {
        Err(NoRoute::Method("GET, HEAD"))
    }
}

/// The path that was probably meant: without the `/v1` that belongs to the base
/// URL, or with two of them.
pub(crate) fn meant(path: &str) -> Option<String> {
    let candidate = match path.strip_prefix("/v1/v1/") {
        Some(rest) => format!("/v1/{rest}"),
        None => format!("/v1{path}"),
    };
    let known = [Method::POST, Method::GET].iter().any(|method| route(method, &candidate).is_ok());
    known.then_some(candidate)
}

/// True for paths whose errors are in Anthropic's shape.
pub(crate) fn is_anthropic(path: &str) -> bool {
    path == "/v1/messages" || path.starts_with("/v1/messages/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_with_no_or_two_v1_is_recognised() {
        assert_eq!(meant("/chat/completions").as_deref(), Some("/v1/chat/completions"));
        assert_eq!(meant("/v1/v1/models").as_deref(), Some("/v1/models"));
        for other in ["/", "/pause", "/v1/nothing", "//chat/completions"] {
            assert_eq!(meant(other), None, "{other}");
        }
    }

    #[test]
    fn paths_and_methods() {
        let cases = [
            ("POST", "/v1/chat/completions", Ok(Target::Engine(Api::Chat))),
            ("GET", "/v1/chat/completions", Err(NoRoute::Method("POST"))),
            ("GET", "/v1/models", Ok(Target::Models)),
            ("GET", "/v1/models/", Ok(Target::Models)),
            ("HEAD", "/v1/models", Ok(Target::Models)),
            ("GET", "/v1/models/org/name", Ok(Target::Model("org/name"))),
            ("POST", "/v1/models", Err(NoRoute::Method("GET, HEAD"))),
            ("GET", "/v1/modelsx", Err(NoRoute::Unknown)),
            ("POST", "/pause", Err(NoRoute::Unknown)),
            ("GET", "/metrics", Err(NoRoute::Unknown)),
            ("POST", "/v1/load_lora_adapter", Err(NoRoute::Unknown)),
            ("POST", "/v1/chat/completions/", Err(NoRoute::Unknown)),
        ];
        for (method, path, want) in cases {
            assert_eq!(route(&method.parse().unwrap(), path), want, "{method} {path}");
        }
    }
}
