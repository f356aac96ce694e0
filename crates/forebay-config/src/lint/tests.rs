use crate::{parse_str, warnings};

fn lints(top: &str, pool: &str, endpoints: &str) -> Vec<String> {
    let text =
        format!("version: 1\n{top}\npools:\n- name: a\n  model: b\n  {pool}\n  endpoints: [{endpoints}]\n");
    let config = parse_str("f", &text).unwrap_or_else(|errors| panic!("{errors}"));
    warnings(&config).into_iter().map(|lint| lint.to_string()).collect()
}

const ONE: &str = "{url: \"http://a:1\"}";
const TWO: &str = "{url: \"http://a:1\"}, {url: \"http://a:2\", weight: 2}";

const PAGES: &str = "{url: \"http://a:1\", metrics_url: \"http://a:2\"}";
const PUBLISHING: &str = "{url: \"http://a:1\", kv_events: \"tcp://a:5557\"}, {url: \"http://a:2\"}";
const NOWHERE: &str = "{url: \"http://a:1\", kv_events: \"tcp://*:5557\"}";
const BOUND: &str = "tokenizer: {file: t}\n  kv_events: {url: \"tcp://*:5557\", bind: true}";

#[test]
fn a_plain_configuration_has_no_warning() {
    assert!(lints("", "", ONE).is_empty());
    assert!(lints("", "", TWO).is_empty());
}

#[test]
fn each_warning_has_its_cause() {
    for (top, pool, endpoints, path, part) in [
        ("admin: 0.0.0.0:9090", "", ONE, "admin", "no access control"),
        ("listen: 0.0.0.0:80\ntrust_control_headers: true", "", ONE, "trust_control_headers", "anyone"),
        ("drain: {limit: 1m}", "", ONE, "drain.limit", "first_byte timeout of pools[0]"),
        ("", "policy: round_robin", TWO, "pools[0].policy", "ignores the endpoints' weights"),
        ("", "policy: consistent_hash", ONE, "pools[0].policy", "one endpoint"),
        ("", "hash_balance_factor: 2", ONE, "pools[0].hash_balance_factor", "no effect"),
        ("", "h2_connections: 2", ONE, "pools[0].h2_connections", "no effect"),
        ("", "health: {timeout: 500ms}", ONE, "pools[0].health.timeout", "under 1s"),
        ("", "timeouts: {total: 1m, answer: 0s}", ONE, "pools[0].timeouts.total", "shorter than first_byte"),
        ("", "shadow_policy: predictive", ONE, "pools[0].shadow_policy", "always agrees"),
        ("", "policy: session_affinity", ONE, "pools[0].policy", "trust_control_headers"),
        ("", "policy: orca_weighted_round_robin", ONE, "pools[0].policy", "set orca.ask and"),
        (
            "",
            "policy: orca_weighted_round_robin\n  orca: {ask: text}",
            ONE,
            "pools[0].orca.metrics",
            "kv_cache_usage",
        ),
        (
            "",
            "engine: triton\n  policy: orca_weighted_round_robin\n  orca: {ask: json}",
            ONE,
            "pools[0].orca.metrics",
            "kv_cache_utilization",
        ),
        ("", "policy: random\n  shadow_policy: learned", ONE, "pools[0].shadow_policy", "learns nothing"),
        ("", "policy: random\n  profile: lean", ONE, "pools[0].profile", "no effect"),
        ("", "policy: random\n  rule: {cost_ms: waiting}", ONE, "pools[0].rule.cost_ms", "no effect"),
        ("", "policy: prequal\n  rule: {cost_ms: waiting}", ONE, "pools[0].rule.cost_ms", "least_queue"),
        ("", "policy: round_robin\n  weights: dynamic", ONE, "pools[0].weights", "no effect"),
        ("", "orca: {metrics: [cpu_utilization]}", ONE, "pools[0].orca", "without effect"),
        ("", "orca: {blackout_period: 1s}", ONE, "pools[0].orca", "without effect"),
        ("", "warm_up: {concurrency: 2}", ONE, "pools[0].warm_up.concurrency", "without requests"),
        ("", "engine: ollama\n  signals: {q: m}", ONE, "pools[0].signals", "engine ollama"),
        ("", "engine: openai\n  signals: {q: m}", ONE, "pools[0].signals", "metrics_url"),
        ("", "scrape: {enabled: false}\n  signals: {q: m}", ONE, "pools[0].signals", "scrape.enabled"),
        ("", "scrape: {enabled: false}", PAGES, "pools[0].scrape.enabled", "not asked"),
        ("", "signals: {a: m, b: {metric: m}}", ONE, "pools[0].signals", "two names"),
        ("", "", "{url: \"http://a:1\", gpus: [0]}", "pools[0].endpoints[0].gpus", "without dcgm_url"),
        ("", "kv_events: {}", ONE, "pools[0].kv_events", "without a tokenizer"),
        ("", "tokenizer: {file: t}", PUBLISHING, "pools[0].kv_events", "others have none"),
        ("", "engine: tgi\n  tokenizer: {file: t}\n  kv_events: {}", ONE, "pools[0].kv_events", "engine tgi"),
        (
            "",
            "engine: trtllm\n  tokenizer: {file: t}\n  kv_events: {ranks: 2}",
            ONE,
            "pools[0].kv_events",
            "without effect",
        ),
        ("", BOUND, TWO, "pools[0].kv_events.topic", "told apart"),
        (
            "",
            "",
            "{url: \"http://a:1\", kv_replay: \"tcp://a:1\"}",
            "pools[0].endpoints[0].kv_replay",
            "no effect",
        ),
        ("", "tokenizer: {file: t}", NOWHERE, "pools[0].endpoints[0].kv_events", "nobody can connect"),
        (
            "prefix_index: {snapshot_interval: 5s}",
            "",
            ONE,
            "prefix_index.snapshot_interval",
            "without snapshot",
        ),
    ] {
        let found = lints(top, pool, endpoints);
        assert_eq!(found.len(), 1, "{top} {pool}: {found:?}");
        assert!(found[0].starts_with(&format!("{path}: ")) && found[0].contains(part), "{found:?}");
    }
}

