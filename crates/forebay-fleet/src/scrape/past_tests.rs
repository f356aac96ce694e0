use forebay_wire::signals::Counters;

use super::*;

fn models(names: &[&str]) -> Vec<ResidentModel> {
    names
        .iter()
        .map(|name| {
            let (id, parent) = name.split_once('<').map_or((*name, None), |(id, parent)| (id, Some(parent)));
            ResidentModel { id: id.to_owned(), parent: parent.map(str::to_owned), ready: true }
        })
        .collect()
}

fn signals(start: Option<f64>, tokens: Option<f64>, models: &[&str]) -> Signals {
    Signals {
        process_start: start,
        counters: Counters { generation_tokens: tokens, ..Counters::default() },
        models: models.iter().map(|&m| m.to_owned()).collect(),
        ..Signals::default()
    }
}

/// Takes in each signal in turn and says which were new.
fn new_ones(past: &mut Past, all: &[Signals]) -> Vec<bool> {
    all.iter()
        .map(|now| {
            let is_new = past.began(now) != Began::Before;
            past.keep(now.clone(), is_new);
            is_new
        })
        .collect()
}

fn mismatch(found: &str) -> Option<Verdict> {
    Some(Verdict::Mismatch(found.to_owned()))
}

#[test]
fn another_start_fallen_counters_and_other_labels_are_another_process() {
    for (before, now, expected) in [
        (signals(Some(1e9), Some(9e6), &["a"]), signals(Some(1e9), Some(9e6), &["a"]), false),
        (signals(Some(1e9), Some(9e6), &["a"]), signals(Some(1e9 + 60.0), Some(9.1e6), &["a"]), true),
        (signals(None, Some(9e6), &["a"]), signals(None, Some(3.0), &["a"]), true),
        (signals(None, Some(9e6), &["a"]), signals(None, None, &["a"]), false),
        (signals(None, None, &["a"]), signals(None, None, &["b"]), true),
        (signals(None, None, &["a"]), signals(None, None, &["b", "a"]), false),
        (signals(None, None, &["a"]), signals(None, None, &[]), false),
    ] {
        let mut past = Past::default();
        assert_eq!(
            new_ones(&mut past, &[before.clone(), now.clone(), now.clone()]),
            [false, expected, false]
        );
    }
}

#[test]
fn labels_that_are_missing_for_a_while_are_remembered() {
    let mut past = Past::default();
    let [a, none, b] = [&["a"][..], &[], &["b"]].map(|names| signals(None, None, names));
    assert_eq!(new_ones(&mut past, &[a, none, b]), [false, false, true]);
}

#[test]
fn a_list_without_a_common_model_is_another_engine_once() {
    let mut past = Past::default();
    let mut list = |names: &[&str]| past.list(Dialect::Vllm, None, &models(names)).0;
    assert!(!list(&["tide-7b", "sql<tide-7b"]));
    assert!(!list(&["tide-7b"]), "adapters come and go");
    assert!(!list(&["tide-7b", "tide"]));
    assert!(!list(&[]), "an empty list tells nothing");
    assert!(list(&["reef-13b"]));
    assert!(!list(&["reef-13b"]));
}

#[test]
fn a_restart_that_was_told_is_not_told_again_by_the_list() {
    let mut past = Past::default();
    past.list(Dialect::Vllm, None, &models(&["tide-7b"]));
    assert_eq!(new_ones(&mut past, &[5.0, 1.0].map(|n| signals(None, Some(n), &[]))), [false, true]);
    assert!(!past.list(Dialect::Vllm, None, &models(&["reef-13b"])).0);
    assert!(past.list(Dialect::Vllm, None, &models(&["tide-7b"])).0, "that is the next one");
    assert_eq!(past.began(&signals(None, Some(0.0), &["tide-7b"])), Began::Before, "the list told it");
}

#[test]
fn engines_that_load_models_as_they_live_do_not_restart_by_it() {
    for dialect in [Dialect::Ollama, Dialect::Triton] {
        let mut past = Past::default();
        assert!(!past.list(dialect, None, &models(&["a"])).0);
        assert!(!past.list(dialect, None, &models(&["b"])).0);
    }
}

#[test]
fn the_expected_model_is_judged_when_that_changes() {
    let mut past = Past::default();
    let mut list = |names: &[&str]| past.list(Dialect::Vllm, Some("tide-7b"), &models(names)).1;
    assert_eq!(list(&[]), Some(Verdict::Unlisted), "an empty list says nothing of it");
    assert_eq!(list(&[]), None);
    assert_eq!(list(&["reef-13b"]), mismatch("reef-13b"));
    assert_eq!(list(&["reef-13b", "x"]), None);
    assert_eq!(list(&["tide-7b", "sql<tide-7b"]), Some(Verdict::Matches));
    assert_eq!(list(&["tide-7b"]), None);
    assert_eq!(list(&["sql<tide", "tide"]), mismatch("tide"), "the base is named, not an adapter");
    past.expect_anew();
    assert_eq!(past.list(Dialect::Vllm, Some("tide"), &models(&["tide"])).1, Some(Verdict::Matches));
    assert_eq!(past.list(Dialect::Vllm, None, &models(&["reef"])).1, None, "nothing is expected");
}

#[test]
fn an_adapter_can_be_what_is_expected() {
    let list = models(&["tide-7b", "sql<tide-7b"]);
    assert_eq!(Past::default().list(Dialect::Vllm, Some("sql"), &list).1, Some(Verdict::Matches));
}

