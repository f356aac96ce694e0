use std::sync::Arc;

use forebay_admin::StatusSource;
use forebay_config::{Config, Endpoint, Listener, Pool};
use forebay_core::{Prefix, RequestFacts};
use forebay_fleet::{Identity, Membership};
use forebay_wire::signals::{Counters, CustomSignal, Dialect, Gpu, ResidentModel, Signals};
use tokio::time::Instant;

use super::*;
use crate::gateway::Gateway;

const READY: EndpointPatch = EndpointPatch { state: Some(OperatorState::Ready), weight: None };
const DRAINING: EndpointPatch = EndpointPatch { state: Some(OperatorState::Draining), weight: None };
const DISABLED: EndpointPatch = EndpointPatch { state: Some(OperatorState::Disabled), weight: None };

/// A gateway before two endpoints that nobody looks at; `change` may alter the pool.
fn gateway(change: impl FnOnce(&mut Pool)) -> Gateway {
    let mut pool = Pool::new("chat", "tide-7b");
    pool.health.enabled = false;
    pool.scrape.enabled = false;
    for port in [1, 2] {
        pool.endpoints.push(Endpoint::new(format!("http://127.0.0.1:{port}").parse().unwrap()));
    }
    change(&mut pool);
    let free = ([127, 0, 0, 1], 0).into();
    let config = Config {
        listen: vec![Listener { address: free, client_half_close: false }],
        admin: free,
        workers: 1,
        pools: vec![pool],
        ..Config::default()
    };
    Gateway::start(config, None, Some(1)).map_err(|e| e.to_string()).unwrap()
}

/// The gateway ends with the runtime it would drain on.
async fn end(gateway: Gateway) {
    gateway.proxy().set_phase(forebay_proxy::DrainPhase::Closing);
    drop(gateway);
}

fn states(page: &StatusPage) -> Vec<String> {
    page.pools()[0].endpoints.iter().map(|endpoint| endpoint.state.clone()).collect()
}

fn key(page: &StatusPage, id: &str) -> EndpointKey {
    let views = page.proxy.live().endpoints();
    views.iter().map(|view| view.key).find(|key| endpoint_id(*key) == id).unwrap()
}

fn words(policy: &str, profile: &str, shadow: Option<Option<&str>>) -> PoolPatch {
    let word = |word: &str| (!word.is_empty()).then(|| word.to_owned());
    PoolPatch {
        policy: word(policy),
        profile: word(profile),
        shadow_policy: shadow.map(|shadow| shadow.map(str::to_owned)),
    }
}

/// Sends a request to wherever it is sent, and forgets it.
async fn decide(page: &StatusPage) {
    let prefix = Prefix { chain: Arc::from([1, 2, 3]), block_tokens: 64.0, ..Prefix::default() };
    let facts = RequestFacts { prompt_tokens: 200, output_tokens: 20, prefix, ..RequestFacts::default() };
    drop(page.proxy.live().admit(facts).await.unwrap());
}

#[tokio::test]
async fn what_an_operator_decides_stands_above_what_probes_find() {
    let gateway = gateway(|_| {});
    let page = Arc::clone(gateway.page());
    let first = page.pools()[0].endpoints[0].id.clone();
    let id = key(&page, &first);
    assert_eq!(states(&page), ["ready", "ready"]);

    assert_eq!(page.patch_endpoint(&first, &DRAINING).unwrap().state, "draining");
    page.members.set_state(id, EndpointState::Unready);
    page.members.set_state(id, EndpointState::Ready);
    assert_eq!(states(&page), ["draining", "ready"]);
    let drained = r#"endpoint_state{pool="chat",endpoint="http://127.0.0.1:1",state="draining"} 1"#;
    assert!(page.metrics().contains(drained));
    for _ in 0..4 {
        decide(&page).await;
    }
    assert!(page.decisions(4).iter().all(|decision| decision.endpoint.ends_with(":2")));

    assert_eq!(page.patch_endpoint(&first, &DISABLED).unwrap().state, "disabled");
    page.members.set_state(id, EndpointState::Unready);
    assert_eq!(states(&page)[0], "disabled");
    // Back under its probes, which found it down meanwhile.
    assert_eq!(page.patch_endpoint(&first, &READY).unwrap().state, "unready");
    page.members.set_state(id, EndpointState::Ready);
    assert_eq!(states(&page), ["ready", "ready"]);
    end(gateway).await;
}

