//! `forebay simulate` as a process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says so by failing")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const TRACE: &str = "traces/mooncake_conversation.jsonl";

fn simulate(line: &str, more: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let words = line.split_whitespace().chain(more.iter().copied());
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .current_dir(root)
        .arg("simulate")
        .args(words)
        .output()
        .unwrap()
}

fn done(line: &str, more: &[&str]) -> (String, String) {
    let output = simulate(line, more);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{line}: {err}");
    (out, err)
}

fn json(line: &str) -> Value {
    serde_json::from_str(&done(line, &["--json"]).0).unwrap()
}

fn refused(line: &str) -> String {
    let output = simulate(line, &[]);
    assert_eq!(output.status.code(), Some(2), "{line}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// A directory of one test, gone when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    /// The path of a file with this text.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn equal_seeds_give_equal_bytes_whatever_the_threads() {
    let line = format!(
        "--trace {TRACE} --requests 250 --seeds 2 --rate 14 --policies predictive,learned,random,rival-p2c --json"
    );
    let one = done(&line, &["--jobs", "1"]).0;
    assert_eq!(one, done(&line, &["--jobs", "5"]).0);
    assert_ne!(one, done(&line, &["--seed", "9"]).0);
    let directory = Directory::new("equal");
    let written = |name: &str| {
        let out = directory.0.join(name);
        done(&line, &["--out", out.to_str().unwrap()]);
        ["report.html", "report.json", "report.csv"].map(|file| std::fs::read(out.join(file)).unwrap())
    };
    assert_eq!(written("a"), written("b"));
}

#[test]
fn every_policy_is_in_the_table_and_requests_add_up() {
    let line = format!("--trace {TRACE} --requests 200 --seeds 2");
    let report = json(&line);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() >= 12);
    let table = done(&line, &[]).0;
    for row in rows {
        assert!(table.contains(row["policy"].as_str().unwrap()));
        // 20 of 200 are the warm-up.
        assert_eq!(row["requests"], 360, "{row}");
        let served: u64 =
            row["endpoints"].as_array().unwrap().iter().map(|e| e["requests"].as_u64().unwrap()).sum();
        let missed =
            ["failed", "rejected", "cancelled"].map(|key| row[key].as_u64().unwrap()).iter().sum::<u64>();
        assert_eq!(served + missed, 360, "{row}");
    }
}

#[test]
fn rows_have_the_keys_of_the_contract() {
    let report = json(&format!("--trace {TRACE} --requests 100 --policies predictive"));
    let row = &report["rows"][0];
    for key in [
        "policy",
        "requests",
        "failed",
        "rejected",
        "ttft_ms",
        "tpot_ms",
        "e2e_ms",
        "tokens_per_second",
        "goodput",
        "slo",
        "prefix_hit",
        "endpoints",
        "time_scale",
    ] {
        assert!(!row[key].is_null(), "{key} in {row}");
    }
    for times in ["ttft_ms", "tpot_ms", "e2e_ms"] {
        for key in ["mean", "p50", "p95", "p99"] {
            assert!(row[times][key].is_f64(), "{times}.{key}");
            assert!(row["ci95"][times][key].is_f64(), "the interval of {times}.{key}");
        }
    }
    let endpoints = row["endpoints"].as_array().unwrap();
    assert_eq!((endpoints.len(), endpoints[0]["name"].as_str()), (16, Some("h100-8b-1")));
    for key in ["requests", "share", "prefix_hit"] {
        assert!(endpoints[0][key].is_number(), "{key}");
    }
    // One seed says nothing of how sure it is.
    let report = json(&format!("--trace {TRACE} --requests 100 --policies predictive --seeds 1"));
    assert!(report["rows"][0]["ci95"]["goodput"].is_null());
}

