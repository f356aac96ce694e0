//! Nothing is sent to an endpoint before it is known who answers there.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod support;

use std::time::Duration;

use forebay_config::{Health, Secret};
use forebay_core::EndpointState::{Ready, Starting, Unready};
use forebay_fleet::{ScrapeTarget, Target, WarmUpPlan};
use forebay_wire::signals::Dialect;
use support::{Answer, LIMIT, Stub, Told, fleet, list, quick, vllm};

const HOUR: Duration = Duration::from_secs(3600);
const OTHER: &str = "reef-13b";

/// Probed often; one answer of either kind is enough.
fn probe(stub: &Stub) -> Target<u32> {
    let health = Health {
        interval: Duration::from_millis(20),
        timeout: Duration::from_secs(20),
        fall: 1,
        rise: 1,
        ..Health::default()
    };
    Target { id: 1, url: stub.url(), health, key: None, paused: false }
}

fn read(stub: &Stub, dialect: Option<Dialect>) -> ScrapeTarget<u32> {
    ScrapeTarget { dialect, model: Some("tide-7b".to_owned()), ..quick(1, &stub.url(), Dialect::Vllm) }
}

fn engine(model: &str) -> [(&'static str, Answer); 3] {
    let page = Answer::Page(vllm(1, 500).replace("tide-7b", model));
    [("/health", "ok".into()), ("/v1/models", list("vllm", &[model]).into()), ("/metrics", page)]
}

fn wait_until(is_so: impl Fn() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    runtime.block_on(async { tokio::time::timeout(LIMIT, wait).await }).expect("it comes to be so");
}

fn is_state(told: &Told) -> bool {
    matches!(told, Told::State(..))
}

/// What was told of states and of who it is, in order.
fn news(told: &[Told]) -> Vec<&Told> {
    let is_news = |told: &&Told| {
        matches!(
            told,
            Told::State(..) | Told::Identity(..) | Told::Unlisted(_) | Told::Doubtful(_) | Told::Restarted(_)
        )
    };
    told.iter().filter(is_news).collect()
}

#[test]
fn an_endpoint_is_ready_when_its_list_of_models_was_read_and_not_before() {
    for dialect in [Some(Dialect::Vllm), None] {
        let stub = Stub::start(&engine("tide-7b"));
        stub.set("/v1/models", Answer::Gated(list("vllm", &["tide-7b"])));
        let (fleet, _owner, heard) = fleet();
        fleet.set_targets(vec![probe(&stub)]);
        fleet.set_scrape_targets(vec![read(&stub, dialect)]);
        // Its probes go well, its list is awaited.
        wait_until(|| !stub.asked("/health").is_empty() && stub.waiting().0 > 0);
        stub.open_gate();
        let told = heard.until(is_state);
        assert_eq!(news(&told), [&Told::Identity(1, None), &Told::State(1, Ready)], "{dialect:?}");
    }
}

#[test]
fn an_endpoint_that_comes_back_as_another_is_known_before_it_is_ready() {
    for dialect in [Some(Dialect::Vllm), None] {
        let stub = Stub::start(&engine("tide-7b"));
        let (fleet, _owner, heard) = fleet();
        fleet.set_targets(vec![probe(&stub)]);
        // Its list alone tells, and would not be looked at again for long.
        let target = ScrapeTarget { interval_min: HOUR, interval_max: HOUR, ..read(&stub, dialect) };
        fleet.set_scrape_targets(vec![target]);
        heard.until(|told| *told == Told::State(1, Ready));
        stub.set("/health", Answer::Status(503));
        heard.until(|told| *told == Told::State(1, Unready));
        stub.become_other(&engine(OTHER));
        let told = heard.until(is_state);
        let wrong = Told::Identity(1, Some(OTHER.to_owned()));
        assert_eq!(news(&told), [&Told::Restarted(1), &wrong, &Told::State(1, Ready)], "{dialect:?}");
    }
}

#[test]
fn an_engine_without_a_list_is_not_kept_out() {
    for answer in [Answer::Status(404), Answer::Status(401), "<html>hello</html>".into(), "".into()] {
        for dialect in [Some(Dialect::Openai), Some(Dialect::Vllm), None] {
            let stub = Stub::start(&[("/health", "ok".into()), ("/v1/models", answer.clone())]);
            let (fleet, _owner, heard) = fleet();
            fleet.set_targets(vec![probe(&stub)]);
            fleet.set_scrape_targets(vec![read(&stub, dialect)]);
            let told = heard.until(is_state);
            assert_eq!(
                news(&told),
                [&Told::Unlisted(1), &Told::State(1, Ready)],
                "{answer:?} of {dialect:?}"
            );
        }
    }
}

#[test]
fn a_list_that_never_comes_does_not_keep_an_endpoint_out_for_ever() {
    for answer in [Answer::Hang, Answer::Status(503), Answer::Raw(Vec::new())] {
        let stub = Stub::start(&[("/health", "ok".into()), ("/v1/models", answer.clone())]);
        let (fleet, _owner, heard) = fleet();
        fleet.set_targets(vec![probe(&stub)]);
        let timeout = Duration::from_millis(30);
        fleet.set_scrape_targets(vec![ScrapeTarget { timeout, ..read(&stub, Some(Dialect::Openai)) }]);
        let told = heard.until(is_state);
        assert_eq!(news(&told), [&Told::Unlisted(1), &Told::State(1, Ready)], "{answer:?}");
        assert!(stub.asked("/v1/models").len() >= 3, "it was asked more than once");
    }
}

#[test]
fn an_endpoint_that_was_another_stays_so_while_its_list_does_not_come() {
    let stub = Stub::start(&engine(OTHER));
    let (fleet, _owner, heard) = fleet();
    fleet.set_targets(vec![probe(&stub)]);
    let timeout = Duration::from_millis(30);
    fleet.set_scrape_targets(vec![ScrapeTarget { timeout, ..read(&stub, Some(Dialect::Openai)) }]);
    heard.until(|told| *told == Told::State(1, Ready));
    stub.set("/health", Answer::Status(503));
    stub.set("/v1/models", Answer::Hang);
    heard.until(|told| *told == Told::State(1, Unready));
    stub.set("/health", "ok");
    let told = heard.until(is_state);
    assert_eq!(news(&told), [&Told::State(1, Ready)], "it is still known as another");
}

#[test]
fn labels_tell_who_is_there_where_the_list_is_behind_a_key() {
    let stub = Stub::start(&engine("tide-7b"));
    stub.set("/v1/models", Answer::Status(401));
    let (fleet, _owner, heard) = fleet();
    fleet.set_targets(vec![probe(&stub)]);
    fleet.set_scrape_targets(vec![read(&stub, Some(Dialect::Vllm))]);
    heard.until(|told| *told == Told::State(1, Ready));
    // Not read any more by itself.
    let slow = ScrapeTarget { interval_min: HOUR, interval_max: HOUR, ..read(&stub, Some(Dialect::Vllm)) };
    fleet.set_scrape_targets(vec![slow]);
    heard.until(|told| *told == Told::Identity(1, None));
    stub.set("/health", Answer::Status(503));
    heard.until(|told| *told == Told::State(1, Unready));
    stub.become_other(&engine(OTHER));
    stub.set("/v1/models", Answer::Status(401));
    let told = heard.until(is_state);
    let wrong = Told::Identity(1, Some(OTHER.to_owned()));
    assert_eq!(told.last(), Some(&Told::State(1, Ready)));
    assert!(told.contains(&wrong), "{:?}", news(&told));
}

#[test]
fn an_endpoint_that_nobody_looked_at_comes_back_as_a_new_one() {
    let stub = Stub::start(&engine("tide-7b"));
    let (fleet, _owner, heard) = fleet();
    let set = |paused| {
        fleet.set_targets(vec![Target { paused, ..probe(&stub) }]);
        fleet.set_scrape_targets(if paused { vec![] } else { vec![read(&stub, Some(Dialect::Vllm))] });
    };
    set(false);
    heard.until(|told| *told == Told::State(1, Ready));
    set(true);
    heard.until(|told| *told == Told::State(1, Starting));
    let asked = stub.asked("/health").len();
    stub.become_other(&engine(OTHER));
    set(false);
    let told = heard.until(|told| *told == Told::State(1, Ready));
    let wrong = Told::Identity(1, Some(OTHER.to_owned()));
    let [before @ .., _] = &news(&told)[..] else { panic!("it ends so") };
    assert!(before.contains(&&wrong) && before.contains(&&Told::Restarted(1)), "{:?}", news(&told));
    assert!(stub.asked("/health").len() > asked, "it is probed again");
}

#[test]
fn a_read_that_finds_nobody_has_the_endpoint_probed_at_once() {
    let stub = Stub::start(&engine("tide-7b"));
    let (fleet, _owner, heard) = fleet();
    let mut target = probe(&stub);
    // The next regular probe would be in an hour, and one alone would not be enough.
    (target.health.interval, target.health.fall) = (HOUR, 5);
    fleet.set_targets(vec![target]);
    fleet.set_scrape_targets(vec![read(&stub, Some(Dialect::Vllm))]);
    heard.until(|told| *told == Told::State(1, Ready));
    drop(stub);
    heard.until(|told| *told == Told::State(1, Unready));
}

#[test]
fn other_labels_raise_a_doubt_before_anything_else() {
    let stub = Stub::start(&engine("tide-7b"));
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![read(&stub, Some(Dialect::Vllm))]);
    heard.signals(1);
    stub.become_other(&engine(OTHER));
    let wrong = Told::Identity(1, Some(OTHER.to_owned()));
    let told = heard.until(|told| *told == wrong);
    assert_eq!(news(&told), [&Told::Doubtful(1), &Told::Restarted(1), &wrong]);
}