#[tokio::test]
async fn an_endpoint_that_nobody_probes_comes_back_as_it_was() {
    let gateway = gateway(|_| {});
    let page = Arc::clone(gateway.page());
    let first = page.pools()[0].endpoints[0].id.clone();
    for taken_out in [DRAINING, DISABLED] {
        page.patch_endpoint(&first, &taken_out).unwrap();
        page.patch_endpoint(&first, &taken_out).unwrap();
        assert_eq!(page.ready().pools[0].ready, 1);
        assert_eq!(page.patch_endpoint(&first, &READY).unwrap().state, "ready");
    }
    assert_eq!(page.patch_endpoint("0.7.0", &READY), Err(ControlError::Unknown));
    assert_eq!(page.patch_endpoint("", &READY), Err(ControlError::Unknown));
    end(gateway).await;
}

#[tokio::test]
async fn a_change_that_cannot_be_made_whole_changes_nothing() {
    let gateway = gateway(|_| {});
    let page = Arc::clone(gateway.page());
    let first = page.pools()[0].endpoints[0].id.clone();
    let heavier = EndpointPatch { weight: Some(2.5), ..EndpointPatch::default() };
    assert_eq!(page.patch_endpoint(&first, &heavier).unwrap().weight, 2.5);
    assert_eq!(states(&page), ["ready", "ready"]);

    let field = |patch| match page.patch_pool("chat", &patch) {
        Err(ControlError::Invalid { field, allowed }) => (field, allowed),
        other => panic!("{other:?}"),
    };
    assert_eq!(field(words("best", "", None)).0, "policy");
    assert!(field(words("best", "", None)).1.contains(&"least_work"));
    assert_eq!(
        field(words("random", "best", None)),
        ("profile", vec!["balanced", "lean", "goodput", "batch"])
    );
    assert_eq!(field(words("random", "lean", Some(Some("best")))).0, "shadow_policy");
    assert_eq!(page.patch_pool("embed", &words("random", "", None)), Err(ControlError::Unknown));
    let pool = &page.pools()[0];
    assert_eq!((pool.policy.as_str(), pool.profile.as_str()), ("predictive", "balanced"));
    end(gateway).await;
}

#[tokio::test]
async fn a_pool_decides_by_its_new_policy_at_once_and_the_shadow_is_counted_anew() {
    let gateway = gateway(|pool| pool.shadow_policy = Some(PolicyKind::RoundRobin));
    let page = Arc::clone(gateway.page());
    decide(&page).await;
    let shadow = page.pools()[0].shadow.clone().unwrap();
    assert_eq!((shadow.policy.as_str(), shadow.asked), ("round_robin", 1));

    let pool = page.patch_pool("chat", &words("least_work", "lean", Some(Some("random")))).unwrap();
    assert_eq!((pool.policy.as_str(), pool.profile.as_str()), ("least_work", "lean"));
    let shadow = pool.shadow.unwrap();
    assert_eq!((shadow.policy.as_str(), shadow.asked, shadow.agreement), ("random", 0, None));
    decide(&page).await;
    let newest = &page.decisions(1)[0];
    assert_eq!((newest.policy.as_str(), newest.model.as_str()), ("least_work", "tide-7b"));
    assert!(newest.shadow.is_some());
    let shadow = page.pools()[0].shadow.clone().unwrap();
    assert!(shadow.asked == 1 && shadow.agreement.is_some());
    let metrics = page.metrics();
    for name in
        ["agreement_total{pool=\"chat\",agreed=", "price_difference_seconds_total{pool=\"chat\",than_chosen="]
    {
        assert!(metrics.contains(&format!("forebay_shadow_{name}")), "{name}\n{metrics}");
    }

    // Compared with another policy it is counted anew; what changes nothing goes on.
    let asked = |patch| page.patch_pool("chat", &patch).unwrap().shadow.unwrap().asked;
    assert_eq!(asked(words("least_work", "", Some(Some("random")))), 1);
    assert_eq!(asked(words("least_request", "", None)), 0);
    decide(&page).await;
    assert_eq!(asked(words("", "lean", None)), 1);
    assert_eq!(asked(words("", "batch", None)), 0);
    page.patch_pool("chat", &words("least_work", "lean", None)).unwrap();

    // What is not named stays, and the shadow policy can go.
    let pool = page.patch_pool("chat", &words("", "", Some(None))).unwrap();
    assert_eq!((pool.policy.as_str(), pool.profile.as_str(), pool.shadow), ("least_work", "lean", None));
    decide(&page).await;
    assert_eq!(page.decisions(1)[0].shadow, None);
    assert!(!page.metrics().contains("forebay_shadow_"), "nothing is compared any more");
    end(gateway).await;
}