#[test]
fn the_page_stands_alone_and_shows_everything() {
    let directory = Directory::new("page");
    let out = directory.0.join("deep/er");
    let line = format!(
        "--fleet examples/fleet-mixed.yaml --trace {TRACE} --requests 150 --rates 6,2 --policies predictive,round_robin,rival-p2c:3"
    );
    done(&line, &["--out", out.to_str().unwrap()]);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for outside in ["http:", "https:", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for shown in [
        "<title>mooncake_conversation.jsonl on 6 × fast",
        "How to read",
        "Against load",
        "rival-p2c:3",
        "Over time",
        "old-2",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    for tag in ["svg", "div", "table", "text", "p", "details"] {
        let count = |text: &str| page.matches(text).count();
        let opened = count(&format!("<{tag} ")) + count(&format!("<{tag}>"));
        assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
        assert!(opened > 0, "{tag}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf\""));
    let csv = std::fs::read_to_string(out.join("report.csv")).unwrap();
    let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]));
    assert!(csv.lines().nth(1).unwrap().starts_with("2,predictive,false,3,"), "{csv}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["loads"][0]["rate"], 2.0);
    // And where goodput crosses 90 % between the two rates.
    let refined = report["refined"].as_array().map_or(0, Vec::len);
    assert_eq!(widths.len(), 1 + 2 * 3 + refined);
    assert_eq!(report["capacity"].as_array().unwrap().len(), 3);
    let timelines = report["timelines"].as_array().unwrap();
    assert_eq!(timelines.len(), 3);
    for timeline in timelines {
        let points = timeline["points"].as_array().unwrap();
        // Up to the last point; whatever came after it is left out.
        let sum = |key: &str| -> u64 {
            let of = |value: &Value| value.as_u64().unwrap();
            points
                .iter()
                .map(|point| {
                    point[key].as_array().map_or_else(|| of(&point[key]), |all| all.iter().map(of).sum())
                })
                .sum()
        };
        assert!(sum("arrived") > 140 && sum("sent").abs_diff(sum("arrived")) <= 3, "{timeline}");
    }
}

#[test]
fn limits_and_fleets_make_a_difference() {
    let line = format!("--trace {TRACE} --requests 100 --policies least_work --seeds 1");
    let goodput = |more: &str| json(&format!("{line} {more}"))["rows"][0]["goodput"].as_f64().unwrap();
    assert_eq!(goodput("--slo-ttft 1us"), 0.0);
    assert_eq!(goodput("--slo-ttft 24h --slo-tpot 24h"), 1.0);
    let directory = Directory::new("slow");
    let slow =
        directory.file("slow.yaml", "version: 1\nendpoints: [{class: h100-8b, count: 16, speed: 0.2}]\n");
    assert!(goodput(&format!("--fleet {slow}")) < goodput(""));
}

#[test]
fn priorities_are_told_apart() {
    let line = "--workload priorities --requests 400 --warmup 0 --seeds 2 --policies predictive,random";
    let report = json(line);
    let classes = report["rows"][0]["priorities"].as_array().unwrap();
    let named: Vec<(&str, u64)> = classes
        .iter()
        .map(|class| (class["priority"].as_str().unwrap(), class["requests"].as_u64().unwrap()))
        .collect();
    assert_eq!(named, [("critical", 400), ("standard", 240), ("sheddable", 160)]);
    assert!(classes[0]["ci95"]["goodput"].is_f64() && classes[2]["ttft_ms"]["p99"].is_f64());
    // --slo-ttft is for standard ones: the others keep their limits.
    let strict = json(&format!("{line} --slo-ttft 1us"));
    let goodput = |at: usize| strict["rows"][0]["priorities"][at]["goodput"].as_f64().unwrap();
    assert!(goodput(0) > 0.5 && goodput(1) == 0.0 && goodput(2) > 0.5, "{strict}");
    let table = done(line, &[]).0;
    assert!(table.contains("by priority") && table.contains("sheddable"), "{table}");
    // One priority needs no table of its own.
    let alike = json("--workload tasks --requests 200 --seeds 1 --policies random");
    assert!(alike["rows"][0]["priorities"].is_null());
}

#[test]
fn the_table_says_how_loaded_the_fleet_was() {
    let line = format!("--trace {TRACE} --requests 300 --seeds 1 --policies predictive");
    let idle = done(&line, &["--rate", "1"]).0;
    assert!(
        idle.contains(" requests in flight on average. It computed")
            && idle.contains("--rate and --scale raise"),
        "{idle}"
    );
    let full = done(&line.replace("300", "1500"), &["--rate", "24"]).0;
    assert!(
        full.contains("It computed, that is had at least one, ") && !full.contains("raise the load"),
        "{full}"
    );
}

