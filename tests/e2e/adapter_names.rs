//! Adapters under other names than their own: aliases of them, the way SGLang
//! addresses them, and one name in two pools.

use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{
    CHAT, DONE, MODEL, chunk_of, completion, events, json, model_missing, models, response, stream,
};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::wait;
use serde_json::json as value;

use crate::common::{openai_error, wait_endpoints};

const SCRAPE: &str = "scrape: {interval_min: 50ms, interval_max: 100ms, models_interval: 300ms}";

/// An answer under the name that was asked for.
fn answer(r: &RequestLog) -> Vec<Step> {
    let model = r.json()["model"].as_str().unwrap_or_default().to_string();
    if r.asks_for_stream() {
        let pieces = [chunk_of(&model, "a"), chunk_of(&model, "b"), DONE.to_vec()];
        return stream(&pieces, Duration::ZERO);
    }
    json("200 OK", &completion(&model, 12, 30))
}

/// Lists `base` and these adapters.
fn list(backend: &Backend, base: &str, adapters: &[&str]) {
    let all: Vec<_> =
        std::iter::once((base, None)).chain(adapters.iter().map(|name| (*name, Some(base)))).collect();
    backend.set_page("/v1/models", models(&all));
}

/// An engine that knows its adapters by their names, and nothing else.
async fn by_name(base: &'static str, adapters: &[&str]) -> Backend {
    let backend = Backend::start(|_| Vec::new()).await;
    list(&backend, base, adapters);
    let known: Vec<String> = std::iter::once(&base).chain(adapters).map(ToString::to_string).collect();
    backend.script(move |r: &RequestLog| {
        let model = r.json()["model"].as_str().unwrap_or_default().to_string();
        if known.contains(&model) { answer(r) } else { model_missing(&model) }
    });
    backend
}

/// SGLang: whatever it is asked for, it answers; only `BASE:ADAPTER` takes an
/// adapter, and one that is not loaded is an error of the client's.
async fn sglang(adapters: &[&str]) -> Backend {
    let backend = Backend::start(|_| Vec::new()).await;
    list(&backend, MODEL, adapters);
    let load = "sglang:num_running_reqs{model_name=\"tide-7b\"} 0.0\nsglang:num_queue_reqs{model_name=\"tide-7b\"} 0.0\n";
    let page = response("200 OK", &[("Content-Type", "text/plain")], load.as_bytes());
    backend.set_page("/metrics", vec![Step::send(page)]);
    loaded(&backend, adapters);
    backend
}

fn loaded(backend: &Backend, adapters: &[&str]) {
    let loaded: Vec<String> = adapters.iter().map(ToString::to_string).collect();
    backend.script(move |r: &RequestLog| {
        let model = r.json()["model"].as_str().unwrap_or_default().to_string();
        match model.split_once(':') {
            Some((_, adapter)) if !loaded.iter().any(|name| name == adapter) => {
                let body = format!(
                    r#"{{"object":"error","message":"The following requested LoRA adapters are not loaded: {adapter}\nLoaded adapters: dict_keys([]).","type":"BadRequestError","param":null,"code":400}}"#
                );
                json("400 Bad Request", body.replace('\n', "\\n").as_bytes())
            }
            _ => answer(r),
        }
    });
}

async fn before(config: Config, endpoints: u32) -> Gateway {
    let gateway = Gateway::start(&config.with("response_headers: {endpoint: true}")).await;
    wait_endpoints(&gateway, endpoints).await;
    gateway
}

/// Waits until what is known of each endpoint's adapters is this.
async fn wait_lists(gateway: &Gateway, lists: &[(&Backend, &[&str])]) {
    wait::until_async("the lists to be known", async || {
        let page = gateway.admin_json("/api/v1/endpoints").await;
        let endpoints = page["endpoints"].as_array().unwrap();
        let has = |(backend, adapters): &(&Backend, &[&str])| {
            let mut of = endpoints.iter().filter(|e| e["url"] == backend.url().as_str());
            of.all(|endpoint| endpoint["adapters"]["listed"] == value!(adapters))
        };
        lists.iter().all(has).then_some(())
    })
    .await;
}

async fn wait_engine(gateway: &Gateway, engine: &str) {
    wait::until_async("the engine to be found out", async || {
        let page = gateway.admin_json("/api/v1/endpoints").await;
        page["endpoints"].as_array().unwrap().iter().any(|e| e["engine"] == engine).then_some(())
    })
    .await;
}

fn asked(model: &str, stream: bool) -> String {
    format!(
        r#"{{"messages":[{{"role":"user","content":"hi {model}"}}], "model" : "{model}","stream":{stream}}}"#
    )
}

