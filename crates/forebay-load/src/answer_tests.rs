use super::*;

const STREAM: &str = concat!(
    ": a comment\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hé\\n\"}}]}\r\n\r\n",
    "event: message\ndata: {\"choices\":[{\"delta\":{\"content\":\"llo\"},\ndata: \"finish_reason\":\"length\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":2,",
    "\"prompt_tokens_details\":{\"cached_tokens\":5}}}\r\rdata: [DONE]\n\n",
);

fn read(chunks: &[&[u8]]) -> (Answer, Vec<u64>) {
    let mut reader = AnswerReader::new(true);
    let start = Instant::now();
    let counts = chunks
        .iter()
        .enumerate()
        .map(|(i, c)| reader.feed(c, start + std::time::Duration::from_secs(i as u64)))
        .collect();
    (reader.finish(start), counts)
}

#[test]
fn reads_the_same_whatever_the_cuts() {
    let bytes = STREAM.as_bytes();
    for cut in 0..=bytes.len() {
        let (answer, counts) = read(&[&bytes[..cut], &bytes[cut..]]);
        assert_eq!(answer.text, "Hé\nllo", "cut at {cut}");
        assert_eq!((answer.events, counts.iter().sum::<u64>()), (2, 2));
        let usage = answer.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens), (12, 5, 2));
        assert!(answer.done && answer.states_cached);
        assert_eq!(answer.error, None);
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&single).0.text, "Hé\nllo");
}

#[test]
fn an_empty_first_delta_is_not_the_first_token() {
    let event = |text| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let events = [event(""), event("a"), event("b")];
    let chunks: Vec<&[u8]> = events.iter().map(|e| e.as_bytes()).collect();
    let (answer, counts) = read(&chunks);
    assert_eq!(counts, [0, 1, 1]);
    assert_eq!(answer.last.unwrap() - answer.first.unwrap(), std::time::Duration::from_secs(1));
}

#[test]
fn completions_and_answers_without_text() {
    let (answer, _) =
        read(&[b"data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"b\"}]}\n\n"]);
    assert_eq!((answer.text.as_str(), answer.events, answer.done), ("ab", 2, false));
    let (answer, _) = read(&[b"data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n"]);
    assert_eq!(answer.events, 0);
    assert!(answer.first.is_some());
}

#[test]
fn a_last_event_without_its_blank_line_counts() {
    for end in ["", "\n", "\r"] {
        assert!(read(&[format!("data: [DONE]{end}").as_bytes()]).0.done);
    }
    assert!(!read(&[b"data: [DON"]).0.done);
}

#[test]
fn failures_inside_a_stream() {
    for (stream, want) in [
        ("data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n", "out of memory"),
        ("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"abort\"}]}\n\n", "abort"),
        ("data: {\"object\":\"error\",\"message\":\"too long\"}\n\n", "too long"),
        ("event: error\ndata: {\"message\":\"gone\"}\n\n", "gone"),
        ("data: nonsense\n\n", "not understood"),
    ] {
        let (answer, _) = read(&[stream.as_bytes()]);
        assert!(answer.error.as_deref().unwrap().contains(want), "{:?}", answer.error);
    }
    let (answer, _) = read(&[b"data: {\"choices\":[],\"error\":null}\n\n"]);
    assert_eq!(answer.error, None);
    let (answer, _) = read(&[b"data: ", &vec![b'x'; MAX_EVENT + 1]]);
    assert!(answer.error.unwrap().contains("longer than"));
}
