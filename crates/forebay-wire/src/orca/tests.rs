use proptest::prelude::*;

use super::*;

fn report(header: &str) -> (OrcaReport, u32) {
    parse(header.as_bytes()).unwrap_or_else(|e| panic!("{header}: {e}"))
}

fn named(pairs: &[(&str, f64)]) -> Vec<(String, f64)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn vllm_as_recorded() {
    let (text, skipped) = report(
        "TEXT named_metrics.num_requests_waiting=0.0, named_metrics.kv_cache_usage_perc=0.0006408789196612474",
    );
    assert_eq!(skipped, 0);
    assert_eq!(text.kv_usage(), Some(0.000_640_878_9));
    assert_eq!(text.waiting(), Some(0));
    assert_eq!(text.cpu_utilization, None);
    let (json, skipped) =
        report(r#"JSON {"named_metrics": {"num_requests_waiting": 0.0, "kv_cache_usage_perc": 0.0}}"#);
    assert_eq!((json.kv_usage(), json.waiting(), skipped), (Some(0.0), Some(0), 0));
    // Two data-parallel ranks: each key twice.
    let (ranks, skipped) = report(
        "TEXT named_metrics.num_requests_waiting=3.0, named_metrics.num_requests_waiting=1.0, named_metrics.kv_cache_usage_perc=0.31746031746031744, named_metrics.kv_cache_usage_perc=0.33333333333333337",
    );
    assert_eq!((ranks.kv_usage(), ranks.waiting(), skipped), (Some(0.333_333_34), Some(3), 0));
}

#[test]
fn triton_as_documented() {
    let (report, skipped) =
        report("TEXT named_metrics.kv_cache_utilization=0.500000, named_metrics.max_token_capacity=65536");
    assert_eq!((report.kv_usage(), report.waiting(), skipped), (Some(0.5), None, 0));
    assert_eq!(report.metric("named_metrics.max_token_capacity"), Some(65536.0));
}

#[test]
fn text_in_both_spellings() {
    let expected = OrcaReport {
        cpu_utilization: Some(0.7),
        mem_utilization: Some(0.1),
        application_utilization: Some(1.2),
        rps_fractional: Some(1000.1),
        eps: Some(2.0),
        named: named(&[("foo", 123.0), ("vllm:kv", 0.5)]),
        utilization: named(&[("gpu", 0.9)]),
        request_cost: vec![],
    };
    let with_equals = "TEXT cpu_utilization=0.7, mem_utilization=0.1,application_utilization = 1.2 , rps_fractional=1000.1,eps=2,named_metrics.foo=123,named_metrics.vllm:kv=0.5, utilization.gpu=0.9";
    assert_eq!(report(with_equals), (expected.clone(), 0));
    assert_eq!(report(&with_equals.replace('=', ":")), (expected.clone(), 0));
    assert_eq!(report(&format!("  {with_equals},, ")), (expected, 0));
}

#[test]
fn entries_that_mean_nothing_are_skipped() {
    let (report, skipped) = report(
        "TEXT cpu_utilization=NaN, mem_utilization=-0.1, eps=inf, named_metrics.a=, named_metrics.=1, other=1, named_metrics.b=1e300, nonsense, application_utilization=0.5, rps_fractional=x",
    );
    assert_eq!(report, OrcaReport { application_utilization: Some(0.5), ..OrcaReport::default() });
    assert_eq!(skipped, 9);
}

#[test]
fn zero_is_not_reported_at_the_top_and_a_value_in_a_map() {
    for header in [
        "TEXT cpu_utilization=0, named_metrics.a=0",
        r#"JSON {"cpuUtilization":0,"namedMetrics":{"a":0}}"#,
        "BIN CQAAAAAAAAAAQgMKAWE=",
    ] {
        let (report, skipped) = report(header);
        assert_eq!((report.cpu_utilization, skipped), (None, 0), "{header}");
        assert_eq!(report.named, named(&[("a", 0.0)]), "{header}");
    }
}

#[test]
fn json_in_both_spellings() {
    let expected = OrcaReport {
        cpu_utilization: Some(0.5),
        mem_utilization: Some(0.25),
        application_utilization: Some(0.75),
        rps_fractional: Some(12.5),
        eps: Some(1.0),
        named: named(&[("queue", 3.0)]),
        utilization: named(&[("gpu", 0.5)]),
        request_cost: named(&[("tokens", 900.0)]),
    };
    let camel = r#"JSON {"cpuUtilization":0.5,"memUtilization":"0.25","applicationUtilization":0.75,"rpsFractional":12.5,"rps":"12","eps":1,"namedMetrics":{"queue":3},"utilization":{"gpu":0.5},"requestCost":{"tokens":900}}"#;
    assert_eq!(report(camel), (expected.clone(), 0));
    let snake = camel
        .replace("Utilization", "_utilization")
        .replace("Fractional", "_fractional")
        .replace("Metrics", "_metrics")
        .replace("Cost", "_cost");
    assert_eq!(report(&snake), (expected, 0));
    let odd = r#"JSON {"eps":"NaN","cpu_utilization":true,"named_metrics":{"a":"x","b":[1],"c":2},"new_field":1,"mem_utilization":null}"#;
    let (report, skipped) = report(odd);
    assert_eq!(report, OrcaReport { named: named(&[("c", 2.0)]), ..OrcaReport::default() });
    assert_eq!(skipped, 5);
}

/// A message with every field, as `protoc` would write it.
fn message() -> Vec<u8> {
    let mut out = vec![];
    let double = |out: &mut Vec<u8>, number: u8, value: f64| {
        out.push(number << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    };
    let entry = |out: &mut Vec<u8>, number: u8, key: &str, value: f64| {
        out.extend_from_slice(&[number << 3 | 2, (key.len() + 11) as u8, 10, key.len() as u8]);
        out.extend_from_slice(key.as_bytes());
        out.push(17);
        out.extend_from_slice(&value.to_le_bytes());
    };
    double(&mut out, 1, 0.5);
    double(&mut out, 2, 0.25);
    out.extend_from_slice(&[3 << 3, 0xac, 0x02]);
    entry(&mut out, 4, "tokens", 900.0);
    entry(&mut out, 5, "gpu", 0.9);
    double(&mut out, 7, 1.5);
    entry(&mut out, 8, "kv_cache_usage_perc", 0.125);
    double(&mut out, 9, 1.25);
    out
}

#[test]
fn binary_in_every_wrapping() {
    let expected = OrcaReport {
        cpu_utilization: Some(0.5),
        mem_utilization: Some(0.25),
        application_utilization: Some(1.25),
        rps_fractional: Some(300.0),
        eps: Some(1.5),
        named: named(&[("kv_cache_usage_perc", 0.125)]),
        utilization: named(&[("gpu", 0.9)]),
        request_cost: named(&[("tokens", 900.0)]),
    };
    assert_eq!(parse_message(&message()), Ok((expected.clone(), 0)));
    // As Python's base64 module writes one double and one entry.
    let known = "CQAAAAAAAOA/QgwKAWERAAAAAAAA4D8=";
    for base64 in [known, known.trim_end_matches('=')] {
        let half = OrcaReport { cpu_utilization: Some(0.5), named: named(&[("a", 0.5)]), ..<_>::default() };
        assert_eq!(report(&format!("BIN {base64}")), (half.clone(), 0));
        assert_eq!(parse_binary(base64.as_bytes()), Ok((half, 0)));
    }
    // A field of the future is skipped, whatever its type.
    let mut longer = message();
    longer.extend_from_slice(&[15 << 3 | 5, 0, 0, 0, 0, 12 << 3, 1, 13 << 3 | 2, 1, b'x']);
    assert_eq!(parse_message(&longer), Ok((expected, 3)));
}

#[test]
fn broken_messages_are_refused_where_they_break() {
    let whole = message();
    for len in 0..whole.len() {
        match parse_message(&whole[..len]) {
            // Cut between two fields.
            Ok(_) => {}
            Err(OrcaError::Message { at }) => assert!(at <= len, "{at} of {len}"),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(parse_message(&[0x0b]), Err(OrcaError::Message { at: 1 }));
    assert_eq!(parse_message(&[0xff; 11]), Err(OrcaError::Message { at: 10 }));
    // A length beyond everything.
    let long = [0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert_eq!(parse_message(&long), Err(OrcaError::Message { at: 11 }));
    // An entry that breaks off within its length.
    assert_eq!(parse_message(&[0x42, 2, 0x0a, 9]), Err(OrcaError::Message { at: 4 }));
}

#[test]
fn base64_is_checked() {
    for (text, at) in
        [("BIN =", 0), ("BIN A", 1), ("BIN AAA$", 3), ("BIN AA=A", 2), ("BIN AA=", 2), ("BIN A-_A", 1)]
    {
        assert_eq!(parse(text.as_bytes()), Err(OrcaError::Base64 { at }), "{text}");
    }
}

#[test]
fn values_of_another_kind_are_refused() {
    for header in ["", "cpu_utilization=0.5", "text cpu_utilization=0.5", "XML <a/>", "TEXTcpu=1"] {
        assert_eq!(parse(header.as_bytes()), Err(OrcaError::UnknownFormat), "{header}");
    }
    for header in ["JSON", "JSON [1]", "JSON {", "JSON 1", "JSON {} x"] {
        assert!(matches!(parse(header.as_bytes()), Err(OrcaError::Text { format: "JSON", .. })), "{header}");
    }
    assert!(matches!(parse(b"TEXT a=\xff"), Err(OrcaError::Text { format: "TEXT", .. })));
    assert_eq!(parse(&[b'A'; MAX_LEN + 1]), Err(OrcaError::TooLong { len: MAX_LEN + 1 }));
    assert_eq!(report("TEXT"), (OrcaReport::default(), 0));
}

#[test]
fn maps_are_bounded() {
    let entries: Vec<String> = (0..20).map(|i| format!("named_metrics.n{i}={i}")).collect();
    let (report, skipped) = report(&format!("TEXT {}, named_metrics.n0=7", entries.join(",")));
    assert_eq!((report.named.len(), skipped), (MAX_ENTRIES, 4));
    assert_eq!(report.metric("named_metrics.n0"), Some(7.0));
}

#[test]
fn utilization_as_in_a58() {
    let names = ["named_metrics.kv", "utilization.gpu"];
    let mut report = OrcaReport::default();
    assert_eq!(report.utilization_for(&names), None);
    report.cpu_utilization = Some(0.3);
    assert_eq!(report.utilization_for(&names), Some(0.3));
    report.named = named(&[("kv", 0.0)]);
    assert_eq!(report.utilization_for(&names), Some(0.3));
    report.named = named(&[("kv", 0.4)]);
    report.utilization = named(&[("gpu", 0.2), ("other", 1.0)]);
    assert_eq!(report.utilization_for(&names), Some(0.4));
    assert_eq!(report.utilization_for(&[]), Some(0.3));
    report.application_utilization = Some(0.1);
    assert_eq!(report.utilization_for(&names), Some(0.1));
}

#[test]
fn what_engines_cannot_mean() {
    let odd = OrcaReport {
        named: named(&[("kv_cache_usage_perc", 37.0), ("num_requests_waiting", 1e12)]),
        ..<_>::default()
    };
    assert_eq!((odd.kv_usage(), odd.waiting()), (None, None));
}

#[test]
fn written_reports() {
    let report = OrcaReport {
        application_utilization: Some(0.5),
        eps: Some(1e-9),
        named: named(&[
            ("kv", 0.25),
            ("a b", 1.0),
            ("a=b", 1.0),
            ("a,b", 1.0),
            ("é", 1.0),
            ("nan", f64::NAN),
        ]),
        utilization: named(&[("gpu", 1.0)]),
        ..OrcaReport::default()
    };
    assert_eq!(
        report.to_text(),
        "TEXT application_utilization=0.5, eps=1e-9, named_metrics.kv=0.25, utilization.gpu=1.0"
    );
    assert_eq!(OrcaReport::default().to_text(), "TEXT");
}

proptest! {
    #[test]
    fn any_value_is_survived(bytes: Vec<u8>, soup in "(TEXT|JSON|BIN) [-a-z_.=:,0-9A-Z{}\" +/]{0,60}") {
        let _ = parse(&bytes);
        let _ = parse(soup.as_bytes());
        let _ = parse_binary(&bytes);
        if let Ok((report, _)) = parse_message(&bytes) {
            prop_assert!(report.named.iter().all(|(_, v)| v.is_finite() && *v >= 0.0));
        }
    }

    #[test]
    fn what_is_written_is_read(
        app in prop::option::of(1e-9..1e6f64),
        rps in prop::option::of(1e-9..1e6f64),
        map in prop::collection::btree_map("[a-z_.]{1,8}", 0.0..1e6f64, 0..6),
    ) {
        let report = OrcaReport {
            application_utilization: app,
            rps_fractional: rps,
            named: map.into_iter().collect(),
            ..OrcaReport::default()
        };
        prop_assert_eq!(parse(report.to_text().as_bytes()), Ok((report, 0)));
    }
}
