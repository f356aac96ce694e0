use std::collections::BTreeMap;
use std::sync::Mutex;

use super::super::engine::Engine;
use super::*;

const AT: &str = "http://10.0.0.1:8000";
const LIST: &str = r#"{"object":"list","data":[{"id":"m","object":"model","owned_by":"OWNER"}]}"#;

/// Answers from a table, with 404 for the rest.
#[derive(Default)]
struct Table {
    answers: BTreeMap<String, Result<String, ScrapeFailure>>,
    asked: Mutex<Vec<String>>,
}

impl Table {
    fn with(mut self, path: &str, answer: Result<&str, ScrapeFailure>) -> Table {
        let url = if path.starts_with('/') { format!("{AT}{path}") } else { path.to_owned() };
        self.answers.insert(url, answer.map(str::to_owned));
        self
    }

    fn owned_by(self, owner: &str) -> Table {
        self.with("/v1/models", Ok(&LIST.replace("OWNER", owner)))
    }
}

impl Ask for Table {
    async fn ask<T: Send>(
        &self,
        page: &Page,
        read: impl FnOnce(&[u8]) -> T + Send,
    ) -> Result<T, ScrapeFailure> {
        let url = page.uri().to_string();
        let answer = self.answers.get(&url).cloned().unwrap_or(Err(ScrapeFailure::Status(404)));
        self.asked.lock().unwrap().push(url);
        answer.map(|body| read(body.as_bytes()))
    }
}

fn found(table: &Table) -> Result<Dialect, ScrapeFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(find(&ScrapeTarget::new((), AT), table)).map(|found| found.dialect)
}

const VLLM: Result<&str, ScrapeFailure> = Ok("vllm:num_requests_running 1\n");

#[test]
fn engines_are_known_by_their_metrics() {
    for (path, page, dialect) in [
        ("/metrics", "vllm:num_requests_running 1\n", Dialect::Vllm),
        ("/metrics", "sglang:num_running_reqs 1\n", Dialect::Sglang),
        ("/metrics", "tgi_queue_size 1\n", Dialect::Tgi),
        ("/metrics", "llamacpp:requests_processing 1\n", Dialect::Llamacpp),
        ("/metrics", "lmdeploy:num_requests_running 1\n", Dialect::Lmdeploy),
        ("/prometheus/metrics", "trtllm_num_requests_running 1\n", Dialect::Trtllm),
        ("/metrics", "nv_inference_pending_request_count 1\n", Dialect::Triton),
    ] {
        assert_eq!(found(&Table::default().with(path, Ok(page))), Ok(dialect), "{path}");
    }
}

#[test]
fn engines_are_known_without_their_metrics() {
    for (owner, dialect) in
        [("vllm", Dialect::Vllm), ("sglang", Dialect::Sglang), ("llamacpp", Dialect::Llamacpp)]
    {
        assert_eq!(found(&Table::default().owned_by(owner)), Ok(dialect));
    }
    let triton = Table::default().with("/v2", Ok("{\"name\": \"triton\",\n \"version\": \"2.60\"}"));
    assert_eq!(found(&triton), Ok(Dialect::Triton));
    assert_eq!(found(&Table::default().with("/", Ok("Ollama is running"))), Ok(Dialect::Ollama));
    assert_eq!(found(&Table::default().owned_by("library")), Ok(Dialect::Ollama));
}

#[test]
fn the_metrics_count_for_more_than_what_the_list_says() {
    let table = Table::default().owned_by("vllm").with("/metrics", Ok("lmdeploy:num_requests_running 1\n"));
    assert_eq!(found(&table), Ok(Dialect::Lmdeploy));
}

#[test]
fn tensorrt_is_not_asked_for_what_would_be_taken_from_its_queue() {
    let table = Table::default().owned_by("tensorrt_llm").with("/metrics", Ok("[]"));
    assert_eq!(found(&table), Ok(Dialect::Trtllm));
    let asked = table.asked.lock().unwrap();
    assert!(!asked.contains(&format!("{AT}/metrics")), "{asked:?}");
}

#[test]
fn a_list_of_models_alone_is_the_openai_api() {
    assert_eq!(found(&Table::default().owned_by("a-maker")), Ok(Dialect::Openai));
}

#[test]
fn what_nobody_knows_is_said_to_be_unknown() {
    let html = Ok("<html><body>It works!</body></html>");
    let table = Table::default().with("/", html).with("/metrics", html).with("/v1/models", html);
    assert_eq!(found(&table), Err(ScrapeFailure::Unknown));
    assert_eq!(found(&Table::default()), Err(ScrapeFailure::Unknown));
}

#[test]
fn an_endpoint_that_does_not_answer_is_asked_no_further() {
    for failure in [ScrapeFailure::Connect, ScrapeFailure::Timeout] {
        let table = Table::default().with("/v1/models", Err(failure)).with("/metrics", VLLM);
        assert_eq!(found(&table), Err(failure));
        assert_eq!(table.asked.lock().unwrap().len(), 1);
    }
}

#[test]
fn a_page_that_hangs_does_not_hide_who_answers() {
    let table = Table::default().owned_by("vllm").with("/metrics", Err(ScrapeFailure::Timeout));
    assert_eq!(found(&table), Ok(Dialect::Vllm));
    let table = Table::default().owned_by("a-maker").with("/metrics", Err(ScrapeFailure::Timeout));
    assert_eq!(found(&table), Err(ScrapeFailure::Timeout), "it may have one");
}

#[test]
fn a_list_behind_a_key_does_not_hide_the_metrics() {
    let table = Table::default().with("/v1/models", Err(ScrapeFailure::Status(401))).with("/metrics", VLLM);
    assert_eq!(found(&table), Ok(Dialect::Vllm));
}

#[test]
fn tritons_frontend_for_openais_api_has_its_metrics_beside_it() {
    let frontend = Table::default().owned_by("Triton Inference Server");
    let frontend = frontend.with("/metrics", Ok("nv_inference_pending_request_count 1\n"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let found = runtime.block_on(find(&ScrapeTarget::new((), AT), &frontend)).unwrap();
    assert_eq!(found.dialect, Dialect::Triton);
    let engine = Engine::new(&ScrapeTarget::new((), AT), found).unwrap();
    assert_eq!(engine.metrics.unwrap().uri(), &*format!("{AT}/metrics"));
    assert_eq!((engine.listing, engine.models.uri().path()), (Dialect::Openai, "/v1/models"));
}

#[test]
fn another_programs_page_at_tritons_port_is_not_asked() {
    let table = Table::default().owned_by("a-maker");
    assert_eq!(found(&table), Ok(Dialect::Openai));
    let asked = table.asked.lock().unwrap();
    assert!(asked.iter().all(|url| url.starts_with(AT)), "{asked:?}");
}

#[test]
fn the_users_page_is_asked_once() {
    let table = Table::default();
    let target =
        ScrapeTarget { metrics_url: Some("http://exporter/m".to_owned()), ..ScrapeTarget::new((), AT) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let failure = runtime.block_on(find(&target, &table)).unwrap_err();
    assert_eq!(failure, ScrapeFailure::Unknown);
    let asked = table.asked.lock().unwrap();
    assert_eq!(asked.iter().filter(|url| *url == "http://exporter/m").count(), 1);
}