#[test]
fn an_engine_that_denies_its_model_is_asked_and_its_list_counts() {
    let stub = Stub::start(&engine("tide-7b"));
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![read(&stub, Some(Dialect::Vllm))]);
    heard.until(|told| *told == Told::Identity(1, None));
    fleet.model_denied(1);
    fleet.model_denied(2);
    let told = heard.until(|told| *told == Told::Identity(1, None));
    assert_eq!(news(&told), [&Told::Doubtful(1), &Told::Identity(1, None)]);
    heard.until(|told| matches!(told, Told::Models(..)));
    // Its list contradicts its answers: it is not doubted with each of them.
    let lists = stub.asked("/v1/models").len();
    fleet.model_denied(1);
    let told = heard.until(|told| matches!(told, Told::Models(..)));
    assert_eq!(news(&told), Vec::<&Told>::new());
    assert_eq!(stub.asked("/v1/models").len(), lists + 1);
}

#[test]
fn an_engine_without_a_list_that_denies_its_model_is_believed() {
    let stub = Stub::start(&engine("tide-7b"));
    stub.become_other(&[("/health", "ok".into()), ("/metrics", vllm(1, 5).replace("tide-7b", "x").into())]);
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![read(&stub, Some(Dialect::Vllm))]);
    heard.until(|told| *told == Told::Unlisted(1));
    fleet.model_denied(1);
    let told = heard.until(|told| matches!(told, Told::Identity(..)));
    let denied = Told::Identity(1, Some(String::new()));
    assert_eq!(news(&told), [&Told::Doubtful(1), &denied]);
    heard.signals(1);
    // It has a list after all.
    stub.set("/v1/models", list("vllm", &["tide-7b"]));
    fleet.refresh_models(1);
    heard.until(|told| *told == Told::Identity(1, None));
}