/// Asks for a model, streamed and not; both answers must be under that name.
async fn ask_both(gateway: &Gateway, model: &str) {
    for stream in [false, true] {
        let response = gateway.post(CHAT, asked(model, stream).as_bytes()).await;
        assert_eq!(response.status(), 200, "{model}: {}", response.text());
        if stream {
            let events = events(&response.body);
            assert_eq!(events.len(), 3, "{events:?}");
            for event in &events[..2] {
                let event: serde_json::Value = serde_json::from_str(event).unwrap();
                assert_eq!(event["model"], model);
            }
        } else {
            assert_eq!(response.json()["model"], model);
        }
    }
}

fn sent(backend: &Backend, model: &str) -> usize {
    backend.requests().iter().filter(|r| r.json()["model"] == model).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b38_an_alias_of_an_adapter_goes_where_the_adapter_is() {
    let backends = [by_name(MODEL, &["sql-a"]).await, by_name(MODEL, &["sql-b"]).await];
    let urls = backends.each_ref().map(Backend::url);
    let config = Config::new()
        .pool("chat", MODEL, urls.iter().map(String::as_str), &format!("adapters: [sql-a, sql-b]\n{SCRAPE}"))
        .with(
            "models:\n\
             \x20 - {name: sql, targets: [{model: sql-a, weight: 3}, {model: sql-b, weight: 1}]}\n\
             \x20 - {name: only-a, target: sql-a}",
        );
    let gateway = before(config, 2).await;
    wait_lists(&gateway, &[(&backends[0], &["sql-a"]), (&backends[1], &["sql-b"])]).await;
    for _ in 0..20 {
        ask_both(&gateway, "only-a").await;
        ask_both(&gateway, "sql").await;
    }
    let [a, b] = backends.each_ref().map(|backend| [sent(backend, "sql-a"), sent(backend, "sql-b")]);
    assert_eq!((a[1], b[0]), (0, 0), "each only where it is");
    assert_eq!(a[0] + b[1], 80);
    assert!(b[1] > 0, "nobody drew the second target");
    assert_eq!(gateway.metric("forebay_retries_total", &[("reason", "model_missing")]).await, 0.0);
    let decision = gateway.admin_json("/api/v1/decisions?last=1").await["decisions"][0]["model"].clone();
    assert!(decision == "sql-a" || decision == "sql-b", "{decision}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sglang_is_asked_for_an_adapter_on_its_base() {
    for engine in ["sglang", "auto"] {
        let backend = sglang(&["sql"]).await;
        let config = Config::new()
            .pool("chat", MODEL, [backend.url().as_str()], &format!("engine: {engine}\n{SCRAPE}"))
            .with("models: [{name: my-sql, target: tide-7b}]");
        let gateway = before(config, 1).await;
        wait_lists(&gateway, &[(&backend, &["sql"])]).await;
        wait_engine(&gateway, "sglang").await;
        let before = backend.count();
        ask_both(&gateway, "sql").await;
        ask_both(&gateway, "tide-7b:sql").await;
        ask_both(&gateway, MODEL).await;
        ask_both(&gateway, "my-sql").await;
        // Only the name is another one.
        let got: Vec<String> =
            backend.requests()[before..].iter().map(|r| String::from_utf8(r.body.clone()).unwrap()).collect();
        let mut wanted = Vec::new();
        for (name, as_sent) in
            [("sql", "tide-7b:sql"), ("tide-7b:sql", "tide-7b:sql"), (MODEL, MODEL), ("my-sql", MODEL)]
        {
            for stream in [false, true] {
                let named = |name: &str| format!(r#""model" : "{name}""#);
                wanted.push(asked(name, stream).replace(&named(name), &named(as_sent)));
            }
        }
        assert_eq!(got, wanted, "{engine}");
        let edits = gateway.admin_json("/api/v1/status").await["body_edits"].clone();
        let of_adapters = edits.as_array().unwrap().iter().find(|e| e["model"] == "adapters of tide-7b");
        let reason = of_adapters.unwrap()["reason"].as_str().unwrap();
        assert!(reason.contains("SGLang is sent tide-7b:ADAPTER"), "{engine}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_endpoint_is_asked_in_its_own_way() {
    let backends = [by_name(MODEL, &["sql"]).await, sglang(&["sql"]).await];
    let urls = backends.each_ref().map(Backend::url);
    let own = format!("policy: round_robin\n{SCRAPE}");
    let config = Config::new().pool("chat", MODEL, urls.iter().map(String::as_str), &own);
    let gateway = before(config, 2).await;
    wait_engine(&gateway, "sglang").await;
    wait_lists(&gateway, &[(&backends[0], &["sql"]), (&backends[1], &["sql"])]).await;
    for _ in 0..6 {
        ask_both(&gateway, "sql").await;
        ask_both(&gateway, "tide-7b:sql").await;
    }
    assert_eq!((sent(&backends[0], "sql"), sent(&backends[0], "tide-7b:sql")), (12, 0));
    assert_eq!((sent(&backends[1], "sql"), sent(&backends[1], "tide-7b:sql")), (0, 12));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b38_an_adapter_that_an_endpoint_lost_is_asked_for_elsewhere_in_that_ones_way() {
    let backends = [by_name(MODEL, &["sql"]).await, sglang(&["sql"]).await];
    let urls = backends.each_ref().map(Backend::url);
    let config = Config::new().pool(
        "chat",
        MODEL,
        urls.iter().map(String::as_str),
        // Lists are read once, and again when asked for.
        "policy: round_robin\nscrape: {interval_min: 50ms, interval_max: 100ms, models_interval: 1h}",
    );
    let gateway = before(config, 2).await;
    wait_engine(&gateway, "sglang").await;
    wait_lists(&gateway, &[(&backends[0], &["sql"]), (&backends[1], &["sql"])]).await;
    // The first loses it: 404, and SGLang is asked in its own way.
    backends[0].script(|r| model_missing(r.json()["model"].as_str().unwrap_or_default()));
    for _ in 0..4 {
        ask_both(&gateway, "sql").await;
    }
    let missed = sent(&backends[0], "sql");
    assert!(missed > 0, "nobody was sent where it is missing: no proof");
    assert_eq!(sent(&backends[1], "tide-7b:sql"), 8);
    // The other way round: SGLang says so with 400.
    backends[0].script(answer);
    loaded(&backends[1], &[]);
    for _ in 0..4 {
        ask_both(&gateway, "sql").await;
    }
    let missed_there = sent(&backends[1], "tide-7b:sql") - 8;
    assert!(missed_there > 0, "nobody was sent where it is missing: no proof");
    assert_eq!(sent(&backends[0], "sql"), missed + 8);
    let retried = gateway.metric("forebay_retries_total", &[("reason", "model_missing")]).await;
    assert_eq!(retried, (missed + missed_there) as f64);
    // Another error of the client's is the client's.
    let wrong = r#"{"object":"error","message":"max_tokens is too large","type":"BadRequestError","param":null,"code":400}"#;
    for backend in &backends {
        backend.script(move |_| json("400 Bad Request", wrong.as_bytes()));
    }
    let tried = backends.each_ref().map(Backend::count).iter().sum::<usize>();
    for _ in 0..4 {
        let response = gateway.post(CHAT, asked("sql", false).as_bytes()).await;
        assert_eq!((response.status(), response.text().as_str()), (400, wrong));
    }
    assert_eq!(backends.each_ref().map(Backend::count).iter().sum::<usize>(), tried + 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_two_pools_list_is_served_by_whoever_still_has_it() {
    const OCEAN: &str = "ocean-70b";
    let tide = by_name(MODEL, &["sql"]).await;
    let oceans = [by_name(OCEAN, &["sql"]).await, by_name(OCEAN, &[]).await];
    let urls = oceans.each_ref().map(Backend::url);
    let config = Config::new().pool("tide", MODEL, [tide.url().as_str()], SCRAPE).pool(
        "ocean",
        OCEAN,
        urls.iter().map(String::as_str),
        SCRAPE,
    );
    let gateway = before(config, 3).await;
    wait_lists(&gateway, &[(&tide, &["sql"]), (&oceans[0], &["sql"]), (&oceans[1], &[])]).await;
    ask_both(&gateway, "tide-7b:sql").await;
    ask_both(&gateway, "ocean-70b:sql").await;
    assert_eq!((sent(&tide, "sql"), sent(&oceans[0], "sql")), (2, 2));
    // Whichever list was read first, that pool has the plain name; it loses it.
    ask_both(&gateway, "sql").await;
    let first_is_tide = sent(&tide, "sql") == 4;
    let (loser, keeper) = if first_is_tide { (&tide, &oceans[0]) } else { (&oceans[0], &tide) };
    let base = if first_is_tide { MODEL } else { OCEAN };
    let kept = sent(keeper, "sql");
    list(loser, base, &[]);
    wait_lists(&gateway, &[(loser, &[])]).await;
    for _ in 0..10 {
        ask_both(&gateway, "sql").await;
    }
    assert_eq!(sent(keeper, "sql"), kept + 20);
    assert_eq!(sent(&oceans[1], "sql"), 0, "it is not there");
    openai_error(&gateway.post(CHAT, asked(&format!("{base}:sql"), false).as_bytes()).await, 404);
    let other = if first_is_tide { OCEAN } else { MODEL };
    assert_eq!(gateway.get("/v1/models/sql").await.json()["parent"], other);
}
