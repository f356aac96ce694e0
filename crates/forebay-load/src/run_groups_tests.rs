use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::fake_server::{FakeServer, Reply};
use crate::groups::GroupConversation;

const LIMIT: Duration = Duration::from_secs(60);
const GOOD: Reply = Reply::Good { cached: 0, more: 0, endpoint: "e" };

fn options(server: &FakeServer) -> GroupsOptions {
    GroupsOptions {
        url: server.url.clone(),
        traffic: GroupsTraffic {
            groups: 5,
            system_prompt_bytes: 400,
            conversations: 30,
            concurrency: 4,
            answer_tokens: 3,
            ..GroupsTraffic::default()
        },
        ..GroupsOptions::default()
    }
}

async fn run(options: GroupsOptions) -> Finished {
    let (_keep, stop) = watch::channel(false);
    timeout(LIMIT, run_groups_traffic(options, Arc::default(), stop)).await.expect("it ends").unwrap()
}

async fn until(what: &str, done: impl Fn() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn messages(body: &Value) -> Vec<String> {
    let list = body["messages"].as_array().unwrap();
    list.iter().map(|m| m["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_conversation_is_played_and_answers_come_back() {
    let server = FakeServer::start(|_, _| GOOD).await;
    let options = options(&server);
    let plan = GroupsPlan::new(&options.traffic, 1).unwrap();
    let systems = system_prompts(5, 400, 1);
    let Finished { summary, remarks } = run(options).await;
    assert_eq!((summary.requests, summary.failed, summary.rejected), (60, 0, 0), "{remarks:?}");
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    for body in server.bodies() {
        assert_eq!((&body["model"], &body["max_tokens"]), (&"tide-7b".into(), &3.into()));
        assert!(seen.insert(messages(&body).pop().unwrap(), body).is_none(), "each question once");
    }
    for index in 0..30 {
        let GroupConversation { group, questions } = plan.conversation(index);
        let system = &systems[group];
        let first = messages(&seen[&questions[0]]);
        assert_eq!(first, [system.clone(), questions[0].clone()]);
        let second = messages(&seen[&questions[1]]);
        let answer = " tok tok tok".to_owned();
        assert_eq!(second, [system.clone(), questions[0].clone(), answer, questions[1].clone()]);
        assert_eq!(questions[0].len(), 300);
    }
}

#[tokio::test]
async fn so_many_conversations_run_at_a_time() {
    let (release, held) = watch::channel(false);
    let server = FakeServer::start(move |_, _| Reply::Held(held.clone())).await;
    let live: Arc<Live> = Arc::default();
    let (_keep, stop) = watch::channel(false);
    let running = tokio::spawn(run_groups_traffic(options(&server), Arc::clone(&live), stop));
    until("four in flight", || server.seen.lock().unwrap().len() == 4).await;
    // All workers have sent theirs: a fifth request could only come from one more.
    tokio::task::yield_now().await;
    assert_eq!((live.view().in_flight, server.seen.lock().unwrap().len()), (4, 4));
    release.send(true).unwrap();
    let summary = timeout(LIMIT, running).await.unwrap().unwrap().unwrap().summary;
    assert_eq!((summary.requests, live.view().in_flight), (60, 0));
}

#[tokio::test]
async fn the_summary_tells_the_ideal_and_who_got_how_much() {
    // Of every four requests three go to "a" and one to "b"; a third engine gets none.
    let server = FakeServer::start(|n, _| Reply::Good {
        cached: 50,
        more: 0,
        endpoint: if n % 4 == 0 { "b" } else { "a" },
    })
    .await;
    let traffic = GroupsTraffic { turns: 1, ..options(&server).traffic };
    let plan = GroupsPlan::new(&traffic, 1).unwrap();
    let finished = run(GroupsOptions { traffic, endpoints: Some(3), ..options(&server) }).await;
    let summary = &finished.summary;
    assert_eq!(summary.prefix_hit, Some(0.5));
    let mut groups: Vec<usize> = (0..30).map(|i| plan.conversation(i).group).collect();
    groups.sort_unstable();
    groups.dedup();
    // 430 bytes of system prompt, 328 of question, 22 of opening.
    let want = (30 - groups.len()) as f64 / 30.0 * 430.0 / 780.0;
    assert!((summary.ideal_prefix_hit.unwrap() - want).abs() < 1e-9, "{summary:?} {want}");
    let a = 22.0 / 30.0;
    assert!((summary.busiest_share.unwrap() - a * 3.0).abs() < 1e-9, "{summary:?}");
    let [window] = summary.windows.as_slice() else { panic!("{summary:?}") };
    assert_eq!((window.from_s, window.to_s), (0.0, 10.0));
    let [first, second] = window.endpoints.as_slice() else { panic!("{window:?}") };
    assert_eq!((first.name.as_str(), first.requests, first.tokens), ("a", 22, 22 * 103));
    assert_eq!((second.name.as_str(), second.requests, second.tokens), ("b", 8, 8 * 103));
    assert!((first.share - a).abs() < 1e-9);
    let text = finished.to_string();
    assert!(text.contains("; one cache for all would have "), "{text}");
    assert!(text.contains("busiest      2.20 x the mean of the endpoints"), "{text}");
    let json = serde_json::to_value(summary).unwrap();
    assert_eq!(json["windows"][0]["endpoints"][0]["name"], "a");
    assert_eq!(serde_json::from_value::<crate::Summary>(json).unwrap(), *summary);
}

#[tokio::test]
async fn a_failure_ends_its_conversation_only_and_is_no_part_of_the_ideal() {
    let server = FakeServer::start(|_, body| {
        let last = messages(body).pop().unwrap();
        if last.starts_with("7.1:") { Reply::Status(503, "full") } else { GOOD }
    })
    .await;
    let Finished { summary, remarks } = run(options(&server)).await;
    assert_eq!((summary.requests, summary.rejected), (59, 1));
    assert_eq!(remarks, ["rejected: turn 1 of conversation 7: 503 Service Unavailable: full"]);
    assert!(!server.bodies().iter().any(|b| messages(b).pop().unwrap().starts_with("7.2:")));
}

#[tokio::test]
async fn a_stop_and_a_duration_end_it_and_the_grace_is_bounded() {
    let server = FakeServer::start(|_, _| Reply::Hang).await;
    let short = GroupsOptions {
        duration: Some(Duration::from_millis(200)),
        grace: Duration::from_millis(50),
        ..options(&server)
    };
    let finished = run(short).await;
    assert_eq!((finished.summary.requests, finished.summary.failed), (4, 4));
    assert!(finished.remarks[0].contains("not finished when the run ended"), "{:?}", finished.remarks);

    let (release, held) = watch::channel(false);
    let server = FakeServer::start(move |_, _| Reply::Held(held.clone())).await;
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(run_groups_traffic(options(&server), Arc::default(), stopped));
    until("four requests", || server.seen.lock().unwrap().len() == 4).await;
    stop.send(true).unwrap();
    // One thread, tasks in turn: the run has heard of it before this goes on.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    release.send(true).unwrap();
    let summary = timeout(LIMIT, running).await.unwrap().unwrap().unwrap().summary;
    assert_eq!((summary.requests, summary.failed), (4, 0), "what was in flight finished, nothing new began");
}

#[tokio::test]
async fn bad_options_are_named() {
    let server = FakeServer::start(|_, _| GOOD).await;
    for (traffic, name) in [
        (GroupsTraffic { groups: 0, ..GroupsTraffic::default() }, "groups"),
        (GroupsTraffic { conversations: 0, ..GroupsTraffic::default() }, "conversations"),
        (GroupsTraffic { turns: 0, ..GroupsTraffic::default() }, "turns"),
        (GroupsTraffic { concurrency: 0, ..GroupsTraffic::default() }, "concurrency"),
        (GroupsTraffic { answer_tokens: 0, ..GroupsTraffic::default() }, "answer tokens"),
        (GroupsTraffic { zipf_exponent: f64::NAN, ..GroupsTraffic::default() }, "zipf exponent"),
        (GroupsTraffic { time_scale: 0.0, ..GroupsTraffic::default() }, "time-scale"),
    ] {
        let (_keep, stop) = watch::channel(false);
        let options = GroupsOptions { traffic, ..options(&server) };
        let error = run_groups_traffic(options, Arc::default(), stop).await.unwrap_err();
        assert!(error.to_string().starts_with(name), "{error}");
    }
    assert!(server.bodies().is_empty());
}

#[test]
fn the_plan_follows_from_the_seed() {
    let traffic = GroupsTraffic::default();
    let plan = |seed| GroupsPlan::new(&traffic, seed).unwrap();
    let groups = |seed| (0..640).map(|i| plan(seed).conversation(i).group).collect::<Vec<_>>();
    assert_eq!(plan(1).conversation(17), plan(1).conversation(17));
    assert_ne!(groups(1), groups(2));
    let mut counts = vec![0; 64];
    groups(1).into_iter().for_each(|g| counts[g] += 1);
    // Zipf 0.8 over 64: the first has 1/9.0 of all, the last 1/28 of the first.
    assert!((50..95).contains(&counts[0]), "{counts:?}");
    assert!(counts[0] > counts[8] && counts[8] > counts[63], "{counts:?}");
    assert!(counts.iter().filter(|c| **c > 0).count() > 55, "{counts:?}");
}