#[test]
fn the_counterparts_have_none() {
    assert!(lints("admin: \"[::1]:9090\"\ntrust_control_headers: true", "", ONE).is_empty());
    assert!(lints("", "policy: weighted_round_robin", TWO).is_empty());
    assert!(lints("", "policy: consistent_hash\n  hash_balance_factor: 2", TWO).is_empty());
    assert!(lints("", "protocol: h2c\n  h2_connections: 2", ONE).is_empty());
    assert!(lints("", "health: {timeout: 500ms, enabled: false}", ONE).is_empty());
    for pool in [
        "shadow_policy: least_work",
        "policy: orca_weighted_round_robin\n  orca: {ask: text, metrics: [utilization.kv], blackout_period: 1s}",
        "shadow_policy: orca_weighted_round_robin\n  orca: {blackout_period: 1s}",
        "policy: random\n  shadow_policy: predictive\n  profile: lean",
        "policy: learned\n  shadow_policy: predictive",
        "engine: openai\n  policy: orca_weighted_round_robin\n  orca: {ask: text}",
        "policy: prefix_affinity\n  hash_balance_factor: 2",
        "policy: random\n  rule: {filter: kv_usage < 0.9}",
        "policy: learned\n  rule: {cost_ms: waiting}",
        "policy: least_latency\n  rule: {cost_ms: waiting}",
        "policy: least_queue\n  rule: {cost_ms: waiting}",
        "policy: random\n  shadow_policy: least_queue\n  rule: {cost_ms: waiting}",
        "signals: {a: m, b: {metric: m, combine: max}}",
        "engine: ollama\n  scrape: {enabled: false}",
        "tokenizer: {file: t}",
        "tokenizer: {file: t}\n  kv_events: {}",
        "engine: trtllm\n  tokenizer: {file: t}\n  kv_events: {}",
        "engine: trtllm\n  tokenizer: {file: t}\n  kv_events: {url: \"tcp://{host}:6557\", ranks: 2}",
        "warm_up: {requests: 9, concurrency: 2}",
    ] {
        assert_eq!(lints("", pool, ONE), Vec::<String>::new(), "{pool}");
    }
    assert!(lints("trust_control_headers: true", "policy: session_affinity", ONE).is_empty());
    assert!(lints("", "engine: openai\n  signals: {q: m}", PAGES).is_empty());
    assert!(lints("", &BOUND.replace("bind", "topic: \"kv@{host}\", bind"), TWO).is_empty());
    assert!(lints("prefix_index: {snapshot_interval: 5s, snapshot: f}", "", ONE).is_empty());
}

#[test]
fn pools_that_share_an_endpoint_agree_about_it() {
    let pools = |a: &str, b: &str, endpoint: &str| {
        let text = format!(
            "version: 1\npools:\n- {{name: a, model: a, {a} endpoints: [{ONE}, {{url: \"http://x:1\"}}]}}\n\
             - {{name: b, model: b, {b} endpoints: [{endpoint}]}}\n"
        );
        let config = parse_str("f", &text).unwrap_or_else(|errors| panic!("{errors}"));
        warnings(&config).into_iter().map(|lint| lint.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(pools("", "", ONE), Vec::<String>::new());
    assert_eq!(pools("", "engine: tgi,", "{url: \"http://b:1\"}"), Vec::<String>::new());
    for (a, b, endpoint, difference) in [
        ("", "engine: tgi,", ONE, "in engine;"),
        ("", "max_dials: 2, scrape: {timeout: 1s},", ONE, "in max_dials, scrape;"),
        ("signals: {q: m},", "", ONE, "in signals;"),
        ("", "", "{url: \"http://a:1\", version: v}", "in version;"),
        ("", "", "{url: \"http://a:1\", accelerator: h100, weight: 2}", "in weight, accelerator;"),
    ] {
        let found = pools(a, b, endpoint);
        assert_eq!(found.len(), 1, "{a} {b} {endpoint}: {found:?}");
        assert!(found[0].starts_with("pools[1]: ") && found[0].contains(difference), "{found:?}");
    }
}
