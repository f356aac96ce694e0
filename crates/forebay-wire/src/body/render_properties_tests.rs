//! Properties of the rendered blocks.

use proptest::prelude::*;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    blocks::Blocks,
    properties_tests::{APIS, request, respell, value},
    *,
};

/// A text of ASCII letters, of a few blocks.
fn letters() -> impl Strategy<Value = String> {
    "[a-z\"\\\\\n ]{1,1500}"
}

/// As many escapes as there are characters, or as few as there can be.
fn spell(value: &Value, escaped: bool) -> String {
    let mut out = String::new();
    if escaped {
        respell(value, false, &mut out)
    } else {
        out = value.to_string()
    }
    out
}

fn conversation(texts: &[String]) -> Value {
    let roles = ["system", "user", "assistant"];
    let messages: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(nth, text)| json!({"role": roles[nth % 3], "content": text}))
        .collect();
    json!({"model": "m", "messages": messages})
}

fn blocks_of(body: &Value, escaped: bool) -> Vec<u64> {
    scan_json(Api::Chat, spell(body, escaped).as_bytes()).unwrap().text_blocks
}

proptest! {
    #[test]
    fn spelling_and_top_level_order_do_not_matter(
        request in request(),
        tools in prop::option::of(value()),
        api in prop::sample::select(APIS.to_vec()),
    ) {
        let mut body = Value::Object(request);
        if let Some(tools) = tools {
            body["tools"] = tools;
        }
        let scan = |escaped| scan_json(api, spell(&body, escaped).as_bytes());
        match (scan(false), scan(true)) {
            (Ok(a), Ok(b)) => {
                prop_assert_eq!(a.text_blocks.len(), a.rendered_bytes / BLOCK_BYTES);
                prop_assert_eq!(a.text_blocks, b.text_blocks, "{}", body);
                prop_assert_eq!(a.rendered_bytes, b.rendered_bytes, "{}", body);
                prop_assert_eq!(a.cache_salt, b.cache_salt);
                let ids = |scan: Option<std::ops::Range<usize>>, escaped| {
                    scan.map(|span| token_ids(spell(&body, escaped).as_bytes(), span))
                };
                prop_assert_eq!(ids(a.token_ids_span, false), ids(b.token_ids_span, true));
            }
            (Err(_), Err(_)) => {}
            (a, b) => prop_assert!(false, "{:?} and {:?} of {}", a, b, body),
        }
    }

    #[test]
    fn a_changed_byte_changes_its_block_alone(
        mut texts in prop::collection::vec(letters(), 1..6),
        nth: prop::sample::Index,
        at: prop::sample::Index,
        escaped: bool,
    ) {
        let nth = nth.index(texts.len());
        let at = at.index(texts[nth].len());
        let before = blocks_of(&conversation(&texts), escaped);
        // A role and its marks before every text.
        let roles = ["system", "user", "assistant"];
        let start: usize = (0..nth).map(|n| texts[n].len()).sum::<usize>()
            + (0..=nth).map(|n| roles[n % 3].len() + 2).sum::<usize>();
        texts[nth].replace_range(at..=at, "Z");
        let after = blocks_of(&conversation(&texts), !escaped);
        prop_assert_eq!(before.len(), after.len());
        let changed: Vec<usize> = (0..before.len()).filter(|&n| before[n] != after[n]).collect();
        let block = (start + at) / BLOCK_BYTES;
        prop_assert_eq!(changed, if block < before.len() { vec![block] } else { vec![] });
    }

    #[test]
    fn an_inserted_byte_leaves_what_is_before(
        mut texts in prop::collection::vec(letters(), 1..6),
        nth: prop::sample::Index,
        at: prop::sample::Index,
    ) {
        let nth = nth.index(texts.len());
        let at = at.index(texts[nth].len());
        let before = blocks_of(&conversation(&texts), false);
        texts[nth].insert(at, 'Z');
        let after = blocks_of(&conversation(&texts), true);
        let start: usize = texts[..nth].iter().map(|text| text.len() + 6).sum();
        let same = ((start + at) / BLOCK_BYTES).min(before.len());
        prop_assert_eq!(&before[..same], &after[..same]);
    }

    #[test]
    fn a_text_does_not_care_how_it_is_cut(text in prop::collection::vec(any::<u8>(), 0..2000), cuts in prop::collection::vec(0..600usize, 0..12)) {
        let mut blocks = Blocks::new(0);
        let mut rest = &text[..];
        for cut in cuts {
            let (run, behind) = rest.split_at(cut.min(rest.len()));
            match (cut % 7, run) {
                (0, run) => run.iter().for_each(|byte| blocks.push_byte(*byte)),
                (1, [a, b, c, d, tail @ ..]) => {
                    blocks.push_word([*a, *b, *c, *d]);
                    blocks.push(tail);
                }
                _ => blocks.push(run),
            }
            rest = behind;
        }
        blocks.push(rest);
        prop_assert_eq!(blocks.total(), text.len());
        let expected: Vec<u64> = text.as_chunks::<BLOCK_BYTES>().0.iter().map(|b| xxh3_64(b)).collect();
        prop_assert_eq!(blocks.into_hashes(), expected);
    }

    #[test]
    fn a_prompt_is_hashed_as_it_decodes(
        pieces in prop::collection::vec(prop_oneof![
            any::<String>(), "[a-z]{0,200}", "[\"\\\\\n\t]{1,5}", "[é潮🦀]{1,80}", Just("x".repeat(700)),
        ], 0..12),
        escaped: bool,
    ) {
        let text = pieces.concat();
        let body = spell(&json!({"model": "m", "prompt": text}), escaped);
        let scan = scan_json(Api::Completions, body.as_bytes()).unwrap();
        let expected: Vec<u64> =
            text.as_bytes().as_chunks::<BLOCK_BYTES>().0.iter().map(|b| xxh3_64(b)).collect();
        prop_assert_eq!((scan.text_blocks, scan.rendered_bytes), (expected, text.len()));
    }

    #[test]
    fn nothing_panics(
        request in request(),
        api in prop::sample::select(APIS.to_vec()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, edit()), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let _ = scan_json(api, &noise);
        let mut body = Value::Object(request).to_string().into_bytes();
        for (at, what, byte) in edits {
            let at = at.index(body.len() + 1);
            match what {
                0 => body.insert(at, byte),
                1 if at < body.len() => body[at] = byte,
                _ => body.truncate(at.max(1)),
            }
        }
        if let Ok(scan) = scan_json(api, &body) {
            prop_assert_eq!(scan.text_blocks.len(), scan.rendered_bytes / BLOCK_BYTES);
            if let Some(span) = scan.token_ids_span {
                let _ = token_ids(&noise, span.clone());
                prop_assert!(body[span].starts_with(b"["));
            }
        }
    }
}

fn edit() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(br#"{}[],:"\ue.-+0 "#.to_vec())]
}

#[test]
fn lone_surrogates_stay_apart() {
    let blocks = |escape: &str| {
        let body = format!(r#"{{"model":"m","prompt":"{escape}{}"}}"#, "x".repeat(300));
        scan_json(Api::Completions, body.as_bytes()).unwrap().text_blocks
    };
    assert_eq!(blocks(r"\ud83e\udd80"), blocks("🦀"));
    assert_ne!(blocks(r"\ud83e"), blocks(r"\ud83d"));
    assert_ne!(blocks(r"\ud83e"), blocks(r"\ufffd"));
    assert_ne!(blocks(r"\udd80\ud83e"), blocks("🦀"));
}
