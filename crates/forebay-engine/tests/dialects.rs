//! The load in the words of other engines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod common;

use common::{Running, options, start};
use forebay_engine::{EngineOptions, MetricsDialect};
use serde_json::json;

async fn speaking(dialect: MetricsDialect) -> Running {
    let engine = start(EngineOptions { dialect, ..options() }).await;
    let ids: Vec<u32> = (0..100).collect();
    let body = json!({"model": "tiny", "prompt": ids, "max_tokens": 5, "ignore_eos": true}).to_string();
    for _ in 0..2 {
        assert_eq!(engine.post("/v1/completions", &body).await.status, 200);
    }
    engine
}

#[tokio::test]
async fn each_has_its_own_names() {
    use MetricsDialect::{Llamacpp, Lmdeploy, Sglang, Tgi};
    for (dialect, lines) in [
        (
            Sglang,
            &[
                "sglang:num_running_reqs{engine_type=\"unified\",model_name=\"tiny\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"} 0.0",
                "sglang:generation_tokens_total{",
                "sglang:cached_tokens_total{",
                "sglang:page_size{",
                "process_start_time_seconds ",
            ][..],
        ),
        (
            Llamacpp,
            &[
                "llamacpp:requests_processing 0.0",
                "llamacpp:prompt_tokens_total 200.0",
                "llamacpp:tokens_predicted_total 10.0",
            ],
        ),
        (Tgi, &["tgi_batch_current_size 0.0", "tgi_queue_size 0.0", "tgi_request_success 2.0"]),
        (Lmdeploy, &["lmdeploy:gpu_cache_usage_perc{engine=\"0\",model_name=\"tiny\"} 0.0"]),
    ] {
        let engine = speaking(dialect).await;
        let page = engine.get("/metrics").await.body;
        for line in lines {
            assert!(page.lines().any(|l| l.starts_with(line)), "{dialect}: {line}\n{page}");
        }
        assert!(!page.contains("vllm:"));
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}");
        }
        assert_eq!(engine.get("/kv_event_sources").await.status, 404, "that is vLLM's");
    }
}

#[tokio::test]
async fn the_list_of_models_and_the_server_say_who_it_is() {
    for (dialect, owner) in [
        (MetricsDialect::Vllm, "vllm"),
        (MetricsDialect::Sglang, "sglang"),
        (MetricsDialect::Llamacpp, "llamacpp"),
        (MetricsDialect::Tgi, "tiny"),
        (MetricsDialect::Lmdeploy, "lmdeploy"),
    ] {
        let engine = start(EngineOptions { dialect, ..options() }).await;
        let answer = engine.get("/v1/models").await;
        assert_eq!(answer.json()["data"][0]["owned_by"], owner);
        assert_eq!(answer.header("server") == Some("llama.cpp"), dialect == MetricsDialect::Llamacpp);
        assert_eq!(dialect.as_str().parse(), Ok(dialect));
    }
    assert!("triton".parse::<MetricsDialect>().unwrap_err().contains("vllm, sglang"));
}

#[tokio::test]
async fn sglang_has_its_loads() {
    let engine = speaking(MetricsDialect::Sglang).await;
    let loads = engine.get("/v1/loads?include=core,memory").await.json();
    assert_eq!(loads["accelerator"], "h100-8b");
    let rank = &loads["loads"][0];
    assert_eq!((&rank["num_running_reqs"], &rank["num_waiting_reqs"]), (&json!(0), &json!(0)));
    assert_eq!(rank["max_total_num_tokens"], 26_687 * 16);
    assert_eq!(start(options()).await.get("/v1/loads").await.status, 404);
}
