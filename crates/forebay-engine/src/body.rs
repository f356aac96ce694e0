//! Bodies of answers: whole, streamed, or broken on command.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::answer::FinishReason;
use crate::conn::{Busy, ConnState};
use crate::error::ApiError;
use crate::fault::RequestFault;
use crate::generation::{Generation, Step};
use crate::shared::InFlight;

/// Events ready to go out. Each becomes one chunk of the HTTP body.
pub(crate) type Out = VecDeque<Bytes>;

/// One token as a dialect shows it.
pub(crate) struct Token<'a> {
    pub(crate) choice: usize,
    pub(crate) text: &'a str,
    /// How the answer ended, with its last token.
    pub(crate) last: Option<FinishReason>,
}

/// How one API writes the events of a stream.
pub(crate) trait Dialect: Send {
    /// Before anything is scheduled.
    fn begin(&mut self, _out: &mut Out) {}
    /// With the first token of any answer, before it.
    fn open(&mut self, generation: &Generation, out: &mut Out);
    /// A token; an empty one when an answer was given up.
    fn token(&mut self, token: &Token<'_>, generation: &Generation, out: &mut Out);
    /// After the last token of the last answer.
    fn close(&mut self, generation: &Generation, out: &mut Out);
    /// The engine broke.
    fn fail(&mut self, error: &ApiError, out: &mut Out);
}

/// A body with what is counted until it ends.
pub(crate) struct EngineBody {
    kind: Kind,
    _busy: Option<Busy>,
    _in_flight: Option<InFlight>,
}

enum Kind {
    Full(Option<Bytes>),
    Stream(Box<Stream>),
    /// Nothing, ever.
    Hung,
    /// The first part of an answer, then the end of the connection.
    Torn {
        part: Option<Bytes>,
        len: u64,
        flushed: bool,
    },
}

impl EngineBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> EngineBody {
        EngineBody { kind: Kind::Full(Some(bytes.into())), _busy: None, _in_flight: None }
    }

    pub(crate) fn hung() -> EngineBody {
        EngineBody { kind: Kind::Hung, _busy: None, _in_flight: None }
    }

    /// Half of `bytes`, then a cut.
    pub(crate) fn torn(bytes: String) -> EngineBody {
        let len = bytes.len() as u64;
        let part = Some(Bytes::from(bytes).slice(..(len / 2) as usize));
        EngineBody { kind: Kind::Torn { part, len, flushed: false }, _busy: None, _in_flight: None }
    }

    pub(crate) fn stream(
        generation: Generation,
        mut dialect: Box<dyn Dialect>,
        fault: Option<RequestFault>,
        conn: Arc<ConnState>,
    ) -> EngineBody {
        let mut out = Out::new();
        dialect.begin(&mut out);
        let stream = Stream {
            generation,
            dialect,
            out,
            fault,
            conn,
            sent: 0,
            opened: false,
            ended: false,
            flushed: false,
        };
        EngineBody { kind: Kind::Stream(Box::new(stream)), _busy: None, _in_flight: None }
    }

    /// Keeps the connection from being idle until the body is gone.
    pub(crate) fn busy(self, busy: Busy) -> EngineBody {
        EngineBody { _busy: Some(busy), ..self }
    }

    /// Counts the request as in flight until the body is gone.
    pub(crate) fn in_flight(self, in_flight: InFlight) -> EngineBody {
        EngineBody { _in_flight: Some(in_flight), ..self }
    }
}

impl Body for EngineBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.get_mut().kind {
            Kind::Full(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Kind::Stream(stream) => stream.poll(cx).map(|bytes| bytes.map(|b| b.map(Frame::data))),
            Kind::Hung => Poll::Pending,
            Kind::Torn { part, flushed, .. } => match part.take() {
                Some(part) => Poll::Ready(Some(Ok(Frame::data(part)))),
                None => cut(flushed, cx),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Full(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Full(None) => SizeHint::with_exact(0),
            Kind::Torn { len, .. } => SizeHint::with_exact(*len),
            Kind::Stream(_) | Kind::Hung => SizeHint::default(),
        }
    }
}

/// An error that ends the connection, one turn later, so that what was written
/// before goes out first.
fn cut<T>(flushed: &mut bool, cx: &mut Context<'_>) -> Poll<Option<io::Result<T>>> {
    if !*flushed {
        *flushed = true;
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(Some(Err(io::Error::other("cut on command"))))
}

/// A server-sent event stream.
struct Stream {
    generation: Generation,
    dialect: Box<dyn Dialect>,
    out: Out,
    fault: Option<RequestFault>,
    conn: Arc<ConnState>,
    /// Events gone out.
    sent: u32,
    opened: bool,
    ended: bool,
    /// Whether a cut has let its events go out.
    flushed: bool,
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(fault) = self.due() {
                match fault {
                    RequestFault::Cut { reset, .. } => {
                        self.conn.reset_on_close(reset);
                        return cut(&mut self.flushed, cx);
                    }
                    RequestFault::StreamError { .. } => self.fail(),
                    RequestFault::Abort { .. } => self.abort(),
                    RequestFault::Hang => return Poll::Pending,
                }
            }
            if let Some(event) = self.out.pop_front() {
                self.sent += 1;
                return Poll::Ready(Some(Ok(event)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match std::task::ready!(self.generation.poll_step(cx)) {
                Some(Step::Token { choice, word, last }) => {
                    self.open();
                    // Words are plain letters and spaces.
                    let text = std::str::from_utf8(&word).unwrap_or_default();
                    self.dialect.token(&Token { choice, text, last }, &self.generation, &mut self.out);
                }
                Some(Step::Aborted { choice }) => {
                    self.open();
                    let token = Token { choice, text: "", last: Some(FinishReason::Abort) };
                    self.dialect.token(&token, &self.generation, &mut self.out);
                }
                Some(Step::Dead) => self.fail(),
                // The engine dropped its end: it is going down.
                None if !self.generation.done() => self.fail(),
                None => {}
            }
            if self.generation.done() && !self.ended {
                self.dialect.close(&self.generation, &mut self.out);
                self.ended = true;
            }
        }
    }

    /// The fault, once its number of events has gone out. A cut stays due.
    fn due(&mut self) -> Option<RequestFault> {
        match self.fault? {
            RequestFault::Cut { after, .. } if self.sent >= after => self.fault,
            RequestFault::StreamError { after } | RequestFault::Abort { after } if self.sent >= after => {
                self.fault.take()
            }
            _ => None,
        }
    }

    fn open(&mut self) {
        if !self.opened {
            self.opened = true;
            self.dialect.open(&self.generation, &mut self.out);
        }
    }

    fn fail(&mut self) {
        self.out.clear();
        self.dialect.fail(&ApiError::engine_dead(), &mut self.out);
        self.generation.abort();
        self.ended = true;
    }

    fn abort(&mut self) {
        self.out.clear();
        self.open();
        for choice in self.generation.abort() {
            let token = Token { choice, text: "", last: Some(FinishReason::Abort) };
            self.dialect.token(&token, &self.generation, &mut self.out);
        }
        self.dialect.close(&self.generation, &mut self.out);
        self.ended = true;
    }
}