#[test]
fn the_best_are_played_again_between_two_rates() {
    let directory = Directory::new("refined");
    let two = directory.file("two.yaml", "version: 1\nendpoints: [{class: h100-8b, count: 2}]\n");
    let line = format!(
        "--fleet {two} --trace {TRACE} --requests 250 --seeds 1 --rates 0.2,16 --slo-ttft 8s \
         --policies predictive,least_request,least_work,round_robin,random"
    );
    let (table, _) = done(&line, &["--out", directory.0.to_str().unwrap()]);
    assert!(table.contains("those of the first few were halved by two more runs"), "{table}");
    let written = |name: &str| std::fs::read_to_string(directory.0.join(name)).unwrap();
    let report: Value = serde_json::from_str(&written("report.json")).unwrap();
    let refined = report["refined"].as_array().unwrap();
    let rates = |policy: &Value| -> Vec<f64> {
        let own = refined.iter().filter(|row| row["policy"] == *policy);
        own.map(|row| row["rate"].as_f64().unwrap()).collect()
    };
    let capacity = report["capacity"].as_array().unwrap();
    assert_eq!(capacity.len(), 5);
    for found in &capacity[..4] {
        let (rates, rate) = (rates(&found["policy"]), found["rate"].as_f64().unwrap());
        let [from, to] = [0, 1].map(|at| found["between"][at].as_f64().unwrap());
        // The middle of what was asked for, and that of one half of it.
        assert_eq!((rates.len(), rates[0]), (2, 8.1), "{found}");
        assert!((to - from - 15.8 / 4.0).abs() < 1e-9 && from <= rate && rate <= to, "{found}");
        assert!(rates.contains(&from) || rates.contains(&to), "{found}");
    }
    // Who was not looked at says so.
    let rough = |at: usize| capacity[at]["rough"] == true;
    assert!((0..4).all(|at| !rough(at)) && (rough(4) || rates(&capacity[4]["policy"]).len() == 2));
    // They are in the list of figures and on the page, and the rates asked for have tables of their own.
    assert_eq!(written("report.csv").lines().count(), 1 + 2 * 5 + refined.len());
    assert!(written("report.html").contains("at 8.1 requests per second: "));
    assert_eq!(report["loads"].as_array().unwrap().len(), 2);
    // A gap of 2 % needs no closer look, and neither does a rate that all carry.
    let close = json(&line.replace("0.2,16", "0.1,0.2"));
    assert!(close["refined"].is_null() && close["capacity"][0]["above"] == true, "{close}");
}

#[test]
fn who_is_as_good_as_the_best_is_marked() {
    let line = "--workload tasks --requests 300 --seeds 2 --policies random,round_robin,predictive --rate 50";
    let report = json(line);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["level_with_best"] == true), "{report}");
    let mut fastest: Vec<(f64, &str)> = rows
        .iter()
        .map(|row| (row["ttft_ms"]["mean"].as_f64().unwrap(), row["policy"].as_str().unwrap()))
        .collect();
    fastest.sort_by(|a, b| a.0.total_cmp(&b.0));
    let table = done(line, &[]).0;
    let shown: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("= ")?.split_whitespace().next())
        .filter(|word| *word != "is")
        .collect();
    assert_eq!(shown, fastest.iter().map(|(_, policy)| *policy).collect::<Vec<_>>(), "{table}");
    assert!(table.contains("sums over seeds"), "{table}");
}

