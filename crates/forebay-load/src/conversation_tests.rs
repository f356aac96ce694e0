use super::*;

fn schedule(seed: u64, n: usize) -> Vec<Conversation> {
    Schedule::new(&DemoTraffic::default(), seed).unwrap().take(n).collect()
}

/// `value` is within `tolerance` (a share) of `want`.
fn near(what: &str, value: f64, want: f64, tolerance: f64) {
    assert!((value / want - 1.0).abs() < tolerance, "{what}: {value}, expected about {want}");
}

#[test]
fn the_seed_alone_fixes_the_schedule() {
    assert_eq!(schedule(7, 200), schedule(7, 200));
    assert_ne!(schedule(7, 5), schedule(8, 5));
    let traffic = DemoTraffic { turns: 5, requests_per_second: 20.0, ..DemoTraffic::default() };
    let more: Vec<_> = Schedule::new(&traffic, 7).unwrap().take(5).collect();
    for (a, b) in schedule(7, 5).iter().zip(&more) {
        assert_eq!(a.start, b.start, "more turns at the same rate of conversations shift no start");
        assert_eq!(a.system_prompt, b.system_prompt);
    }
}

#[test]
fn rates_and_means_are_the_stated_ones() {
    let n = 20_000;
    let plan = schedule(1, n);
    near("conversations/s", n as f64 / plan[n - 1].start.as_secs_f64(), 4.0, 0.03);
    let turns: Vec<&Turn> = plan.iter().flat_map(|c| &c.turns).collect();
    assert_eq!(turns.len(), 3 * n);
    let answers: Vec<f64> = turns.iter().map(|t| f64::from(t.answer_tokens)).collect();
    near("mean answer", answers.iter().sum::<f64>() / answers.len() as f64, 180.0, 0.02);
    let logs: Vec<f64> = answers.iter().map(|a| a.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / logs.len() as f64;
    near("sigma", variance.sqrt(), 0.8, 0.02);
    let thinks: Vec<f64> = plan.iter().flat_map(|c| &c.turns[1..]).map(|t| t.think.as_secs_f64()).collect();
    near("think time", thinks.iter().sum::<f64>() / thinks.len() as f64, 4.0, 0.02);
    assert!(plan.iter().all(|c| c.turns[0].think == Duration::ZERO));

    // Gaps of a Poisson process: as much spread as mean.
    let gaps: Vec<f64> = plan.windows(2).map(|w| (w[1].start - w[0].start).as_secs_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    near("spread of gaps", variance.sqrt() / mean, 1.0, 0.05);
}

#[test]
fn prompts_follow_zipf() {
    let n = 50_000;
    let mut counts = vec![0.0; 64];
    for conversation in schedule(3, n) {
        counts[conversation.system_prompt] += 1.0;
    }
    let total: f64 = (1..=64).map(|k| f64::from(k).powf(-0.8)).sum();
    for k in [1, 2, 10] {
        let want = f64::from(k).powf(-0.8) / total * n as f64;
        near(&format!("prompt {k}"), counts[k as usize - 1], want, 0.08);
    }
    assert!(counts.iter().all(|&c| c > 0.0));
}

#[test]
fn texts_have_the_stated_lengths_and_share_no_prefix() {
    let prompts = system_prompts(64, 16_384, 1);
    assert_eq!(prompts.len(), 64);
    assert!(prompts.iter().all(|p| p.len() == 16_384));
    let mut starts: Vec<&str> = prompts.iter().map(|p| &p[..8]).collect();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), 64);
    let plan = schedule(1, 50);
    let mut questions: Vec<&str> = plan.iter().flat_map(|c| &c.turns).map(|t| t.question.as_str()).collect();
    assert!(questions.iter().all(|q| q.len() == 400));
    questions.sort_unstable();
    questions.dedup();
    assert_eq!(questions.len(), 150);
}

#[test]
fn values_out_of_range_are_named() {
    let base = DemoTraffic::default;
    for (traffic, name) in [
        (DemoTraffic { turns: 0, ..base() }, "turns"),
        (DemoTraffic { system_prompts: 0, ..base() }, "system prompts"),
        (DemoTraffic { requests_per_second: 0.0, ..base() }, "requests per second"),
        (DemoTraffic { time_scale: f64::NAN, ..base() }, "time-scale"),
        (DemoTraffic { answer_sigma: -1.0, ..base() }, "answer sigma"),
    ] {
        let error = Schedule::new(&traffic, 1).err().unwrap().to_string();
        assert!(error.starts_with(name), "{error}");
    }
    assert!(Schedule::new(&DemoTraffic { think_mean_seconds: 0.0, ..base() }, 1).is_ok());
}
