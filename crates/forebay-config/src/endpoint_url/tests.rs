use super::*;

fn url(text: &str) -> EndpointUrl {
    text.parse().unwrap()
}

#[test]
fn one_canonical_spelling() {
    for (written, canonical, authority) in [
        ("http://127.0.0.1:8001", "http://127.0.0.1:8001", "127.0.0.1:8001"),
        ("HTTP://Node-1.Example", "http://node-1.example:80", "node-1.example:80"),
        ("http://node_1:8000/", "http://node_1:8000", "node_1:8000"),
        ("http://node:08000//", "http://node:8000", "node:8000"),
        ("http://node:1/vllm/a/", "http://node:1/vllm/a", "node:1"),
        ("http://node.:1", "http://node.:1", "node.:1"),
        ("http://[::1]", "http://[::1]:80", "[::1]:80"),
        ("http://[2001:DB8:0:0:0:0:0:0007]:1", "http://[2001:db8::7]:1", "[2001:db8::7]:1"),
        ("http://[::ffff:127.0.0.1]:1", "http://127.0.0.1:1", "127.0.0.1:1"),
        ("http://[FE80::1%25lo]:1", "http://[fe80::1%25lo]:1", "[fe80::1]:1"),
        ("http://[fe80::1%lo]:1", "http://[fe80::1%25lo]:1", "[fe80::1]:1"),
        ("http://[fe80::1%252]:1", "http://[fe80::1%252]:1", "[fe80::1]:1"),
    ] {
        let read = url(written);
        assert_eq!(read.to_string(), canonical, "{written}");
        assert_eq!(read.authority(), authority, "{written}");
        assert_eq!(url(canonical), read, "the canonical form of {written} reads back");
    }
}

#[test]
fn zones_and_prefixes_tell_endpoints_apart() {
    assert_ne!(url("http://[fe80::1%25a]:1"), url("http://[fe80::1%25b]:1"));
    assert_ne!(url("http://[fe80::1%25a]:1"), url("http://[fe80::1]:1"));
    assert_ne!(url("http://a:1/x"), url("http://a:1/y"));
    // Names are not resolved here.
    assert_ne!(url("http://localhost:1"), url("http://127.0.0.1:1"));
}