#[test]
fn events_after_the_end_are_told() {
    let directory = Directory::new("late");
    let fleet = directory.file(
        "late.yaml",
        "version: 1\nendpoints: [{name: a, class: h100-8b, count: 4}]\nevents:\n  - {at: 5s, endpoint: a-1, change: leave}\n  - {at: 20h, endpoint: a-2, change: crash}\n",
    );
    let line = format!("--fleet {fleet} --trace {TRACE} --requests 60 --seeds 1 --rate 4 --policies random");
    let out = directory.0.join("out");
    let (_, said) = done(&line, &["--out", out.to_str().unwrap()]);
    assert!(said.contains("event at 72000 s: a-2 crashes for good (not reached: the run ends at "), "{said}");
    assert!(!said.contains("a-1"), "{said}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("5 s: a-1 leaves;") && page.contains("(not reached: the run ends at "));
    let events = &json(&line)["fleet_events"];
    assert!(events[0]["not_reached"].is_null() && events[1]["not_reached"].is_string(), "{events}");
}

#[test]
fn a_fleet_in_pools_loses_no_request_and_no_endpoint() {
    let directory = Directory::new("pools");
    let fleet = |pools: u32| {
        let text = format!("version: 1\npools: {pools}\nendpoints: [{{class: h100-8b, count: 7}}]\n");
        directory.file(&format!("{pools}.yaml"), &text)
    };
    let line = |pools| {
        format!("--fleet {} --trace {TRACE} --requests 500 --seeds 2 --policies predictive", fleet(pools))
    };
    let report = json(&format!("{} --rate 5", line(3)));
    let row = &report["rows"][0];
    let served = |endpoint: &Value| endpoint["requests"].as_u64().unwrap();
    let endpoints = row["endpoints"].as_array().unwrap();
    // 50 of 500 are the warm-up.
    assert_eq!((row["requests"].as_u64(), endpoints.iter().map(served).sum::<u64>()), (Some(900), 900));
    let names: Vec<&str> = endpoints.iter().map(|endpoint| endpoint["name"].as_str().unwrap()).collect();
    assert_eq!(names, (1..=7).map(|n| format!("h100-8b-{n}")).collect::<Vec<_>>());
    let shares: f64 = endpoints.iter().map(|endpoint| endpoint["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    assert_eq!(report["fleet_facts"][0], "3 pools, each with traffic and gateways of its own");
    // One pool is the whole.
    let whole = directory.file("whole.yaml", "version: 1\nendpoints: [{class: h100-8b, count: 7}]\n");
    let rows = |report: &Value| report["rows"].clone();
    let usual =
        json(&format!("--fleet {whole} --trace {TRACE} --requests 500 --seeds 2 --policies predictive"));
    assert_eq!(rows(&json(&line(1))), rows(&usual));
    // The page and closed loops work the same.
    let out = directory.0.join("out");
    let groups = format!("--fleet {} --workload groups --requests 200 --seeds 1 --policies random", fleet(3));
    done(&groups, &["--out", out.to_str().unwrap()]);
    let said = refused(&format!("{} --rate 5", line(8)));
    assert!(said.contains("8 pools for 7 endpoints"), "{said}");
}

#[test]
fn every_workload_and_trace_runs() {
    for workload in ["tenants", "chat", "agents", "tasks", "bursts", "daily", "priorities", "groups"] {
        let report =
            json(&format!("--workload {workload} --requests 120 --warmup 0 --seeds 1 --policies predictive"));
        assert_eq!(report["rows"][0]["requests"], 120, "{workload}");
    }
    let report = json(
        "--trace traces/azure_2023_conv.csv --requests 120 --warmup 0.5 --seeds 1 --policies random --scale 3",
    );
    assert_eq!(report["rows"][0]["requests"], 60);
}

#[test]
fn bad_lines_stop_or_are_left_out() {
    let good = r#"{"timestamp": 0, "input_length": 9, "output_length": 2, "hash_ids": [1]}"#;
    let directory = Directory::new("lines");
    let trace = directory.file("t.jsonl", &format!("{good}\n{{\"timestamp\": 1}}\n{good}\n{good}\noops\n"));
    let line = format!("--trace {trace} --policies random --seeds 1 --warmup 0");
    let said = refused(&line);
    assert!(said.contains("line 2") && said.contains("--on-bad-line skip"), "{said}");
    let (out, err) = done(&line, &["--on-bad-line", "skip", "--json"]);
    assert!(err.contains("2 lines left out, the first is line 2"), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["rows"][0]["requests"], 3);
}

#[test]
fn what_cannot_be_written_is_known_before_the_runs() {
    let directory = Directory::new("unwritable");
    let file = directory.file("file", "");
    // As long a run as there is: it would not be over in time.
    let line = format!("--trace {TRACE} --rate 1000 --requests 1000000000 --policies random --out {file}");
    let output = simulate(&line, &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--out: cannot make the directory") && said.contains(&file), "{said}");
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let directory = Directory::new("refused");
    let small = directory
        .file("small.yaml", "version: 1\nendpoints: [{class: h100-8b, count: 2, kv_tokens: 1000}]\n");
    let model = directory.file(
        "model.yaml",
        "version: 1\nendpoints:\n  - {class: h100-8b, count: 2, memory: {total: 80GiB, weights: 140GiB, per_token: 320KiB}}\n",
    );
    let empty = directory.file("empty.jsonl", "");
    let percent = directory.file(
        "percent.yaml",
        "version: 1\nendpoints: [{class: h100-8b, count: 2}]\nevents: [{at: 1s, endpoint: h100-8b, change: speed, speed: 80}]\n",
    );
    let fast =
        directory.file("fast.yaml", "version: 1\nendpoints: [{class: h100-8b, count: 2, speed: 80}]\n");
    let half = directory.file(
        "half.jsonl",
        "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 2}\n{\"timestamp\": 1}\n",
    );
    let line = |at: &str| format!("{{\"timestamp\": {at}, \"input_length\": 9, \"output_length\": 2}}\n");
    let years = directory.file("years.jsonl", &(line("0") + &line("900719925474099")));
    let later = directory.file(
        "later.yaml",
        "version: 1\nendpoints: [{class: h100-8b, count: 2}]\nevents: [{at: 1s, endpoint: h100-8b, change: join}]\n",
    );
    let cases = [
        (format!("--trace {TRACE} --fleet {small}"), "answer tokens = "),
        (format!("--trace {TRACE} --fleet {small}"), "62 blocks × 16 = 992 tokens"),
        (format!("--trace {TRACE} --fleet {model}"), "less 140.0 GiB of weights is -68.0 GiB"),
        (format!("--trace {TRACE} --fleet {later}"), "none is there at the start"),
        (format!("--trace {TRACE} --fleet nowhere.yaml"), "cannot read the fleet nowhere.yaml"),
        (format!("--trace {TRACE} --fleet {percent}"), "0.8 for 80 %"),
        ("--trace nowhere.jsonl".to_owned(), "cannot read the trace nowhere.jsonl: No such file"),
        (format!("--trace {TRACE} --fleet {fast}"), "0.8 for 80 %"),
        (
            format!("--trace {TRACE} --fleet /dev/zero"),
            "cannot read the fleet /dev/zero: it has more than 16 MiB",
        ),
        ("--trace /dev/zero".to_owned(), "/dev/zero, line 1: has more than 1 MiB, which is no request"),
        ("--trace /dev/zero --on-bad-line skip".to_owned(), "/dev/zero, line 1: has more than 1 MiB"),
        (format!("--trace {half}"), "line 2: not a request: missing field `input_length` (column 16) (--on"),
        (format!("--trace {empty}"), "no requests"),
        ("--trace README.md".to_owned(), "neither a Mooncake trace"),
        (format!("--trace {TRACE} --rate 0"), "--rate: 0 is not a number above 0"),
        (format!("--trace {TRACE} --rate=-3"), "--rate: -3"),
        (format!("--trace {TRACE} --rate -3"), "--rate: -3 is not a number above 0"),
        (format!("--trace {TRACE} --rates -3,5"), "--rates: -3 is not a number above 0"),
        (format!("--trace {TRACE} --rate 5/s"), "'5/s' for '--rate <R>': not a number such as 12 or 0.5"),
        (format!("--trace {TRACE} --rates 1,2,x"), "'x' for '--rates <A,B,…>': not a number such as"),
        (format!("--trace {TRACE} --rates 1,,2"), "a number is missing"),
        (format!("--trace {TRACE} --warmup 10%"), "not a number such as 12 or 0.5, without a unit"),
        (format!("--trace {TRACE} --policies predictive:3"), "predictive has no knobs"),
        (format!("--trace {TRACE} --policies predictve"), "did you mean predictive?"),
        (format!("--trace {TRACE} --rate NaN"), "--rate: NaN"),
        (format!("--trace {TRACE} --rates 1,inf"), "--rates: inf"),
        (format!("--trace {TRACE} --scale 1e300"), "--scale: 1e300 is not"),
        (format!("--trace {TRACE} --scale 1e-5"), "days, and a run at most 31"),
        (format!("--trace {years}"), "last 427008 days, and a run at most 31"),
        (format!("--trace {TRACE} --policies rival-p2c:-1"), "choice_count is \"-1\""),
        (format!("--trace {TRACE} --rate 1 --scale 2"), "cannot be used with"),
        (format!("--trace {TRACE} --seeds 0"), "--seeds"),
        (format!("--trace {TRACE} --requests 0"), "--requests"),
        (format!("--trace {TRACE} --warmup 1"), "--warmup: 1 is not a share"),
        (format!("--trace {TRACE} --warmup NaN"), "--warmup: NaN"),
        (format!("--trace {TRACE} --slo-ttft 0s"), "--slo-ttft"),
        (format!("--trace {TRACE} --slo-tpot 50"), "not a time such as 50ms"),
        (format!("--trace {TRACE} --policies fastest"), "no policy \"fastest\""),
        (format!("--trace {TRACE} --workload chat"), "cannot be used with"),
        ("--workload chats".to_owned(), "chat"),
        ("--workload groups --rate 3".to_owned(), "--scale changes"),
        ("--policies random".to_owned(), "--trace"),
    ];
    for (line, what) in cases {
        let said = refused(&line);
        assert!(said.contains(what), "{line}: {said}");
    }
    // A space within one word of the command line.
    let several = simulate(&format!("--trace {TRACE}"), &["--rates", "1 2"]);
    let said = String::from_utf8(several.stderr).unwrap();
    assert!(several.status.code() == Some(2) && said.contains("with commas between and no spaces"), "{said}");
}

#[test]
fn a_report_that_cannot_be_written_is_printed_all_the_same() {
    let directory = Directory::new("unwritable");
    // The folder can be written in, and yet not this file.
    std::fs::create_dir(directory.0.join("report.html")).unwrap();
    let line =
        format!("--trace {TRACE} --requests 50 --policies round_robin --out {}", directory.0.display());
    let output = simulate(&line, &[]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot write") && err.contains("report.html"), "{err}");
    assert!(out.contains("round_robin"), "the table is lost: {out}");
}