#[test]
fn a_key_is_shown_with_every_page_of_the_endpoint_and_to_nobody_else() {
    let stub = Stub::start(&engine("tide-7b"));
    let exporter = Stub::start(&[("/metrics", "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 50\n".into())]);
    let (fleet, _owner, heard) = fleet();
    let key = Some(Secret::new("hunter2"));
    fleet.set_targets(vec![Target { key: key.clone(), ..probe(&stub) }]);
    let dcgm_url = Some(format!("{}/metrics", exporter.url()));
    fleet.set_scrape_targets(vec![ScrapeTarget { key: key.clone(), dcgm_url, ..read(&stub, None) }]);
    heard.until(|told| *told == Told::State(1, Ready));
    heard.until(|told| matches!(told, Told::Signals(_, s) if s.gpu.temperature_c.is_some()));
    let plan = WarmUpPlan { key, ..WarmUpPlan::new(stub.url(), "tide-7b", 1) };
    fleet.warm_ups().begin(1, plan);
    wait_until(|| !stub.asked("/v1/completions").is_empty());
    for path in ["/health", "/v1/models", "/metrics", "/v1/completions"] {
        let asked = stub.asked(path);
        assert!(!asked.is_empty(), "{path}");
        assert!(
            asked.iter().all(|asked| asked.head.contains("\r\nauthorization: bearer hunter2\r\n")),
            "{path}"
        );
    }
    assert!(exporter.asked("/metrics").iter().all(|asked| !asked.head.contains("authorization")));
}
