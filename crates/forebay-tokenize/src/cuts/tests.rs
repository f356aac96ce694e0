use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;
use crate::Tokenizer;
use crate::parts::Parts;

fn added(content: &str) -> AddedToken {
    AddedToken::from(content, true).normalized(false)
}

fn cuts(tokens: &[AddedToken]) -> Cuts {
    Cuts::of((0..).zip(tokens.iter().cloned()))
}

fn contents(cuts: &Cuts) -> Vec<&str> {
    cuts.tokens.iter().map(|(token, _)| &**token).collect()
}

#[test]
fn only_tokens_that_always_split_are_cut_behind() {
    let tokens = [
        added("<|end|>"),
        added("<|start|>"),
        added("<|end|>\n"),
        added("<|normal|>").normalized(true),
        added("<|word|>").single_word(true),
        added("<|right|>").rstrip(true),
        added("<|left|>").lstrip(true),
        added("  <|spaces|>"),
        added("aXa"),
        added("[A]"),
        added("]["),
    ];
    // `<|end|>` may be the beginning of the longer one, which itself is fine;
    // `aXa` can overlap a second, and `][` the others in brackets.
    assert_eq!(contents(&cuts(&tokens)), ["<|end|>\n", "<|left|>", "<|right|>", "<|start|>"]);
    assert!(contents(&cuts(&[])).is_empty());
}

#[test]
fn parts_begin_with_the_token_before_and_are_not_tiny() {
    let cuts = cuts(&[added("<e>"), added("<s>")]);
    let text = format!("<s>{}<e><s>b<e><s>{}<e>c", "a".repeat(80), "d".repeat(80));
    let parts: Vec<(&str, Option<u32>)> =
        cuts.segments(&text).into_iter().map(|part| (&text[part.range], part.lead)).collect();
    let (first, second) =
        (format!("<s>{}<e>", "a".repeat(80)), format!("<e><s>b<e><s>{}<e>", "d".repeat(80)));
    assert_eq!(parts, [(&*first, None), (&second, Some(0)), ("<e>c", Some(0))]);
    assert!(cuts.segments("").is_empty());
    assert_eq!(cuts.segments("no token").len(), 1);
    // The end of the text is no place to cut.
    assert_eq!(cuts.segments(&first).len(), 1);
    assert_eq!(cuts.segments("<e><").len(), 1);
}

/// Tokenizers of every kind, with added tokens of every kind.
fn tokenizers() -> &'static [Tokenizer] {
    static ALL: OnceLock<Vec<Tokenizer>> = OnceLock::new();
    ALL.get_or_init(make_tokenizers)
}

fn make_tokenizers() -> Vec<Tokenizer> {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/");
    let file = |name: &str| std::fs::read(format!("{data}{name}.json")).unwrap();
    let mut all = vec![file("bpe"), file("unigram")];
    let odd = [
        r#"{"content":"<|eot_id|>\n","rstrip":false,"lstrip":false,"single_word":false,"normalized":false}"#,
        r#"{"content":"<l>","rstrip":false,"lstrip":true,"single_word":false,"normalized":false}"#,
        r#"{"content":"<r>","rstrip":true,"lstrip":false,"single_word":false,"normalized":false}"#,
        r#"{"content":"<w>","rstrip":false,"lstrip":false,"single_word":true,"normalized":false}"#,
        r#"{"content":"<n>","rstrip":false,"lstrip":true,"single_word":false,"normalized":true}"#,
        r#"{"content":"|><|","rstrip":false,"lstrip":false,"single_word":false,"normalized":false}"#,
        r#"{"content":"   ","rstrip":false,"lstrip":false,"single_word":false,"normalized":false}"#,
    ];
    for normalizer in [
        r#"{"type":"Prepend","prepend":"_"}"#,
        r#"{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"Strip","strip_left":true,"strip_right":true}]}"#,
    ] {
        for name in ["bpe", "unigram"] {
            let mut json: serde_json::Value = serde_json::from_slice(&file(name)).unwrap();
            json["normalizer"] = serde_json::from_str(normalizer).unwrap();
            for (at, token) in odd.iter().enumerate() {
                let mut token: serde_json::Value = serde_json::from_str(token).unwrap();
                token["id"] = (5_000 + at).into();
                token["special"] = (at % 2 == 0).into();
                json["added_tokens"].as_array_mut().unwrap().push(token);
            }
            all.push(json.to_string().into_bytes());
        }
    }
    let word_piece = r###"{"version":"1.0","truncation":{"direction":"Right","max_length":3,"strategy":"LongestFirst","stride":0},"padding":null,
        "added_tokens":[{"id":0,"content":"[UNK]","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
                        {"id":1,"content":"[SEP]","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
                        {"id":2,"content":"[INST]","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
        "normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
        "pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":null,"decoder":null,
        "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":20,
                 "vocab":{"[UNK]":0,"[SEP]":1,"[INST]":2,"the":3,"pool":4,"##s":5,"a":6,"##b":7,"x":8,"1":9,"##2":10,".":11}}}"###;
    all.push(word_piece.as_bytes().to_vec());
    all.iter().map(|json| Tokenizer::from_json(json).unwrap()).collect()
}

fn pieces() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "<|eot_id|>",
        "<|im_end|>",
        "<|im_start|>",
        "<|end_header_id|>",
        "[INST]",
        "[/INST]",
        "[SEP]",
        "</think>",
        "<think>",
        "<|eot_id|>\n",
        "<r> ",
        "<r>\n",
        "<l>",
        "<r>",
        "<w>",
        "<n>",
        "|><|",
        "   ",
        "<|",
        "|>",
        "<",
        "[",
        "]",
        "[INST",
    ]);
    let word = prop::sample::select(vec![
        " ",
        "\n",
        "  ",
        "\n\n",
        "the",
        " pools",
        "ab",
        "12",
        "x1.",
        "é",
        "e\u{301}",
        "\u{301}",
        "東京",
        "🚀",
        "ﬁ",
        "½",
        "\u{a0}",
        "The forebay holds the water of the turbines. ",
        "'s",
        "\u{200b}",
        "\t",
        "_",
        "▁",
    ]);
    let piece =
        prop_oneof![3 => token.prop_map(str::to_owned), 5 => word.prop_map(str::to_owned), 1 => ".{0,8}"];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn parts_give_the_tokens_of_the_whole(texts in prop::collection::vec(pieces(), 1..4)) {
        for tokenizer in tokenizers() {
            let parts = Parts::new(4_000);
            // A conversation: every text goes on from the one before.
            let mut so_far = String::new();
            for text in &texts {
                so_far += text;
                let whole = tokenizer.encode(&so_far, false).unwrap();
                prop_assert_eq!(&*parts.encode(tokenizer, &so_far, false).unwrap(), &*whole, "{:?}", so_far);
                prop_assert_eq!(&*parts.encode(tokenizer, &so_far, false).unwrap(), &*whole, "again: {:?}", so_far);
            }
        }
    }

    #[test]
    fn parts_are_the_text(text in pieces()) {
        for tokenizer in tokenizers() {
            let parts = tokenizer.cuts.segments(&text);
            let mut end = 0;
            for part in &parts {
                prop_assert!(part.range.start <= end && part.range.end > end);
                prop_assert_eq!(part.lead.is_some(), part.range.start < end);
                end = part.range.end;
            }
            prop_assert_eq!(end, text.len());
        }
    }
}
