//! Listening to KV events, and reading what they say.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::SocketAddr;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use zeromq::{DealerSocket, Socket as _, SocketRecv as _, SocketSend as _, SubSocket, ZmqMessage};

use super::{LIMIT, Running};

/// One message: its number and its payload's bytes and contents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    pub(crate) topic: Bytes,
    pub(crate) number: u64,
    pub(crate) payload: Bytes,
}

impl Batch {
    fn new(frames: &[Bytes]) -> Batch {
        let [topic, number, payload] = frames else { panic!("{frames:?}") };
        let number = u64::from_be_bytes(number.as_ref().try_into().unwrap());
        Batch { topic: topic.clone(), number, payload: payload.clone() }
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let mut rest = self.payload.as_ref();
        let batch = unpack(&mut rest);
        assert!(rest.is_empty() && batch[0].is_f64() && batch[2] == 0, "{batch}");
        batch[1].as_array().unwrap().clone()
    }
}

/// All events of `batches` of one type.
pub(crate) fn of_type(batches: &[Batch], kind: &str) -> Vec<Value> {
    batches.iter().flat_map(Batch::events).filter(|event| event["type"] == kind).collect()
}

pub(crate) async fn subscribe(address: SocketAddr) -> SubSocket {
    let mut socket = SubSocket::new();
    timeout(LIMIT, socket.connect(&format!("tcp://{address}"))).await.unwrap().unwrap();
    socket.subscribe("").await.unwrap();
    socket
}

pub(crate) async fn next(socket: &mut SubSocket) -> Batch {
    Batch::new(&timeout(LIMIT, socket.recv()).await.expect("an event").unwrap().into_vec())
}

/// Asks for everything from `start` on.
pub(crate) async fn replay(engine: &Running, start: u64) -> Vec<Batch> {
    let mut socket = DealerSocket::new();
    let address = format!("tcp://{}", engine.kv.1.expect("a replay address"));
    timeout(LIMIT, socket.connect(&address)).await.unwrap().unwrap();
    let mut request = ZmqMessage::from(Bytes::new());
    request.push_back(Bytes::copy_from_slice(&start.to_be_bytes()));
    socket.send(request).await.unwrap();
    let mut batches = Vec::new();
    loop {
        let frames = timeout(LIMIT, socket.recv()).await.expect("an answer").unwrap().into_vec();
        assert_eq!((frames.len(), frames[0].len()), (4, 0), "{frames:?}");
        if frames[2].as_ref() == [0xff; 8] {
            assert!(frames[1].is_empty() && frames[3].is_empty());
            return batches;
        }
        batches.push(Batch::new(&frames[1..]));
    }
}

/// Reads one MessagePack value of the kinds that occur.
fn unpack(rest: &mut &[u8]) -> Value {
    let tag = take(rest, 1)[0];
    let number = |rest: &mut &[u8], n| take(rest, n).iter().fold(0u64, |sum, b| sum << 8 | u64::from(*b));
    let list = |rest: &mut &[u8], n: u64| Value::Array((0..n).map(|_| unpack(rest)).collect());
    let text = |rest: &mut &[u8], n: u64| json!(std::str::from_utf8(take(rest, n as usize)).unwrap());
    match tag {
        0..0x80 => json!(tag),
        0x80..0x90 => {
            let pairs = (0..tag & 15).map(|_| (unpack(rest).as_str().unwrap().to_owned(), unpack(rest)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        0x90..0xa0 => list(rest, u64::from(tag & 15)),
        0xa0..0xc0 => text(rest, u64::from(tag & 31)),
        0xc0 => Value::Null,
        0xcb => json!(f64::from_bits(number(rest, 8))),
        0xcc => json!(number(rest, 1)),
        0xcd => json!(number(rest, 2)),
        0xce => json!(number(rest, 4)),
        0xcf => json!(number(rest, 8)),
        0xd9 => {
            let n = number(rest, 1);
            text(rest, n)
        }
        0xdc => {
            let n = number(rest, 2);
            list(rest, n)
        }
        other => panic!("tag {other:#x}"),
    }
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(n);
    *rest = left;
    taken
}
