use std::time::Duration;

use super::*;
use crate::scalar::Kind;

type Any = Span<0, { 100 * 86_400_000 }>;

#[test]
fn durations_are_exact() {
    for (text, nanos) in [
        ("0", 0),
        ("0s", 0),
        ("2s", 2_000_000_000),
        ("500ms", 500_000_000),
        ("1.5s", 1_500_000_000),
        ("0.5ms", 500_000),
        ("250us", 250_000),
        ("15m", 900_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0.000000001d", 86_400),
        ("7d", 604_800_000_000_000),
    ] {
        assert_eq!(Any::parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
    }
    for text in ["", "s", "1", "1 s", "1S", "1min", "+1s", "-1s", "1..2s", ".s", "1.0000000001s", "∞s", "१s"]
    {
        assert!(Any::parse(text).is_err(), "{text}");
    }
    assert!(Any::parse("99999999999999999999s").is_err());
    assert!(Any::parse("18446744073709551615d").is_err());
}

#[test]
fn ranges_include_their_ends() {
    assert!(Span::<100, 1000>::parse("100ms").is_ok());
    assert!(Span::<100, 1000>::parse("1s").is_ok());
    assert!(Span::<100, 1000>::parse("99.999ms").is_err());
    assert!(Span::<100, 1000>::parse("1.000001s").is_err());
    assert_eq!(SpanOrOff::<1000>::parse("0s"), Ok(None));
    assert_eq!(SpanOrOff::<1000>::parse("1ms"), Ok(Some(Duration::from_millis(1))));
    assert!(SpanOrOff::<1000>::parse("0.1ms").is_err());
    assert_eq!(Int::<1, 9>::parse("9"), Ok(9));
    assert!(Int::<1, 9>::parse("10").is_err());
    assert!(Int::<0, 9>::parse("+1").is_err());
}

#[test]
fn sizes_are_powers_of_two() {
    type Any = Bytes<0, { u64::MAX }>;
    for (text, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("64KiB", 65_536),
        ("64MiB", 67_108_864),
        ("1GiB", 1 << 30),
        ("2TiB", 1 << 41),
    ] {
        assert_eq!(Any::parse(text), Ok(bytes), "{text}");
    }
    for (text, meant) in [("64MB", "64MiB"), ("64 mb", "64MiB"), ("1g", "1GiB"), ("8kib", "8KiB")] {
        assert_eq!(Any::parse(text).unwrap_err().nearest.as_deref(), Some(meant), "{text}");
    }
    for text in ["", "MiB", "-1", "1.5GiB", "18446744073709551616", "99999999999TiB", "1XiB", "1éB"] {
        assert!(Any::parse(text).is_err(), "{text}");
    }
}

#[test]
fn numbers_are_finite_and_plain() {
    assert_eq!(Positive::parse("1e-3"), Ok(0.001));
    assert_eq!(Share::parse("-0").map(f64::is_sign_positive), Ok(true));
    assert_eq!(AtLeastOne::parse("1"), Ok(1.0));
    for text in ["", "nan", "inf", "infinity", "1e400", "0x1", "1_0", "1,5", " 1", "0.99"] {
        assert!(AtLeastOne::parse(text).is_err(), "{text}");
    }
}
