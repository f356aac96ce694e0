//! What rules say, and what they refuse.

mod against_cel;

use crate::{EndpointVars, MAX_EXPRESSION, Part, RequestVars, Rule, Variable, Verdict, variables::TABLE};

fn endpoint() -> EndpointVars<'static> {
    let mut signals = [None; 8];
    signals[0] = Some(7.0);
    EndpointVars {
        name: "http://10.0.0.1:8000",
        zone: "eu-1a",
        accelerator: "h100",
        version: "v2",
        running: Some(4.0),
        waiting: Some(3.0),
        kv_usage: Some(0.5),
        gpu_throttled: Some(false),
        signals,
        ..EndpointVars::default()
    }
}

fn request() -> RequestVars<'static> {
    RequestVars { prompt_tokens: 1000.0, stream: true, model: "m", ..RequestVars::default() }
}

fn cost_with(text: &str, endpoint: &EndpointVars<'_>) -> f32 {
    let rule = Rule::compile(None, Some(text), &["queue_depth"]).unwrap_or_else(|e| panic!("{text}: {e}"));
    match rule.eval(&request(), endpoint) {
        Verdict::Cost(ms) => ms,
        Verdict::Filtered => panic!("{text}: filtered"),
    }
}

fn cost(text: &str) -> f32 {
    cost_with(text, &endpoint())
}

fn filtered_with(text: &str, endpoint: &EndpointVars<'_>) -> bool {
    let rule = Rule::compile(Some(text), None, &["queue_depth"]).unwrap_or_else(|e| panic!("{text}: {e}"));
    rule.eval(&request(), endpoint) == Verdict::Filtered
}

fn keeps(text: &str) -> bool {
    !filtered_with(text, &endpoint())
}

#[test]
fn numbers_are_doubles_however_they_are_written() {
    assert_eq!(cost("waiting * 20"), 60.0);
    assert_eq!(cost("20 * waiting + 1.5"), 61.5);
    assert_eq!(cost("7 / 2"), 3.5);
    assert_eq!(cost("queue_depth - running"), 3.0);
    assert_eq!(cost("min(waiting, 2) + max(running, 9)"), 11.0);
    assert_eq!(cost("gpu_throttled ? 500 : 1"), 1.0);
    assert_eq!(cost("-(-5)"), 5.0);
    assert!(keeps("waiting == 3 && 3.0 == waiting"));
}

#[test]
fn conditions_compare_numbers_texts_and_flags() {
    assert!(keeps("kv_usage < 0.98"));
    assert!(!keeps("kv_usage >= 0.98"));
    assert!(keeps("zone == 'eu-1a' && version != \"v1\""));
    assert!(keeps("zone in ['us-1', 'eu-1a'] && waiting in [1, 3]"));
    assert!(!keeps("accelerator in []"));
    assert!(keeps("name.contains('10.0.0') && zone.startsWith('eu') && !zone.endsWith('b')"));
    assert!(keeps("stream && gpu_throttled == false && adapter == ''"));
    assert!(keeps("version < 'v3'"));
    assert!(keeps("true") && !keeps("false"));
}

#[test]
fn what_is_unknown_has_no_opinion_unless_the_rest_decides() {
    let silent = EndpointVars::default();
    assert_eq!(cost_with("waiting * 20", &silent), 0.0);
    assert_eq!(cost_with("waiting * 20 + 5", &silent), 0.0);
    assert_eq!(cost_with("value_or(waiting, 2) * 20", &silent), 40.0);
    assert_eq!(cost_with("known(waiting) ? waiting : 7", &silent), 7.0);
    assert_eq!(cost_with("gpu_throttled ? 1 : 2", &silent), 0.0);
    for keeps in
        ["waiting < 5", "waiting >= 5", "waiting == 5", "!gpu_throttled", "waiting in [5]", "5 in [waiting]"]
    {
        assert!(!filtered_with(keeps, &silent), "{keeps}");
    }
    assert!(filtered_with("waiting < 5 && false", &silent));
    assert!(filtered_with("false && waiting < 5", &silent));
    assert!(filtered_with("!(waiting < 5 || true)", &silent));
    assert!(filtered_with("!(true || waiting < 5)", &silent));
    assert!(filtered_with("known(waiting)", &silent));
    assert!(filtered_with("value_or(waiting, 9) < 5", &silent));
    assert!(filtered_with("value_or(gpu_throttled, false)", &silent));
    let broken = EndpointVars { waiting: Some(f64::NAN), running: Some(f64::INFINITY), ..silent };
    assert_eq!(cost_with("waiting + running", &broken), 0.0);
}

#[test]
fn a_cost_is_bounded_and_a_missing_opinion_is_counted() {
    assert_eq!(cost("-5"), 0.0);
    assert_eq!(cost("1 / 0"), crate::MAX_COST_MS);
    let rule = Rule::compile(Some("waiting < 5"), Some("0 / 0"), &[]).unwrap();
    assert_eq!(rule.eval(&request(), &endpoint()), Verdict::Cost(0.0));
    assert_eq!(rule.no_opinion(), 1);
    assert_eq!(rule.eval(&request(), &EndpointVars::default()), Verdict::Cost(0.0));
    assert_eq!(rule.no_opinion(), 3);
}

