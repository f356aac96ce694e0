//! Metrics pages as real engines have them: renamed, missing, absurd, broken.

use std::time::Duration;

use forebay_tests::backend::{Backend, Step};
use forebay_tests::bodies::{CHAT, response};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::{exposition, gzip, http1, wait};
use serde_json::Value;

use crate::common::wait_endpoints;
use crate::sim::{Sim, sims};
use crate::traffic::{Answer, chat, send, text};

const PLAIN: &[(&str, &str)] = &[("Content-Type", "text/plain; version=0.0.4")];

fn page(text: impl AsRef<[u8]>) -> Vec<Step> {
    vec![Step::send(response("200 OK", PLAIN, text.as_ref()))]
}

fn gauges(running: &str, waiting: &str, kv: &str) -> String {
    format!(
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine=\"0\",model_name=\"tide-7b\"}} {running}\n\
         vllm:num_requests_waiting{{engine=\"0\",model_name=\"tide-7b\"}} {waiting}\n\
         vllm:kv_cache_usage_perc{{engine=\"0\",model_name=\"tide-7b\"}} {kv}\n"
    )
}

/// Three engines alike, each with a page of its own elsewhere.
struct Rig {
    engines: Vec<Sim>,
    pages: Vec<Backend>,
    gateway: Gateway,
}

/// Two with a plain page, and one with this.
async fn beside(odd: Vec<Step>, fields: &str) -> Rig {
    let engines = sims(3, 1.0).await;
    let mut pages = Vec::new();
    for _ in 0..3 {
        let backend = Backend::start(|_| Vec::new()).await;
        backend.set_page("/metrics", page(gauges("0.0", "0.0", "0.2")));
        pages.push(backend);
    }
    pages[2].set_page("/metrics", odd);
    let own: Vec<String> =
        pages.iter().map(|page| format!("metrics_url: \"{}/metrics\"", page.url())).collect();
    let config = Config::new()
        .pool_of(
            "chat",
            "tide-7b",
            engines.iter().zip(&own).map(|(engine, own)| (engine.url.as_str(), own.as_str())),
            &format!("scrape: {{interval_min: 30ms, interval_max: 30ms, timeout: 200ms}}\n{fields}"),
        )
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 3).await;
    Rig { engines, pages, gateway }
}

impl Rig {
    /// Sends 300 requests and gives the odd one's share.
    async fn share(&self) -> f64 {
        let answers = send(self.gateway.addr(), 300, 12, |n| (CHAT, request(n))).await;
        assert!(answers.iter().all(Answer::is_good), "{:?}", answers.iter().find(|a| !a.is_good()));
        answers.iter().filter(|a| a.endpoint == self.engines[2].url).count() as f64 / 300.0
    }

    /// What is known of the odd one.
    async fn odd(&self) -> Value {
        let list = self.gateway.admin_json("/api/v1/endpoints").await;
        let url = self.engines[2].url.as_str();
        list["endpoints"].as_array().unwrap().iter().find(|e| e["url"] == url).unwrap().clone()
    }

    async fn wait_odd(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        wait::until_async(what, async || {
            let odd = self.odd().await;
            is(&odd).then_some(odd)
        })
        .await
    }

    /// Reports of the odd one were asked for, and came or failed.
    async fn wait_scraped(&self) -> Value {
        self.wait_odd("a few scrapes", |odd| {
            odd["scrapes"]["ok"].as_u64().unwrap() + odd["scrapes"]["failed"].as_u64().unwrap() >= 3
        })
        .await
    }
}

fn request(n: usize) -> Vec<u8> {
    chat("", &text(n as u64, 300), 6)
}

