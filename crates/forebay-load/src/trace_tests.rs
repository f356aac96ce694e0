use super::*;

fn traces() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces")
}

fn error(text: &str) -> String {
    parse("t", text.as_bytes(), None).err().unwrap().to_string()
}

const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

#[test]
fn reads_the_mooncake_trace() {
    let trace = read(&traces().join("mooncake_conversation.jsonl"), None).unwrap();
    assert_eq!((trace.format, trace.requests.len()), (TraceFormat::Mooncake, 12_031));
    let first = &trace.requests[0];
    assert_eq!((first.input_tokens, first.output_tokens, first.blocks.len()), (6_758, 500, 14));
    assert!(trace.requests.iter().all(|r| r.blocks[0] == 0), "block 0 is in every request");
    assert_eq!(trace.requests[12_030].arrival, Duration::from_millis(3_536_999));
}

#[test]
fn reads_the_azure_trace() {
    let trace = read(&traces().join("azure_2023_conv.csv"), Some(1_999)).unwrap();
    assert_eq!((trace.format, trace.requests.len()), (TraceFormat::Azure, 1_999));
    let second = &trace.requests[1];
    assert_eq!((second.input_tokens, second.output_tokens), (396, 109));
    assert_eq!(second.arrival, Duration::from_nanos(4_314_579_000));
    assert!(second.blocks.is_empty());
}

#[test]
fn the_limit_stops_before_a_bad_line() {
    let text = format!("{AZURE}2023-11-16 18:15:46.68,374,44\nbroken\n");
    assert_eq!(parse("t", text.as_bytes(), Some(1)).unwrap().requests.len(), 1);
    assert!(parse("t", text.as_bytes(), None).is_err());
}

#[test]
fn times_cross_midnight_months_and_leap_days() {
    let text = format!(
        "\u{feff}{AZURE}2024-02-28 23:59:59,1,1\r\n\r\n2024-02-29T00:00:00.5Z,1,1\r\n\
         2024-03-01 00:00:00.009930+00:00,1,1\r\n2025-01-01 00:00:00,1,1\r\n"
    );
    let arrivals: Vec<Duration> =
        parse("t", text.as_bytes(), None).unwrap().requests.iter().map(|r| r.arrival).collect();
    let day = 86_400_000_000;
    let micros = [0, 1_500_000, day + 1_009_930, 307 * day + 1_000_000];
    assert_eq!(arrivals, micros.map(Duration::from_micros));
}

#[test]
fn rows_out_of_order_are_sorted() {
    let text = format!("{AZURE}2023-11-16 18:00:02,2,1\n2023-11-16 18:00:01,1,1\n2023-11-16 18:00:02,3,1\n");
    let requests = parse("t", text.as_bytes(), None).unwrap().requests;
    let seen: Vec<(u64, u32)> = requests.iter().map(|r| (r.arrival.as_secs(), r.input_tokens)).collect();
    assert_eq!(seen, [(0, 1), (1, 2), (1, 3)]);
}

#[test]
fn errors_name_file_line_and_reason() {
    let row = r#"{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2]}"#;
    let cases = [
        ("a,b\n1,2\n".to_owned(), "t, line 1: neither a Mooncake trace"),
        (format!("{AZURE}2023-11-16 18:15:46.68,374\n"), "t, line 2: 2 columns, expected 3"),
        (format!("{AZURE}2023-11-16 18:15:46.68,x,4\n"), "t, line 2: ContextTokens is \"x\""),
        (format!("{AZURE}2023-11-16 18:15:46.68,4,0\n"), "t, line 2: GeneratedTokens is 0, expected 1"),
        (format!("{AZURE}2023-13-16 18:15:46.68,4,1\n"), "t, line 2: the time is \"2023-13-16"),
        (format!("{AZURE}yesterday,4,1\n"), "t, line 2: the time is \"yesterday\""),
        (format!("{row}\n\n{{\"timestamp\":1}}\n"), "t, line 3: not a request: missing field `input_length`"),
        (format!("{row}\n{{nope\n"), "t, line 2: not a request"),
        (row.replace("[1,2]", "[1]"), "t, line 1: 1 hash_ids for 600 input tokens, expected 2"),
        (row.replace("600", "99999999999"), "t, line 1: input_length is 99999999999"),
        (AZURE.to_owned(), "t: the trace has no requests"),
        (String::new(), "t: the trace has no requests"),
    ];
    for (text, want) in cases {
        let error = error(&text);
        assert!(error.starts_with(want), "{error}\nexpected: {want}");
    }
    let missing = read(Path::new("/no/such/trace.csv"), None).err().unwrap().to_string();
    assert!(missing.starts_with("/no/such/trace.csv: "), "{missing}");
}

#[test]
fn a_line_without_end_is_not_read_to_its_end() {
    // As /dev/zero is: read to its end, this test would have none.
    let endless = std::io::BufReader::new(std::io::repeat(0));
    let said = parse("t", endless, None).unwrap_err().to_string();
    assert_eq!(said, "t, line 1: has more than 1 MiB, which is no request");
    let row = r#"{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [1]}"#;
    let padded = |bytes: usize| format!("{row}\n{row}{}\n", " ".repeat(bytes - row.len() - 1));
    assert_eq!(parse("t", padded(1 << 20).as_bytes(), None).unwrap().requests.len(), 2);
    assert!(error(&padded((1 << 20) + 1)).starts_with("t, line 2: has more than 1 MiB"));
    // The longest prompt that is believed fits, whatever its blocks are called.
    let ids = vec![u64::MAX; (MAX_TOKENS / u64::from(BLOCK_TOKENS)) as usize];
    let longest =
        format!(r#"{{"timestamp":0,"input_length":{MAX_TOKENS},"output_length":2,"hash_ids":{ids:?}}}"#);
    assert_eq!(parse("t", longest.as_bytes(), None).unwrap().requests.len(), 1);
    let said = parse("t", &b"\xff\xfe\n"[..], None).unwrap_err().to_string();
    assert_eq!(said, "t, line 1: not UTF-8 text");
}
