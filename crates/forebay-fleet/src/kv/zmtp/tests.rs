//! Bytes of a peer, as libzmq 4.3 sends them, and of peers that are none.

use tokio::io::{DuplexStream, duplex};

use super::*;

const LIMITS: Limits = Limits { message: 1000, time: Duration::from_millis(200) };

/// libzmq's greeting: version 3.1.
fn greeting() -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    bytes
}

fn ready(kind: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend((kind.len() as u32).to_be_bytes());
    body.extend(kind.as_bytes());
    let mut frame = Vec::new();
    put_frame(COMMAND, &body, &mut frame);
    frame
}

/// A connection whose peer has said `bytes`; the peer stays open.
async fn open(socket: Socket, bytes: &[&[u8]]) -> (Result<Connection, ZmtpError>, DuplexStream) {
    let (ours, mut theirs) = duplex(1 << 16);
    for part in bytes {
        theirs.write_all(part).await.unwrap();
    }
    (Connection::open(Box::new(ours), socket, LIMITS).await, theirs)
}

async fn open_sub(after: &[u8]) -> (Connection, DuplexStream) {
    let (connection, theirs) = open(Socket::Sub, &[&greeting(), &ready("PUB"), after]).await;
    (connection.unwrap(), theirs)
}

#[tokio::test]
async fn what_we_say_first() {
    let (mut connection, mut theirs) = open_sub(b"").await;
    connection.subscribe(b"kv@").await.unwrap();
    let mut said = vec![0; 64 + 2 + 6 + 12 + 7 + 9 + 4 + 2 + 4];
    theirs.read_exact(&mut said).await.unwrap();
    assert_eq!(said[..16], *b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL");
    assert_eq!(
        said[64..],
        *b"\x04\x26\x05READY\x0bSocket-Type\0\0\0\x03SUB\x08Identity\0\0\0\0\0\x04\x01kv@"
    );
}

#[tokio::test]
async fn messages_short_and_long_with_commands_between() {
    let mut bytes = Vec::new();
    put_frame(MORE, b"topic", &mut bytes);
    put_frame(COMMAND, b"\x04PING\0\x0ahello", &mut bytes);
    put_frame(0, &[7; 300], &mut bytes);
    put_frame(COMMAND, b"\x09SUBSCRIBEx", &mut bytes);
    put_frame(0, b"", &mut bytes);
    let (mut connection, mut theirs) = open_sub(&bytes).await;
    assert_eq!(connection.receive().await.unwrap(), [b"topic".to_vec(), vec![7; 300]]);
    assert_eq!(connection.receive().await.unwrap(), [Vec::<u8>::new()]);
    let mut said = vec![0; 64 + 40 + 12];
    theirs.read_exact(&mut said).await.unwrap();
    assert_eq!(said[104..], *b"\x04\x0a\x04PONGhello");
}

#[tokio::test]
async fn peers_that_are_none_are_refused() {
    let mut old = greeting();
    old[10] = 1;
    let mut secret = greeting();
    secret[12..17].copy_from_slice(b"CURVE");
    let http = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n     ";
    let error = b"\x04\x0d\x05ERROR\x06denied".as_slice();
    let good = greeting();
    for (peer, problem) in [
        (vec![http.as_slice()], "no greeting"),
        (vec![&old], "before 3.0"),
        (vec![&secret], "authentication"),
        (vec![&good, &ready("ROUTER")], "another type"),
        (vec![&good, error], "refuses"),
        (vec![&good, b"\x00\x00"], "not ready"),
        (vec![&good, b"\x04\x06\x05READY"], "another type"),
        (vec![&good, b"\x04\x0a\x05READY\xffxxx"], "another type"),
    ] {
        let (result, _theirs) = open(Socket::Sub, &peer).await;
        let error = result.err().expect(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
    let (result, _theirs) = open(Socket::Dealer, &[&good, &ready("ROUTER")]).await;
    assert!(result.is_ok());
}

#[tokio::test]
async fn a_peer_cannot_make_us_hold_more_than_the_limit() {
    let (mut connection, _theirs) = open_sub(b"\x02\x7f\xff\xff\xff\xff\xff\xff\xff").await;
    assert!(matches!(connection.receive().await, Err(ZmtpError::TooLong(1000))));
    let mut parts = Vec::new();
    (0..4).for_each(|_| put_frame(MORE, &[0; 255], &mut parts));
    let (mut connection, _theirs) = open_sub(&parts).await;
    assert!(matches!(connection.receive().await, Err(ZmtpError::TooLong(1000))), "all frames together");
    let mut many = Vec::new();
    (0..20).for_each(|_| put_frame(MORE, b"", &mut many));
    let (mut connection, _theirs) = open_sub(&many).await;
    assert!(matches!(connection.receive().await, Err(ZmtpError::Protocol(_))));
    let (mut connection, _theirs) = open_sub(&[0x48]).await;
    assert!(matches!(connection.receive().await, Err(ZmtpError::Protocol(_))));
}

#[tokio::test]
async fn a_message_that_begins_must_end() {
    let (mut connection, _theirs) = open_sub(b"\x00\x05ab").await;
    assert!(matches!(connection.receive().await, Err(ZmtpError::Slow)));
    let (mut connection, theirs) = open_sub(b"\x00\x05ab").await;
    drop(theirs);
    assert!(matches!(connection.receive().await, Err(ZmtpError::Io(_))));
}