/// Neither shunned nor swamped, whatever its page says.
async fn fair(name: &str, odd: Vec<Step>) {
    let rig = beside(odd, "").await;
    // Engines whose page says nothing may be asked for nothing but their models.
    wait::until(&format!("{name}: its page to be asked for"), || {
        let asked = |c: &forebay_tests::backend::ConnectionLog| http1::count(&c.bytes, b"GET /metrics ");
        (rig.pages[2].connections().iter().map(asked).sum::<usize>() > 0).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let share = rig.share().await;
    println!("{name}: {share:.2}");
    assert!(share > 0.02 && share <= 0.5, "{name}: the odd one got {share}");
    let page = rig.gateway.metrics().await;
    for sample in exposition::parse(&page) {
        assert!(sample.value.is_finite() || sample.label("le").is_some(), "{name}: {sample:?}");
    }
    assert_eq!(rig.gateway.admin_get("/healthz").await.status(), 200, "{name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b46_renamed_metrics_are_the_same_metrics() {
    let old =
        |kv: &str| gauges("3.0", "1.0", kv).replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc");
    let new = |kv: &str| gauges("3.0", "1.0", kv);
    // (a) only the old name, (b) only the new one, (c) both: the new one counts.
    let both = new("0.4") + old("0.9").lines().last().unwrap() + "\n";
    for (name, text) in [("old", old("0.4")), ("new", new("0.4")), ("both", both)] {
        let rig = beside(page(text), "").await;
        let odd = rig.wait_scraped().await;
        let told = &odd["signals"];
        assert_eq!((&told["running"], &told["waiting"]), (&Value::from(3), &Value::from(1)), "{name}: {odd}");
        assert!((told["kv_usage"].as_f64().unwrap() - 0.4).abs() < 1e-6, "{name}: {odd}");
        assert!(rig.share().await <= 0.5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b46_the_same_load_under_either_name_is_decided_alike() {
    // With a memory that is nearly full, nobody else's prompt fits.
    let full = gauges("0.0", "0.0", "0.97");
    let old = full.replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc");
    let mut shares = Vec::new();
    for text in [full, old] {
        let rig = beside(page(text), "rule: {filter: kv_usage < 0.9}").await;
        rig.wait_odd("its memory to be known", |odd| odd["signals"]["kv_usage"].is_number()).await;
        shares.push(rig.share().await);
    }
    assert_eq!(shares, [0.0, 0.0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b46_values_that_are_no_load_are_unknown() {
    for absurd in ["NaN", "-nan", "+Inf", "-Inf", "1.7e308", "-0.1"] {
        let rig = beside(page(gauges(absurd, absurd, absurd)), "").await;
        let odd = rig.wait_scraped().await;
        let told = &odd["signals"];
        assert!(told["running"].is_null() && told["waiting"].is_null(), "{absurd}: {odd}");
        if let Some(kv) = told["kv_usage"].as_f64() {
            panic!("{absurd}: {kv} of the memory");
        }
        let share = rig.share().await;
        println!("{absurd}: {share}");
        assert!(share > 0.02 && share <= 0.5, "{absurd}: the odd one got {share}");
    }
    // 1.4 is no share; 37 is one in percent for some, and in no case 37 times all of it.
    for (text, most) in [("1.4", 1.0), ("37", 1.0)] {
        let rig = beside(page(gauges("0.0", "0.0", text)), "").await;
        let odd = rig.wait_scraped().await;
        let kv = odd["signals"]["kv_usage"].as_f64();
        assert!(kv.is_none_or(|kv| (0.0..=most).contains(&kv)), "{text}: {odd}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b46_an_absurd_llamacpp_page_is_read_as_far_as_it_goes() {
    let text = "# HELP llamacpp:n_busy_slots_per_decode x\n# TYPE llamacpp:n_busy_slots_per_decode gauge\n\
                llamacpp:n_busy_slots_per_decode -nan\nllamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n";
    let rig = beside(page(text), "").await;
    let odd = rig.wait_odd("its load", |odd| odd["signals"]["running"].is_number()).await;
    assert_eq!(
        (&odd["signals"]["running"], &odd["signals"]["waiting"]),
        (&Value::from(2), &Value::from(1)),
        "{odd}"
    );
    assert!(rig.share().await <= 0.5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b46_ranks_are_summed_and_other_models_left_out() {
    let line = |name: &str, engine: &str, model: &str, value: &str| {
        format!("vllm:{name}{{engine=\"{engine}\",model_name=\"{model}\"}} {value}\n")
    };
    let mut text = String::new();
    for (engine, model, running, kv) in
        [("0", "tide-7b", "3.0", "0.25"), ("1", "tide-7b", "4.0", "0.75"), ("0", "reef-13b", "90.0", "0.99")]
    {
        text += &line("num_requests_running", engine, model, running);
        text += &line("num_requests_waiting", engine, model, "0.0");
        text += &line("kv_cache_usage_perc", engine, model, kv);
    }
    let rig = beside(page(text), "").await;
    let odd = rig.wait_scraped().await;
    assert_eq!(odd["signals"]["running"], 7, "{odd}");
    let kv = odd["signals"]["kv_usage"].as_f64().unwrap();
    assert!((0.49..=0.76).contains(&kv), "{kv} of two ranks with 0.25 and 0.75");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b46_counters_that_fall_are_a_new_process_and_no_negative_rate() {
    let counters = |n: &str, suffix: &str| {
        gauges("1.0", "0.0", "0.2")
            + &format!(
                "vllm:generation_tokens{suffix}{{engine=\"0\",model_name=\"tide-7b\"}} {n}\n\
                 vllm:prompt_tokens{suffix}{{engine=\"0\",model_name=\"tide-7b\"}} {n}\n\
                 vllm:generation_tokens_created{{engine=\"0\",model_name=\"tide-7b\"}} 1.79e9\n"
            )
    };
    for suffix in ["_total", ""] {
        let rig = beside(page(counters("9e6", suffix)), "").await;
        rig.wait_scraped().await;
        rig.pages[2].set_page("/metrics", page(counters("3", suffix)));
        let seen = rig.odd().await["scrapes"]["ok"].as_u64().unwrap();
        let odd = rig
            .wait_odd("a few more scrapes", |odd| odd["scrapes"]["ok"].as_u64().unwrap() >= seen + 4)
            .await;
        let rate = odd["signals"]["tokens_per_second"].as_f64();
        assert!(rate.is_none_or(|rate| (0.0..1e4).contains(&rate)), "{odd}");
        let share = rig.share().await;
        assert!(share <= 0.5, "{share}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b46_spellings_of_the_format_are_read() {
    let plain = gauges("2.0", "1.0", "0.3");
    let openmetrics = plain.clone()
        + "# TYPE foo histogram\nfoo_bucket{le=\"1.0\"} 5 # {trace_id=\"KOO5S4vxi0o\"} 0.67\n# EOF\n";
    let crlf = plain.replace('\n', "\r\n");
    let stamped: String = plain
        .lines()
        .map(|l| if l.starts_with('#') { format!("{l}\n") } else { format!("{l} 1790000000000\n") })
        .collect();
    let unended = plain.trim_end().to_string();
    let escapes = format!(
        "other{{path=\"C:\\\\x\\\"}},{{\\n\",b=\"}}\"}} 1\nbroken line\n{}",
        plain.replace("model_name=", "note=\"a,b}\\\"\\\\\\n\",model_name=")
    );
    let mut huge = String::new();
    while huge.len() < 5 << 20 {
        huge += "python_gc_objects_collected_total{generation=\"0\",note=\"something long to fill the page with\"} 1234.0\n";
    }
    huge += &plain;
    let zipped = vec![Step::send(response(
        "200 OK",
        &[("Content-Type", "text/plain"), ("Content-Encoding", "gzip")],
        &gzip::encode(plain.as_bytes()),
    ))];
    let readable = [
        ("OpenMetrics", page(openmetrics)),
        ("CRLF", page(crlf)),
        ("timestamps", page(stamped)),
        ("no newline at the end", page(unended)),
        ("escapes and a broken line", page(escapes)),
    ];
    for (name, answer) in readable {
        let rig = beside(answer, "").await;
        let odd = rig.wait_scraped().await;
        assert_eq!(
            (&odd["signals"]["running"], &odd["signals"]["waiting"]),
            (&Value::from(2), &Value::from(1)),
            "{name}: {odd}"
        );
    }
    // These may be read or not; traffic must not notice.
    fair("5 MiB", page(huge)).await;
    fair("gzip unasked", zipped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b46_pages_that_say_nothing_leave_the_endpoint_its_share() {
    let html = "<!doctype html><html><body>It works! {a=\"b\"} 5</body></html>";
    fair("empty", page("")).await;
    fair("HTML", vec![Step::send(response("200 OK", &[("Content-Type", "text/html")], html.as_bytes()))])
        .await;
    fair("404", vec![Step::send(response("404 Not Found", PLAIN, b"no"))]).await;
    fair("hang", vec![Step::Stall]).await;
    fair(
        "cut",
        vec![Step::send(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nvllm:num".as_slice()), Step::Fin],
    )
    .await;
}