#[tokio::test]
async fn a_decision_carries_the_price_of_every_candidate() {
    let gateway = gateway(|_| {});
    let page = Arc::clone(gateway.page());
    decide(&page).await;
    let decisions = page.decisions(10);
    let [decision] = decisions.as_slice() else { panic!("{decisions:?}") };
    assert_eq!((decision.prompt_tokens, decision.output_tokens, decision.candidates), (200, 20, 2));
    let mut priced: Vec<&str> = decision.candidates_priced.iter().map(|c| c.endpoint.as_str()).collect();
    assert_eq!(priced[0], decision.endpoint);
    priced.sort_unstable();
    assert_eq!(priced, ["http://127.0.0.1:1", "http://127.0.0.1:2"]);
    for candidate in &decision.candidates_priced {
        let ttft = candidate.wait_ms + candidate.prefill_ms + candidate.fixed_ms;
        assert!((candidate.ttft_ms - ttft).abs() < 0.01 && candidate.total_ms > 0.0, "{candidate:?}");
    }
    end(gateway).await;
}

#[tokio::test]
async fn everything_that_is_told_of_an_endpoint_is_shown() {
    let gateway = gateway(|pool| {
        let signal =
            CustomSignal { metric: "depth".to_owned(), labels: Vec::new(), combine: Default::default() };
        for name in ["depth", "unknown"] {
            let signal = signal.clone();
            pool.signals.push(forebay_config::NamedSignal { name: name.to_owned(), signal });
        }
    });
    let page = Arc::clone(gateway.page());
    let first = page.pools()[0].endpoints[0].clone();
    assert_eq!(
        (first.engine.as_str(), first.signal_age_seconds, first.signals.running),
        ("auto", None, None)
    );
    let id = key(&page, &first.id);
    let mut signals = Signals {
        running: Some(3),
        kv_usage: Some(0.5),
        counters: Counters { prefix_queries: Some(100.0), prefix_hits: Some(80.0), ..Counters::default() },
        gpu: Gpu { temperature_c: Some(80.0), throttle: Some(0x20), ..Gpu::default() },
        skipped: 2,
        ..Signals::default()
    };
    signals.custom[0] = Some(4.0);
    signals.custom_missing[1] = true;
    page.members.detected(id, Dialect::Sglang);
    page.members.signals(id, Instant::now(), &signals);
    page.members.scrape_failed(id, "timeout");

    let first = page.pools()[0].endpoints[0].clone();
    assert_eq!(first.engine, "sglang");
    assert!(first.signal_age_seconds.is_some_and(|age| age >= 0.0));
    assert_eq!((first.signals.running, first.signals.prefix_hit), (Some(3), Some(0.8)));
    assert_eq!(first.signals.custom.into_iter().collect::<Vec<_>>(), [("depth".to_owned(), 4.0)]);
    assert_eq!((first.signals.missing, first.signals.unusable), (vec!["unknown".to_owned()], 2));
    assert_eq!((first.gpu.temperature_celsius, first.gpu.throttled), (Some(80.0), Some(true)));
    assert_eq!((first.scrapes.ok, first.scrapes.failed), (1, 1));
    assert_eq!(first.scrapes.last_failure.as_deref(), Some("timeout"));
    let text = page.metrics();
    for line in [
        r#"forebay_endpoint_running{pool="chat",endpoint="http://127.0.0.1:1"} 3"#,
        r#"forebay_endpoint_missing_signals{pool="chat",endpoint="http://127.0.0.1:1"} 1"#,
        r#"forebay_endpoint_unusable_values{pool="chat",endpoint="http://127.0.0.1:1"} 2"#,
        r#"forebay_endpoint_gpu_throttled{pool="chat",endpoint="http://127.0.0.1:1"} 1"#,
        r#"forebay_endpoint_scrapes_total{pool="chat",endpoint="http://127.0.0.1:1",result="failed"} 1"#,
        r#"forebay_endpoint_prefill_factor{pool="chat",endpoint="http://127.0.0.1:2"} 1"#,
        r#"forebay_policy_fallback{pool="chat"} 0"#,
        "forebay_prefix_index_blocks 0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains(r#"forebay_endpoint_running{pool="chat",endpoint="http://127.0.0.1:2"}"#));
    assert!(!text.contains(r#"forebay_endpoint_missing_signals{pool="chat",endpoint="http://127.0.0.1:2"}"#));
    assert!(
        !text.contains("forebay_decision_log_entries_total") && !text.contains("forebay_kv_events_total")
    );
    end(gateway).await;
}

#[tokio::test]
async fn a_rule_without_opinion_is_counted() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let gateway = gateway(|pool| {
        // Nobody has told how many run there.
        pool.rule = Some(forebay_config::Rule { filter: None, cost_ms: Some("running * 10".to_owned()) });
    });
    let page = Arc::clone(gateway.page());
    let count = |n: u32| format!("forebay_rule_without_opinion_total{{pool=\"chat\"}} {n}.0\n");
    assert!(page.metrics().contains(&count(0)));
    let body = r#"{"model":"tide-7b","prompt":"hello"}"#;
    let head =
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut stream = tokio::net::TcpStream::connect(gateway.listen()[0]).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    let metrics = page.metrics();
    assert!(metrics.contains(&count(2)), "one for each endpoint: {metrics}");
    assert!(!metrics.contains("forebay_tokenizer_prompts_total"), "it has none");
    end(gateway).await;
}

#[test]
fn what_is_disabled_is_left_in_peace() {
    let id = |slot| EndpointKey { gate: 0, id: forebay_core::EndpointId { slot, generation: 0 } };
    let pool = Pool::new("chat", "tide-7b");
    let endpoint = Endpoint::new("http://127.0.0.1:1".parse().unwrap());
    let target = |slot| Target {
        id: id(slot),
        url: String::new(),
        health: pool.health.clone(),
        key: None,
        paused: false,
    };
    let watched = Watched {
        probes: vec![target(0), target(1)],
        scrapes: [0, 1].map(|slot| crate::pools::scrape_target(id(slot), &pool, &endpoint)).into(),
    };
    let left = watched.without(|key| key == id(1));
    assert_eq!(left.probes[0], watched.probes[0]);
    assert_eq!(left.probes.iter().map(|target| target.paused).collect::<Vec<_>>(), [false, true]);
    assert_eq!(left.scrapes.iter().map(|target| target.id).collect::<Vec<_>>(), [id(0)]);
    assert_eq!(watched.without(|_| false).probes, watched.probes);
}

#[tokio::test]
async fn an_endpoint_with_another_model_is_out_and_its_adapters_are_nobodys() {
    let gateway = gateway(|_| {});
    let page = Arc::clone(gateway.page());
    let first = page.pools()[0].endpoints[0].id.clone();
    let id = key(&page, &first);
    let shown = || {
        let endpoint = page.pools()[0].endpoints[0].clone();
        (endpoint.state, endpoint.model_check.unwrap_or_default(), endpoint.adapters.listed)
    };
    let told = |state: &str, check: &str, adapters: &[&str]| {
        let adapters: Vec<String> = adapters.iter().map(|&name| name.to_owned()).collect();
        (state.to_owned(), check.to_owned(), adapters)
    };
    let model = |name: &str, parent: Option<&str>| ResidentModel {
        id: name.to_owned(),
        parent: parent.map(str::to_owned),
        ready: true,
    };
    page.members.set_state(id, EndpointState::Ready);
    assert_eq!(shown(), told("ready", "", &[]));
    page.members.identity(id, Identity::Doubtful);
    assert_eq!(shown(), told("starting", "checking", &[]));
    page.members.identity(id, Identity::Matches);
    page.members.models(id, &[model("tide-7b", None), model("legal", Some("tide-7b"))]);
    assert_eq!(shown(), told("ready", "listed", &["legal"]));
    page.members.identity(id, Identity::Mismatch { found: "reef-13b" });
    page.members.models(id, &[model("reef-13b", None), model("fish", Some("reef-13b"))]);
    assert_eq!(shown(), told("unready", "other", &[]));
    assert!(gateway.proxy().registry().adapter("fish").is_none(), "nobody can ask for it");
    page.members.identity(id, Identity::Unlisted);
    assert_eq!(shown(), told("ready", "unlisted", &[]));
    end(gateway).await;
}
