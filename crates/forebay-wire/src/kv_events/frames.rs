//! The ZeroMQ messages around a batch: published, or sent again on request.

use super::KvEventError;

/// The sequence number that ends a replay: −1, as eight bytes.
const END: [u8; 8] = [0xff; 8];

/// One message of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A batch, published or replayed.
    Batch {
        /// What it was published under; empty in replies of vLLM up to 0.17.
        topic: &'a [u8],
        /// Its number, counted from 0 by each publisher process.
        seq: u64,
        /// For [`super::decode_batch`].
        payload: &'a [u8],
    },
    /// No more batches follow in this replay.
    ReplayEnd,
}

/// Takes a message apart. Published: topic, number, payload. Replayed, as a
/// DEALER gets it: empty, topic, number, payload, or without the topic (vLLM up
/// to 0.17); a REQ socket takes the empty frame off.
///
/// # Errors
///
/// When the number of frames or the length of the sequence number is another.
pub fn parse_message<'a>(frames: &[&'a [u8]]) -> Result<Message<'a>, KvEventError> {
    let error = |problem| Err(KvEventError::Frames { frames: frames.len(), problem });
    let (topic, seq, payload) = match *frames {
        [seq, payload] => (&b""[..], seq, payload),
        [topic, seq, payload] => (topic, seq, payload),
        [b"", topic, seq, payload] => (topic, seq, payload),
        _ => return error("expected topic, sequence number and payload"),
    };
    let Ok(number) = <[u8; 8]>::try_from(seq) else {
        return error("the sequence number is not eight bytes");
    };
    if number == END {
        return Ok(Message::ReplayEnd);
    }
    Ok(Message::Batch { topic, seq: u64::from_be_bytes(number), payload })
}

/// The second frame of a replay request; the first is empty. Asks for every
/// batch from number `from` on that the engine still has.
pub fn replay_request(from: u64) -> [u8; 8] {
    from.to_be_bytes()
}
