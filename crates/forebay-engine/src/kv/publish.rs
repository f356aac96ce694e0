//! The sockets: PUB for what happens, ROUTER for who asks for what happened.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use zeromq::{PubSocket, RouterRecvHalf, RouterSendHalf, RouterSocket, ZmqMessage};
use zeromq::{Socket as _, SocketRecv as _, SocketSend as _};

use super::encode::payload;
use super::{KvBatch, KvMessage};

/// The end of a replay: sequence number −1.
const END: [u8; 8] = [0xff; 8];

/// How often the sockets' addresses are tried for again, 10 ms apart.
const REOPENINGS: u32 = 500;

/// How long one replay may hold up everything else, when its reader is slow.
const REPLAY_LIMIT: Duration = Duration::from_secs(5);

/// What never changes.
#[derive(Clone, Debug)]
pub(crate) struct KvSettings {
    pub(crate) topic: Bytes,
    pub(crate) block_size: u32,
    /// Batches that can be asked for again.
    pub(crate) buffer: usize,
    /// With the ports that were free.
    pub(crate) address: SocketAddr,
    pub(crate) replay: Option<SocketAddr>,
}

/// Numbers batches and sends them; remembers the last ones.
pub(crate) struct Publisher {
    settings: KvSettings,
    messages: UnboundedReceiver<KvMessage>,
    next: u64,
    /// Numbers and payloads, the oldest first.
    sent: VecDeque<(u64, Bytes)>,
    sockets: Option<Sockets>,
}

struct Sockets {
    publish: PubSocket,
    replay: Option<(RouterSendHalf, RouterRecvHalf)>,
}

impl Sockets {
    async fn open(publish: TcpListener, replay: Option<TcpListener>) -> io::Result<Sockets> {
        let mut socket = PubSocket::new();
        socket.bind_listener(publish).await.map_err(io::Error::other)?;
        let replay = match replay {
            Some(listener) => {
                let mut router = RouterSocket::new();
                router.bind_listener(listener).await.map_err(io::Error::other)?;
                Some(router.split())
            }
            None => None,
        };
        Ok(Sockets { publish: socket, replay })
    }
}

impl Publisher {
    /// Starts with these listeners, whose addresses are in `settings`.
    pub(crate) async fn new(
        settings: KvSettings,
        listeners: (TcpListener, Option<TcpListener>),
        messages: UnboundedReceiver<KvMessage>,
    ) -> io::Result<Publisher> {
        let sockets = Some(Sockets::open(listeners.0, listeners.1).await?);
        Ok(Publisher { settings, messages, next: 0, sent: VecDeque::new(), sockets })
    }

    /// Publishes, and answers who asks, until it is dropped.
    pub(crate) async fn run(&mut self) {
        loop {
            let asked = async {
                match self.sockets.as_mut().and_then(|s| s.replay.as_mut()) {
                    Some((_, requests)) => requests.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(KvMessage::Batch(batch)) => self.publish(&batch).await,
                    Some(KvMessage::Offline) => self.sockets = None,
                    Some(KvMessage::Reset) => {
                        self.next = 0;
                        self.sent.clear();
                    }
                    Some(KvMessage::Online(done)) => {
                        self.open().await;
                        // Whoever waited may have given up.
                        let _ = done.send(());
                    }
                    None => std::future::pending().await,
                },
                request = asked => match request {
                    Ok(request) => self.replay(request).await,
                    Err(error) => {
                        tracing::debug!(%error, "replay socket");
                        // It fails at once as long as it fails.
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                },
            }
        }
    }

    /// Opens the sockets where they were before.
    async fn open(&mut self) {
        let (address, replay) = (self.settings.address, self.settings.replay);
        for _ in 0..REOPENINGS {
            let bind = || Ok((TcpListener::bind(address)?, replay.map(TcpListener::bind).transpose()?));
            let opened = match bind() {
                Ok((publish, replay)) => Sockets::open(publish, replay).await,
                Err(error) => Err(error),
            };
            match opened {
                Ok(sockets) => return self.sockets = Some(sockets),
                // The old ones close in their own time.
                Err(error) => tracing::debug!(%error, "KV events have not their address back yet"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tracing::warn!(%address, "KV events did not get their address back");
    }

    async fn publish(&mut self, batch: &KvBatch) {
        let bytes = Bytes::from(payload(batch, self.settings.block_size));
        let number = self.next;
        self.next += 1;
        if let Some(sockets) = &mut self.sockets {
            let frames = [self.settings.topic.clone(), frame(number), bytes.clone()];
            if let Err(error) = sockets.publish.send(message(frames)).await {
                tracing::debug!(%error, "a batch of KV events was not sent");
            }
        }
        if self.sent.len() >= self.settings.buffer {
            self.sent.pop_front();
        }
        if self.settings.buffer > 0 {
            self.sent.push_back((number, bytes));
        }
    }

    /// Answers `[asker, "", first number]` with every batch from there on that
    /// is remembered, and the end mark.
    async fn replay(&mut self, request: ZmqMessage) {
        let frames = request.into_vec();
        let [asker, delimiter, start] = frames.as_slice() else {
            return tracing::warn!(frames = frames.len(), "a request for KV events has another shape");
        };
        let Ok(start) = <[u8; 8]>::try_from(start.as_ref()).map(u64::from_be_bytes) else {
            return tracing::warn!("a request for KV events has no number of 8 bytes");
        };
        let Some((answers, _)) = self.sockets.as_mut().and_then(|s| s.replay.as_mut()) else { return };
        let (topic, sent) = (&self.settings.topic, &self.sent);
        let all = async {
            for (number, payload) in sent.iter().filter(|(number, _)| *number >= start) {
                let frames = [asker, delimiter, topic, &frame(*number), payload].map(Bytes::clone);
                answers.send(message(frames)).await?;
            }
            let empty = Bytes::new();
            let frames = [asker, delimiter, &empty, &Bytes::from_static(&END), &empty].map(Bytes::clone);
            answers.send(message(frames)).await
        };
        match timeout(REPLAY_LIMIT, all).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the asker of KV events is gone"),
            Err(_) => tracing::warn!("the asker of KV events reads too slowly"),
        }
    }
}

fn frame(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn message<const N: usize>(frames: [Bytes; N]) -> ZmqMessage {
    let mut frames = frames.into_iter();
    let mut message = ZmqMessage::from(frames.next().unwrap_or_default());
    frames.for_each(|frame| message.push_back(frame));
    message
}
