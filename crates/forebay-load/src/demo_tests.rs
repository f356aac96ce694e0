use super::*;
use crate::fake_server::{FakeServer, Reply};

const LIMIT: Duration = Duration::from_secs(60);
const GOOD: Reply = Reply::Good { cached: 0, more: 0, endpoint: "e" };

/// Small, and fast enough for a test without being a load.
fn options(server: &FakeServer) -> DemoOptions {
    DemoOptions {
        url: format!("{}/v1/", server.url),
        model: "tide-7b".into(),
        traffic: DemoTraffic {
            system_prompt_bytes: 200,
            requests_per_second: 1.0,
            time_scale: 100.0,
            ..DemoTraffic::default()
        },
        ..DemoOptions::default()
    }
}

async fn until(what: &str, done: impl Fn() -> bool) {
    let wait = async {
        while !done() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn turns_follow_the_plan_and_feed_answers_back() {
    let server = FakeServer::start(|_, _| GOOD).await;
    let options = options(&server);
    let plan: Vec<Conversation> = Schedule::new(&options.traffic, 1).unwrap().take(3).collect();
    let prompts = system_prompts(64, 200, 1);
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(run_demo_traffic(options, Arc::default(), stopped));
    let of = |question: &str| {
        let all = server.bodies();
        all.into_iter().find(|b| b["messages"].as_array().unwrap().last().unwrap()["content"] == question)
    };
    let asked = |question: &str| {
        let seen = server.seen.lock().unwrap();
        seen.iter().any(|s| s.body["messages"].as_array().unwrap().last().unwrap()["content"] == question)
    };
    until("third turns", || plan.iter().all(|c| asked(&c.turns[2].question))).await;
    stop.send(true).unwrap();
    let Finished { summary, remarks } = timeout(LIMIT, running).await.unwrap().unwrap().unwrap();
    assert_eq!((summary.failed, summary.rejected), (0, 0), "{remarks:?}");
    assert_eq!(summary.requests as usize, server.bodies().len());
    assert_eq!(summary.endpoints[0].requests, summary.requests);

    for conversation in &plan {
        for (i, turn) in conversation.turns.iter().enumerate() {
            let body = of(&turn.question).unwrap();
            assert_eq!(body["max_tokens"], turn.answer_tokens);
            assert_eq!((&body["ignore_eos"], &body["stream"]), (&true.into(), &true.into()));
            let messages = body["messages"].as_array().unwrap();
            assert_eq!(messages.len(), 2 + 2 * i);
            assert_eq!(messages[0]["content"], prompts[conversation.system_prompt]);
            if i > 0 {
                let answer = " tok".repeat(conversation.turns[i - 1].answer_tokens as usize);
                assert_eq!(messages[2 * i]["content"], answer, "the answer that really came");
            }
        }
    }
}

#[tokio::test]
async fn what_is_in_flight_at_the_end_may_finish_and_counts() {
    let (release, held) = watch::channel(false);
    let server = FakeServer::start(move |_, _| Reply::Held(held.clone())).await;
    let live: Arc<Live> = Arc::default();
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(run_demo_traffic(options(&server), Arc::clone(&live), stopped));
    until("requests in flight", || live.view().in_flight >= 3).await;
    stop.send(true).unwrap();
    release.send(true).unwrap();
    let summary = timeout(LIMIT, running).await.unwrap().unwrap().unwrap().summary;
    assert_eq!((summary.failed, summary.rejected), (0, 0));
    assert!(summary.requests >= 3);
    let bodies = server.bodies();
    assert_eq!(summary.requests as usize, bodies.len());
    let firsts = bodies.iter().filter(|b| b["messages"].as_array().unwrap().len() == 2).count();
    assert_eq!(firsts, bodies.len(), "no second turn was started after the stop");
    let view = live.view();
    assert_eq!((view.in_flight, view.done), (0, summary.requests));
    assert!(view.ttft_p50_ms.is_some());
}

#[tokio::test]
async fn the_duration_ends_it_and_the_grace_is_bounded() {
    let server = FakeServer::start(|_, _| Reply::Hang).await;
    let options = DemoOptions {
        duration: Some(Duration::from_millis(500)),
        grace: Duration::from_millis(50),
        ..options(&server)
    };
    let (_keep, stop) = watch::channel(false);
    let finished = timeout(LIMIT, run_demo_traffic(options, Arc::default(), stop)).await.unwrap().unwrap();
    assert!(finished.summary.requests > 0);
    assert_eq!(finished.summary.failed, finished.summary.requests);
    assert!(finished.remarks[0].contains("not finished when the run ended"), "{:?}", finished.remarks);
}

#[tokio::test]
async fn a_failure_ends_its_conversation_only() {
    let server = FakeServer::start(|_, body| {
        let first = body.to_string().contains("Question 1 of conversation 0: ");
        if first { Reply::Status(503, "full") } else { GOOD }
    })
    .await;
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(run_demo_traffic(options(&server), Arc::default(), stopped));
    until("twenty requests", || server.seen.lock().unwrap().len() >= 20).await;
    stop.send(true).unwrap();
    let Finished { summary, remarks } = timeout(LIMIT, running).await.unwrap().unwrap().unwrap();
    assert_eq!((summary.rejected, summary.failed), (1, 0));
    assert_eq!(remarks, ["rejected: turn 1 of conversation 0: 503 Service Unavailable: full"]);
    let bodies = server.bodies();
    assert!(!bodies.iter().any(|b| b.to_string().contains("Question 2 of conversation 0: ")));
}