#[test]
fn an_engine_that_answers_to_any_name_is_what_it_was_first() {
    for dialect in [Dialect::Llamacpp, Dialect::Tgi] {
        let mut past = Past::default();
        let mut list = |names: &[&str]| past.list(dialect, Some("tide-7b"), &models(names)).1;
        assert_eq!(list(&["/models/tide.gguf"]), Some(Verdict::Matches));
        assert_eq!(list(&["/models/reef.gguf"]), mismatch("/models/reef.gguf"));
        assert_eq!(list(&["/models/tide.gguf"]), Some(Verdict::Matches));
        assert_eq!(list(&["tide-7b"]), None);
    }
}

#[test]
fn what_ollama_has_in_memory_is_no_identity() {
    let mut past = Past::default();
    let mut list = || past.list(Dialect::Ollama, Some("tide"), &models(&["reef"])).1;
    assert_eq!((list(), list()), (Some(Verdict::Unlisted), None));
}

#[test]
fn labels_speak_for_a_list_only_as_far_as_they_prove_something() {
    let mut past = Past::default();
    let mut labels = |names: &[&str]| past.labels("tide-7b", &signals(None, None, names));
    assert_eq!(labels(&["tide"]), (None, None), "perhaps its first name of two");
    assert_eq!(labels(&[]), (None, None));
    assert_eq!(labels(&["tide-7b"]), (Some(true), Some(Verdict::Matches)));
    assert_eq!(labels(&["reef-13b"]), (Some(false), mismatch("reef-13b")));
    assert_eq!(labels(&["tide-7b"]), (Some(true), Some(Verdict::Matches)));
    assert_eq!(labels(&["tide-7b"]), (Some(true), None));
}

#[test]
fn another_engine_is_told_by_its_dialect() {
    let mut past = Past::default();
    assert_eq!(past.found(Dialect::Vllm), Found::First);
    past.keep(signals(None, Some(9.0), &[]), false);
    assert_eq!(past.found(Dialect::Vllm), Found::Same);
    assert_eq!(past.found(Dialect::Sglang), Found::Another);
    assert_eq!(past.began(&signals(None, Some(1.0), &[])), Began::Before, "that was told");
}

#[test]
fn signals_that_are_not_on_the_page_are_said_once() {
    let wanted = ["queue", "depth"].map(|metric| CustomSignal {
        metric: metric.to_owned(),
        labels: Vec::new(),
        combine: Default::default(),
    });
    let page = |missing: &[usize]| {
        let mut page = Signals::default();
        missing.iter().for_each(|&at| page.custom_missing[at] = true);
        page
    };
    let mut past = Past::default();
    assert!(past.missing(&wanted, &page(&[])).is_empty());
    assert_eq!(past.missing(&wanted, &page(&[1])), ["depth"]);
    assert!(past.missing(&wanted, &page(&[0, 1])).is_empty(), "it was said");
    past.expect_anew();
    assert_eq!(past.missing(&wanted, &page(&[0, 1])), ["queue", "depth"], "of other settings it was not");
}

#[test]
fn labels_tell_another_process_from_another_model() {
    let mut past = Past::default();
    past.keep(signals(Some(1e9), Some(9.0), &["a"]), false);
    assert_eq!(past.began(&signals(Some(1e9 + 60.0), Some(1.0), &["a"])), Began::Anew);
    assert_eq!(past.began(&signals(Some(1e9 + 60.0), Some(1.0), &["b"])), Began::AsAnother);
    assert_eq!(past.began(&signals(Some(1e9), Some(9.0), &[])), Began::Before);
}

#[test]
fn a_doubt_lasts_until_something_is_known() {
    let mut past = Past::default();
    assert!(!past.is_in_doubt(), "nothing was said yet");
    assert_eq!(past.doubt(), Some(Verdict::Doubt));
    assert_eq!((past.doubt(), past.is_in_doubt()), (None, true));
    assert_eq!(past.list(Dialect::Vllm, Some("a"), &models(&["a"])).1, Some(Verdict::Matches));
    assert!(!past.is_in_doubt());
    assert_eq!(past.doubt(), Some(Verdict::Doubt));
    assert_eq!(past.list(Dialect::Vllm, Some("a"), &models(&["b"])).1, mismatch("b"));
    assert_eq!((past.doubt(), past.is_in_doubt()), (None, false), "what is wrong is not doubted");
}

#[test]
fn an_engine_without_a_list_is_taken_as_it_is_unless_more_is_known_of_it() {
    // Nothing is known.
    let mut past = Past::default();
    assert_eq!((past.unlisted(false), past.unlisted(true)), (Some(Verdict::Unlisted), None));
    for known in ["a", "b"] {
        // Its list can no longer be read: it is still the one that it was.
        let mut past = Past::default();
        past.list(Dialect::Vllm, Some("a"), &models(&[known]));
        assert_eq!(past.unlisted(false), None);
        // After a gap it may be any.
        assert_eq!(past.unlisted(true), Some(Verdict::Unlisted), "{known}");
        let mut past = Past::default();
        past.list(Dialect::Vllm, Some("a"), &models(&[known]));
        past.doubt();
        assert_eq!(past.unlisted(false), Some(Verdict::Unlisted), "{known}");
    }
    assert_eq!(past.denied(), mismatch(""));
    assert_eq!(past.unlisted(false), None);
}
