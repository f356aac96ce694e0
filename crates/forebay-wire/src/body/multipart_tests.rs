use super::*;

const TYPE: &str = "multipart/form-data; boundary=XyZ";

fn part(name: &str, value: &str) -> String {
    format!("--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

fn form(parts: &[String]) -> Vec<u8> {
    [&parts.concat(), "--XyZ--\r\n"].concat().into_bytes()
}

fn file() -> String {
    concat!(
        "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a;\\\"b.wav\"\r\n",
        "Content-Type: audio/wav\r\n\r\nRIFF\r\n--Xy\r\n\r\nmodel=no\r\n"
    )
    .to_owned()
}

#[test]
fn finds_the_fields_beside_a_file() {
    let body = form(&[
        file(),
        part("model", "whisper-1"),
        part("stream", "True"),
        part("prompt", "a text"),
        part("user", "u"),
    ]);
    let scan = scan_multipart(TYPE, &body).unwrap();
    assert_eq!(scan.model, "whisper-1");
    assert_eq!(&body[scan.model_span.clone()], b"whisper-1");
    assert!(scan.stream && scan.multipart);
    assert_eq!((scan.choices, scan.prompt_bytes), (1, 6));
    assert_eq!(scan.user_hash, Some(xxhash_rust::xxh3::xxh3_64(b"u")));
    let spliced = splice_model(&body, &scan, "whisper-large");
    assert_eq!(scan_multipart(TYPE, &spliced).unwrap().model, "whisper-large");
    assert_eq!(spliced.len(), body.len() + 4);
    assert_eq!(splice_model(&body, &scan, "a\r\nb"), body);
    assert_eq!(splice_model_parts(&body.clone().into(), &scan, "a\nb").concat(), body);
}

#[test]
fn spellings_of_the_framing() {
    let body = b"preamble\r\n--a b'(1)\r\ncontent-disposition:form-data;NAME=model\r\nX: y\r\n\r\nm\r\n--a b'(1) \t\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n3\r\n--a b'(1)--trailer";
    let scan = scan_multipart("Multipart/Form-Data; charset=x; Boundary=\"a b'(1)\"", body).unwrap();
    assert_eq!((scan.model.as_str(), scan.choices), ("m", 3));
    // A part without headers, an empty value.
    let body = b"--XyZ\r\n\r\nx\r\n--XyZ\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\n\r\n--XyZ\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--XyZ--";
    assert_eq!(scan_multipart(TYPE, body).unwrap().model, "m");
}

#[test]
fn unusable_fields_are_named() {
    let param = |parts: &[String]| scan_multipart(TYPE, &form(parts)).unwrap_err().param().map(str::to_owned);
    let model = || part("model", "m");
    assert_eq!(param(&[file()]).as_deref(), Some("model"));
    assert_eq!(param(&[part("model", "")]).as_deref(), Some("model"));
    assert_eq!(param(&[model(), model()]).as_deref(), Some("model"));
    assert_eq!(param(&[model(), part("stream", "maybe")]).as_deref(), Some("stream"));
    assert_eq!(param(&[model(), part("n", "-1")]).as_deref(), Some("n"));
    assert!(scan_multipart(TYPE, &form(&[model(), part("stream", "0"), part("n", "99999999999")])).is_ok());
}

#[test]
fn broken_framing_is_refused_whole() {
    let whole = form(&[file(), part("model", "m")]);
    for cut in 0..whole.len() - "\r\n".len() {
        assert!(scan_multipart(TYPE, &whole[..cut]).is_err(), "{cut}");
    }
    for content_type in
        ["", "multipart/form-data", "multipart/form-data; boundary=", "application/json; boundary=XyZ"]
    {
        assert!(scan_multipart(content_type, &whole).is_err(), "{content_type}");
    }
    let encoded = part("model", "bQ==").replace("\r\n\r\n", "\r\ncontent-transfer-encoding: base64\r\n\r\n");
    let e = scan_multipart(TYPE, &form(&[encoded])).unwrap_err();
    assert!(e.to_string().contains("Content-Transfer-Encoding"), "{e}");
    assert!(scan_multipart(TYPE, &form(&vec![part("x", "y"); 1001])).is_err());
    assert!(
        scan_multipart(TYPE, &form(&[part("x", "y"), "--XyZ\r\nA: ".to_owned() + &"b".repeat(20_000)]))
            .is_err()
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, tail: Vec<u8>) {
        let body = [&bytes[..], b"\r\n--XyZ\r\n", &tail].concat();
        let _ = scan_multipart(TYPE, &body);
        let _ = scan_multipart(&String::from_utf8_lossy(&bytes), &tail);
    }
}
