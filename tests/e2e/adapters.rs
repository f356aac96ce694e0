//! LoRA adapters that engines gain and lose while they run.

use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, MODEL, completion, json, model_missing, models, response};
use forebay_tests::config::Config;
use forebay_tests::exposition;
use forebay_tests::gateway::Gateway;
use forebay_tests::{http1, wait};
use tokio::time::Instant;

use crate::common::{openai_error, wait_endpoints};
use crate::traffic::Traffic;

const ADAPTER: &str = "sql-tuned";
/// From one look at an endpoint's models to the next.
const POLL: Duration = Duration::from_millis(300);

/// An engine that serves its base model and these adapters, and lists them.
fn serve(backend: &Backend, adapters: &[&str]) {
    answer_only(backend, adapters);
    list(backend, adapters);
}

fn list(backend: &Backend, adapters: &[&str]) {
    let all: Vec<_> =
        std::iter::once((MODEL, None)).chain(adapters.iter().map(|name| (*name, Some(MODEL)))).collect();
    backend.set_page("/v1/models", models(&all));
}

fn answer_only(backend: &Backend, adapters: &[&str]) {
    let known: Vec<String> = std::iter::once(&MODEL).chain(adapters).map(ToString::to_string).collect();
    backend.script(move |r: &RequestLog| {
        let model = r.json()["model"].as_str().unwrap_or_default().to_string();
        if known.contains(&model) {
            json("200 OK", &completion(&model, 12, 30))
        } else {
            model_missing(&model)
        }
    });
}

async fn two() -> [Backend; 2] {
    let backends = [Backend::start(|_| Vec::new()).await, Backend::start(|_| Vec::new()).await];
    backends.iter().for_each(|backend| serve(backend, &[]));
    backends
}

async fn before(backends: &[Backend]) -> Gateway {
    let urls: Vec<String> = backends.iter().map(Backend::url).collect();
    let config = Config::new()
        .pool(
            "chat",
            MODEL,
            urls.iter().map(String::as_str),
            "scrape: {interval_min: 50ms, interval_max: 100ms, models_interval: 300ms}",
        )
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, u32::try_from(backends.len()).unwrap()).await;
    gateway
}

fn asked(model: &str) -> Vec<u8> {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#).into_bytes()
}

/// How many requests for this model came here.
fn count(backend: &Backend, model: &str) -> usize {
    backend.requests().iter().filter(|r| r.json()["model"] == model).count()
}

