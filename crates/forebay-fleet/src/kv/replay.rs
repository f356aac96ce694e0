//! Asking for batches that were missed.
//!
//! The last batch that is known is asked for again with them: if it comes back
//! as it was, the same process answers. Numbers alone would not show an engine
//! that restarted and has published as much as before.

use forebay_prefix::engine_map::Step;
use forebay_wire::kv_events::{Message, parse_message, replay_request};
use tokio::time::timeout;

use super::address::KvAddress;
use super::counts::Counts;
use super::follower::{Follower, Incoming};
use super::link;
use super::zmtp::{Socket, ZmtpError};

enum End {
    /// All that the engine has was taken.
    Complete,
    /// Another process answers: ask for all that it has.
    AnotherProcess,
}

impl Follower {
    /// Asks for everything after the last batch. Whether it was answered.
    pub(super) async fn catch_up(&mut self) -> bool {
        let Some(address) = self.source.replay.clone() else { return false };
        // A process that turns out to be another one is asked once more.
        for _ in 0..2 {
            Counts::add(&self.link.counts.replays, 1);
            let limit = self.settings.replay;
            let result = timeout(limit, self.replay(&address)).await.unwrap_or(Err(ZmtpError::Slow));
            match result {
                Ok(End::Complete) => {
                    self.link.liveness.heard();
                    return true;
                }
                Ok(End::AnotherProcess) => {}
                Err(error) => {
                    tracing::debug!(endpoint = %self.source.endpoint, %address, %error, "no replay of KV events");
                    Counts::add(&self.link.counts.failed_replays, 1);
                    return false;
                }
            }
        }
        false
    }

    async fn replay(&mut self, address: &KvAddress) -> Result<End, ZmtpError> {
        let next = self.sequence.next();
        let known = self.last.filter(|_| next > 0);
        let from = if known.is_some() { next - 1 } else { next };
        let mut connection = link::connect(address, Socket::Dealer, &self.settings).await?;
        connection.send(&[b"", &replay_request(from)]).await?;
        let mut first = true;
        loop {
            let answer = timeout(self.settings.message, connection.receive()).await;
            let frames = answer.map_err(|_| ZmtpError::Slow)??;
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            match parse_message(&frames) {
                Ok(Message::Batch { seq, payload, .. }) if seq >= from => {
                    let incoming = Incoming::read(seq, payload);
                    let other = seq == from && known.is_some_and(|digest| digest != incoming.digest);
                    if first && other {
                        self.restarted();
                        return Ok(End::AnotherProcess);
                    }
                    self.take_replayed(incoming);
                }
                Ok(Message::ReplayEnd) if first && known.is_some() => {
                    self.restarted();
                    return Ok(End::AnotherProcess);
                }
                Ok(Message::ReplayEnd) => return Ok(End::Complete),
                Ok(Message::Batch { .. }) | Err(_) => {
                    return Err(ZmtpError::Protocol("the answer is no replay"));
                }
            }
            first = false;
        }
    }

    fn take_replayed(&mut self, incoming: Incoming) {
        let seq = incoming.seq;
        let mut step = self.sequence.replayed(seq);
        if let Step::Gap { from } = step {
            // The engine remembers only its last batches.
            self.lost(from, seq);
            step = self.sequence.replayed(seq);
        }
        if step == Step::Apply {
            Counts::add(&self.link.counts.replayed, 1);
            self.deliver(incoming);
        }
    }
}
