use std::time::Duration;

use super::*;

fn request(input: u32, blocks: &[u64]) -> TraceRequest {
    TraceRequest { arrival: Duration::ZERO, input_tokens: input, output_tokens: 7, blocks: blocks.to_vec() }
}

fn prompts(form: PromptForm) -> Prompts {
    Prompts::new(form, 32_000, 1).unwrap()
}

#[test]
fn equal_block_ids_give_equal_tokens_and_lengths_are_exact() {
    let p = prompts(PromptForm::Ids);
    let a = p.ids(0, &request(1_100, &[0, 5, 6]));
    let b = p.ids(1, &request(1_536, &[0, 5, 9]));
    let c = p.ids(2, &request(1_024, &[0, 5]));
    assert_eq!((a.len(), b.len(), c.len()), (1_100, 1_536, 1_024));
    assert_eq!(a[..1_024], b[..1_024]);
    assert_eq!(a[..1_024], c[..]);
    assert_ne!(a[1_024..], b[1_024..1_100]);
    assert!(a.iter().chain(&b).all(|id| (256..32_000).contains(id)));
}

#[test]
fn without_blocks_every_prompt_is_fresh_and_seeded() {
    let p = prompts(PromptForm::Ids);
    let (a, b) = (p.ids(0, &request(40, &[])), p.ids(1, &request(40, &[])));
    assert_ne!(a[..8], b[..8]);
    assert_eq!(a, p.ids(0, &request(40, &[])));
    let other = Prompts::new(PromptForm::Ids, 32_000, 2).unwrap();
    assert_ne!(a, other.ids(0, &request(40, &[])));
    assert_ne!(p.ids(0, &request(512, &[3])), other.ids(0, &request(512, &[3])));
}

#[test]
fn bodies_are_json_with_the_lengths_of_the_trace() {
    let body = prompts(PromptForm::Ids).body(0, &request(600, &[1, 2]), "m \"x\"");
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(json["model"], "m \"x\"");
    assert_eq!(json["prompt"].as_array().unwrap().len(), 600);
    assert_eq!((json["max_tokens"].as_u64(), json["min_tokens"].as_u64()), (Some(7), Some(7)));
    assert_eq!(json["ignore_eos"], true);
    assert_eq!(json["stream_options"]["include_usage"], true);

    let body = prompts(PromptForm::Text).body(0, &request(600, &[1, 2]), "m");
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(json["prompt"].as_str().unwrap().len(), 2_400);
    let shared = prompts(PromptForm::Text).body(1, &request(700, &[1, 3]), "m");
    assert_eq!(body[..2_048], shared[..2_048], "shared blocks share their text");
}

#[test]
fn a_small_vocabulary_is_refused() {
    assert!(Prompts::new(PromptForm::Ids, 511, 1).err().unwrap().to_string().contains("511"));
}