async fn wait_listed(gateway: &Gateway, model: &str, listed: bool) {
    wait::until_async(&format!("{model} to be listed: {listed}"), async || {
        (gateway.get(&format!("/v1/models/{model}")).await.status() == if listed { 200 } else { 404 })
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b38_an_adapter_is_asked_for_where_it_is() {
    let backends = two().await;
    serve(&backends[0], &[ADAPTER]);
    let gateway = before(&backends).await;
    wait_listed(&gateway, ADAPTER, true).await;
    let card = gateway.get(&format!("/v1/models/{ADAPTER}")).await.json();
    assert_eq!(card["parent"], MODEL);
    for _ in 0..40 {
        let response = gateway.post(CHAT, &asked(ADAPTER)).await;
        assert_eq!(response.status(), 200, "{}", response.text());
        assert_eq!(response.json()["model"], ADAPTER);
        assert_eq!(gateway.post(CHAT, &asked(MODEL)).await.status(), 200);
    }
    assert_eq!((count(&backends[0], ADAPTER), count(&backends[1], ADAPTER)), (40, 0));
    assert!(count(&backends[1], MODEL) > 0, "the base model is everywhere");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b38_an_adapter_that_moves_is_followed() {
    let backends = two().await;
    serve(&backends[0], &[ADAPTER]);
    let gateway = before(&backends).await;
    wait_listed(&gateway, ADAPTER, true).await;
    let traffic = Traffic::start(gateway.addr(), 4, |_| asked(ADAPTER));
    wait::until("some answers", || (traffic.count() > 50).then_some(())).await;
    let moved = Instant::now();
    serve(&backends[1], &[ADAPTER]);
    serve(&backends[0], &[]);
    let url = backends[1].url();
    wait::until("answers of the other", || {
        (traffic.answers().iter().filter(|a| a.endpoint == url && a.is_good()).count() > 100).then_some(())
    })
    .await;
    let answers = traffic.stop().await;
    assert!(answers.iter().filter(|a| a.started < moved && a.ended < moved).all(|a| a.status == 200));
    // Within one look at the lists nobody can know; then nobody notices any more.
    let late: Vec<_> = answers.iter().filter(|a| a.status != 200).collect();
    for answer in late {
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(answer.started - moved < POLL + Duration::from_millis(500), "{:?}", answer.started - moved);
    }
    // And back.
    serve(&backends[0], &[ADAPTER]);
    serve(&backends[1], &[]);
    wait::until_async("the adapter to be back", async || {
        (gateway.post(CHAT, &asked(ADAPTER)).await.status() == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b38_a_404_for_an_adapter_is_tried_at_another_that_has_it() {
    let backends = two().await;
    backends.iter().for_each(|backend| serve(backend, &[ADAPTER]));
    let gateway = before(&backends).await;
    wait_listed(&gateway, ADAPTER, true).await;
    wait::until_async("both to list it", async || {
        let list = gateway.admin_json("/api/v1/endpoints").await;
        let has = |e: &serde_json::Value| e["adapters"]["listed"] == serde_json::json!([ADAPTER]);
        list["endpoints"].as_array().unwrap().iter().all(has).then_some(())
    })
    .await;
    // Gone where it was loaded, and that list is not looked at before the next request.
    assert_eq!(gateway.post(CHAT, &asked(ADAPTER)).await.status(), 200);
    let here = usize::from(count(&backends[1], ADAPTER) > 0);
    let (lost, kept) = (&backends[here], &backends[1 - here]);
    answer_only(lost, &[]);
    for n in 0..40 {
        let response = gateway.post(CHAT, &asked(ADAPTER)).await;
        assert_eq!(response.status(), 200, "request {n}: {}", response.text());
    }
    assert_eq!(count(kept, ADAPTER), 40, "each was answered once");
    let missed = count(lost, ADAPTER) - 1;
    assert!(missed >= 1, "nobody was sent where it is missing: no proof");
    assert_eq!(gateway.metric("forebay_retries_total", &[("reason", "model_missing")]).await, missed as f64);
    // Once its list says so as well, it is not asked any more.
    list(lost, &[]);
    wait::until_async("the list to be read", async || {
        let page = gateway.admin_json("/api/v1/endpoints").await;
        let its = page["endpoints"].as_array().unwrap().iter().find(|e| e["url"] == lost.url().as_str());
        (its.unwrap()["adapters"]["listed"] == serde_json::json!([])).then_some(())
    })
    .await;
    let before = count(lost, ADAPTER);
    for _ in 0..20 {
        assert_eq!(gateway.post(CHAT, &asked(ADAPTER)).await.status(), 200);
    }
    assert_eq!(count(lost, ADAPTER), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b38_an_adapter_that_nobody_has_is_404() {
    let backends = two().await;
    serve(&backends[0], &[ADAPTER]);
    let gateway = before(&backends).await;
    let why = openai_error(&gateway.post(CHAT, &asked("fr-tuned")).await, 404);
    assert!(why.contains("fr-tuned"), "{why}");
    wait_listed(&gateway, ADAPTER, true).await;
    assert_eq!(gateway.post(CHAT, &asked(ADAPTER)).await.status(), 200);
    serve(&backends[0], &[]);
    wait_listed(&gateway, ADAPTER, false).await;
    let response = gateway.post(CHAT, &asked(ADAPTER)).await;
    openai_error(&response, 404);
    assert_eq!(response.json()["error"]["code"], "model_not_found");
    // A 404 is not remembered: once it is there, it is found.
    serve(&backends[1], &[ADAPTER]);
    wait_listed(&gateway, ADAPTER, true).await;
    assert_eq!(gateway.post(CHAT, &asked(ADAPTER)).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b38_the_newest_of_several_series_tells_what_is_loaded() {
    let backends = two().await;
    let page = |newest: &str, stale: [&str; 2]| {
        let series = |running: &str, at: f64| {
            format!(
                "vllm:lora_requests_info{{max_lora=\"1\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"\"}} {at:?}\n"
            )
        };
        let text = format!(
            "vllm:num_requests_running{{model_name=\"tide-7b\"}} 0.0\n{}{}{}",
            series(stale[0], 1.700_000_001e9),
            series(newest, 1.700_000_900e9),
            series(stale[1], 1.700_000_500e9),
        );
        vec![Step::send(response("200 OK", &[("Content-Type", "text/plain")], text.as_bytes()))]
    };
    for backend in &backends {
        serve(backend, &[ADAPTER, "fr"]);
    }
    backends[0].set_page("/metrics", page("fr", [ADAPTER, ADAPTER]));
    backends[1].set_page("/metrics", page(ADAPTER, ["fr", "fr"]));
    let gateway = before(&backends).await;
    wait_listed(&gateway, ADAPTER, true).await;
    wait::until_async("what is loaded to be known", async || {
        let list = gateway.admin_json("/api/v1/endpoints").await;
        let loaded = |i: usize| {
            let its =
                list["endpoints"].as_array().unwrap().iter().find(|e| e["url"] == backends[i].url().as_str());
            its.unwrap()["adapters"]["loaded"].clone()
        };
        (loaded(0) == serde_json::json!(["fr"]) && loaded(1) == serde_json::json!([ADAPTER])).then_some(())
    })
    .await;
    for _ in 0..20 {
        assert_eq!(gateway.post(CHAT, &asked(ADAPTER)).await.status(), 200);
        assert_eq!(gateway.post(CHAT, &asked("fr")).await.status(), 200);
    }
    // Loading takes longer than anything else here.
    assert_eq!((count(&backends[0], ADAPTER), count(&backends[1], ADAPTER)), (0, 20));
    assert_eq!((count(&backends[0], "fr"), count(&backends[1], "fr")), (20, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b38_adapters_that_come_and_go_leave_nothing_behind() {
    // Forty generations of five adapters: two hundred loads and unloads.
    const GENERATIONS: usize = 40;
    let backends = two().await;
    let gateway = before(&backends).await;
    let churn = async |from: usize, to: usize| {
        for generation in from..to {
            let names: Vec<String> = (0..5).map(|n| format!("gen{generation}-lora{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let there = generation % 2;
            serve(&backends[there], &names);
            serve(&backends[1 - there], &[]);
            wait_listed(&gateway, names[4], true).await;
            for name in names {
                let response = gateway.post(CHAT, &asked(name)).await;
                assert_eq!(response.status(), 200, "{name}: {}", response.text());
            }
        }
    };
    churn(0, 4).await;
    let series = |page: &str| exposition::parse(page).len();
    let (page, threads, memory) = (gateway.metrics().await, gateway.threads(), gateway.resident_bytes());
    churn(4, GENERATIONS).await;
    let after = gateway.metrics().await;
    assert!(!after.contains("lora"), "{}", after.lines().find(|l| l.contains("lora")).unwrap_or_default());
    // A code or an outcome may be new; an adapter has dozens of series.
    assert!(series(&after) <= series(&page) + 8, "{} series, then {}", series(&page), series(&after));
    assert_eq!(gateway.threads(), threads);
    let grown = gateway.resident_bytes() as f64 / memory as f64;
    assert!(grown < 1.25, "resident memory is {grown} times what it was");
    wait::until_async("the adapters before to be gone", async || {
        let list = gateway.get("/v1/models").await;
        (http1::count(&list.body, b"lora") == 5).then_some(())
    })
    .await;
}