#[test]
fn only_what_is_named_is_read() {
    let rule = Rule::compile(Some("waiting < 5"), Some("held_tokens + depth"), &["depth"]).unwrap();
    for entry in TABLE {
        let read = matches!(entry.variable, Variable::Waiting | Variable::HeldTokens);
        assert_eq!(rule.reads(entry.variable), read, "{}", entry.name);
    }
    assert!(rule.reads(Variable::Signal(0)));
}

/// Every variable of the table exists, has the type that the table says and its own value.
#[test]
fn the_table_is_true() {
    for entry in TABLE {
        let (filter, known) = match entry.kind {
            crate::variables::Kind::Number => (format!("{} == {}", entry.name, entry.name), entry.unknown),
            crate::variables::Kind::Flag => (format!("{} || true", entry.name), entry.unknown),
            crate::variables::Kind::Text => (format!("{}.startsWith('')", entry.name), false),
        };
        assert!(keeps(&filter), "{filter}");
        assert_eq!(
            Rule::compile(Some(&format!("known({})", entry.name)), None, &[]).is_ok(),
            known,
            "{}",
            entry.name
        );
        assert!(crate::is_variable(entry.name));
    }
    let mut bits: Vec<u32> = TABLE.iter().map(|entry| entry.variable.bit()).collect();
    bits.sort_unstable();
    bits.dedup();
    assert_eq!(bits.len(), TABLE.len());
}

#[test]
fn mistakes_are_named_with_their_place() {
    let check = |text: &str, place: (u32, u32), part: &str| {
        let error = Rule::compile(Some(text), None, &["queue_depth"]).expect_err(text);
        assert_eq!((error.part, error.at), (Part::Filter, Some(place)), "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    };
    check("wating < 5", (1, 1), "no variable \"wating\"; did you mean \"waiting\"?");
    check("true &&\n  queue_dept < 5", (2, 3), "did you mean \"queue_depth\"?");
    check("zone == 'ü' && nix > 1", (1, 16), "no variable \"nix\"");
    check("waiting", (1, 1), "a filter needs true or false, and this is a number");
    check("waiting * zone > 1", (1, 11), "`*` needs a number, and this is a text");
    check("waiting < zone", (1, 9), "one type, and these are a number and a text");
    check("!waiting", (1, 2), "`!` needs true or false");
    check("stream < true", (1, 8), "no order");
    check("waiting % 2 == 0", (1, 9), "`%`");
    check("waiting == null", (1, 12), "known(x)");
    check("has(waiting)", (1, 4), "known(x)");
    check("known(zone)", (1, 7), "always known");
    check("known(1)", (1, 7), "name of a variable");
    check("known()", (1, 6), "the form is known(x)");
    check("size(zone) > 1", (1, 5), "no function \"size\"; there are known");
    check("zone.matches('a+')", (1, 13), "no function \"matches\"");
    check("[1, 2].all(x, x > 1)", (1, 11), "no function \"all\"");
    check("endpoint.waiting > 1", (1, 9), "no");
    check("zone in 'a'", (1, 9), "`in` needs a list");
    check("waiting in ['a']", (1, 13), "needs a number");
    check("waiting <", (1, 10), "");
    check("waiting < 5)", (1, 12), "");
    check("(stream ? zone : model) == 'a'", (1, 9), "a text cannot be chosen");
    check("{'a': 1}['a'] > 1", (1, 9), "indexed");
}

#[test]
fn expressions_are_bounded() {
    let whole = |text: &str, part: &str| {
        let error = Rule::compile(None, Some(text), &[]).expect_err("bounded");
        assert!(error.message.contains(part), "{error}");
    };
    whole("", "empty");
    whole(&format!("1{}", " ".repeat(MAX_EXPRESSION)), "longer than 4096 bytes");
    for (open, close) in
        [("(", ")"), ("!", ""), ("-", ""), ("min(1, ", ")"), ("[", "]"), ("true ? 1 : ", ""), ("1 + ", "")]
    {
        let times = (MAX_EXPRESSION - 4) / (open.len() + close.len());
        let text = format!("{}1{}", open.repeat(times), close.repeat(times));
        // Of two negations of one kind the parser makes none.
        let compiled = Rule::compile(None, Some(&text), &[]);
        assert!(compiled.is_err() || matches!(open, "!" | "-"), "{open}");
    }
    let sum = format!("{}1", "1 + ".repeat(150));
    assert_eq!(cost(&sum), 151.0);
}

#[test]
fn signals_have_names_of_their_own() {
    let error = Rule::compile(None, Some("1"), &["depth", "waiting"]).unwrap_err();
    assert_eq!((error.part, error.at), (Part::Signals, None));
    assert!(error.to_string().contains("\"waiting\" is the name of a variable"), "{error}");
    let nine = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    assert!(Rule::compile(None, Some("1"), &nine).is_err());
    let rule = Rule::compile(None, Some("h"), &nine[..8]).unwrap();
    let mut endpoint = endpoint();
    endpoint.signals[7] = Some(12.0);
    assert_eq!(rule.eval(&request(), &endpoint), Verdict::Cost(12.0));
}
