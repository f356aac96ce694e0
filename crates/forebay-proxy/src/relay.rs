//! Streaming an answer to the client: each read of the engine's goes out at once.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use forebay_core::{EndKind, Failure};
use forebay_metrics::OutcomeLabel;
use forebay_net::upstream::AnswerBody;
use forebay_wire::sse::ModelEditor;
use tokio::time::Instant;

use crate::settle::Settle;
use crate::timer::{Expired, Timer};
use crate::watching::Watching;

/// The answer broke off; the client's connection is aborted, so that it can tell.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RelayError(String);

/// An answer under way.
pub(crate) struct Relay {
    /// Gone once the answer has ended.
    body: Option<AnswerBody>,
    /// Read before the head was passed on, or cut up by the editor.
    ready: VecDeque<Bytes>,
    watching: Watching,
    editor: Option<ModelEditor>,
    timer: Timer,
    settle: Box<Settle>,
    /// What is left, where it is known and unedited.
    exact: Option<u64>,
    failed: Option<RelayError>,
    /// The client's side had its chance to write what came before the failure.
    flushed: bool,
}

impl Relay {
    pub(crate) fn new(body: AnswerBody, watching: Watching, timer: Timer, settle: Box<Settle>) -> Relay {
        Relay {
            exact: body.exact_length(),
            body: Some(body),
            ready: VecDeque::new(),
            watching,
            editor: None,
            timer,
            settle,
            failed: None,
            flushed: false,
        }
    }

    pub(crate) fn settle(&mut self) -> &mut Settle {
        &mut self.settle
    }

    /// What was read of the body before the relay had it.
    pub(crate) fn take_in(&mut self, read: Vec<Bytes>) {
        if read.is_empty() {
            return;
        }
        if let Some(left) = &mut self.exact {
            *left += read.iter().map(|data| data.len() as u64).sum::<u64>();
        }
        for data in read {
            self.see(data);
        }
        if self.body.as_ref().is_some_and(AnswerBody::is_end) {
            self.finish();
        }
    }

    /// Puts the requested name in place of the target's from here on.
    pub(crate) fn edit(&mut self, editor: ModelEditor) {
        self.editor = Some(editor);
        self.exact = None;
    }

    /// When the whole request must be over.
    pub(crate) fn total(&self) -> Option<Instant> {
        self.timer.total()
    }

    /// True for an event stream.
    pub(crate) fn is_events(&self) -> bool {
        matches!(self.watching, Watching::Events(_))
    }

    /// Reads until there is something to pass on, or the end. The bytes stay
    /// to be passed on.
    pub(crate) fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        while self.ready.is_empty() && self.body.is_some() {
            match self.poll_body(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(stopped)) => return Poll::Ready(Err(stopped)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads the whole answer, up to about `max` bytes. False when it is larger.
    pub(crate) fn poll_whole(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<bool, Stopped>> {
        while self.body.is_some() {
            if self.ready.iter().map(Bytes::len).sum::<usize>() > max {
                return Poll::Ready(Ok(false));
            }
            match self.poll_body(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(stopped)) => return Poll::Ready(Err(stopped)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Takes what was read.
    pub(crate) fn take_ready(&mut self) -> Vec<Bytes> {
        self.ready.drain(..).collect()
    }

    /// Gives back what was taken, or puts something in its place.
    pub(crate) fn put_ready(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.ready.push_back(data);
        }
    }

    /// The next bytes for the client.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, RelayError>>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                if let Some(left) = &mut self.exact {
                    *left = left.saturating_sub(data.len() as u64);
                }
                return Poll::Ready(Some(Ok(data)));
            }
            if let Some(error) = self.failed.take() {
                // hyper drops what it has not written yet when a body fails. It
                // flushes when a body is pending: so pending once, and be asked again.
                if !std::mem::replace(&mut self.flushed, true) {
                    self.failed = Some(error);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                return Poll::Ready(Some(Err(error)));
            }
            if self.body.is_none() {
                return Poll::Ready(None);
            }
            match self.poll_body(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(stopped)) => {
                    stopped.settle(&mut self.settle, &mut self.watching);
                    self.failed = Some(RelayError(stopped.message));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// True when the client has all of it.
    pub(crate) fn is_end(&self) -> bool {
        self.body.is_none() && self.ready.is_empty() && self.failed.is_none()
    }

    /// True for a JSON answer.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.watching, Watching::Json { .. })
    }

    /// States what is left, after an edit of the whole.
    pub(crate) fn set_exact(&mut self, len: u64) {
        self.exact = Some(len);
    }

    /// Bytes that are left, where that is known.
    pub(crate) fn exact_length(&self) -> Option<u64> {
        self.exact
    }

    /// One read of the engine's.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
        match body.poll_data(cx) {
            Poll::Ready(Some(Ok(data))) => {
                let ended = body.is_end();
                let now = self.see(data);
                if ended {
                    self.finish();
                } else if self.timer.is_over(now) {
                    self.body = None;
                    return Poll::Ready(Err(Stopped::expired(Expired::Total)));
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Some(Err(error))) => {
                self.body = None;
                Poll::Ready(Err(Stopped::truncated(error.message)))
            }
            Poll::Pending => match self.timer.poll(cx) {
                Poll::Ready(expired) => {
                    // Dropping the body closes the engine's connection.
                    self.body = None;
                    Poll::Ready(Err(Stopped::expired(expired)))
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn see(&mut self, data: Bytes) -> Instant {
        let now = Instant::now();
        self.timer.byte(now);
        self.settle.first_byte();
        self.watching.feed(&data);
        if self.watching.answered() {
            self.timer.answered();
        }
        let tokens = self.watching.tokens();
        self.settle.tokens(tokens, now);
        match &mut self.editor {
            None => self.ready.push_back(data),
            Some(editor) => {
                let mut out = Vec::new();
                editor.feed(data, &mut out);
                self.ready.extend(out);
            }
        }
        now
    }

    fn finish(&mut self) {
        // Only the load report in them is for anybody, and that is us.
        if let Some(mut trailers) = self.body.take().and_then(|mut body| body.take_trailers()) {
            self.settle.report(&mut trailers);
        }
        if let Some(editor) = &mut self.editor {
            let mut out = Vec::new();
            editor.finish(&mut out);
            self.ready.extend(out);
        }
        let seen = self.watching.finish(true);
        self.settle.first_byte();
        self.settle.end_whole(seen.usage, seen.error);
    }
}

impl Drop for Relay {
    /// A client that has read that the answer is complete may leave before the
    /// connection to the engine says so too: that is no cancellation. Any other
    /// is, with what is known of it by then.
    fn drop(&mut self) {
        if self.body.is_none() {
            return;
        }
        if self.ready.is_empty() && self.watching.said_done() {
            self.finish();
        } else {
            let seen = self.watching.finish(false);
            self.settle.cancelled(seen.usage);
        }
    }
}

/// An answer that stopped before its end.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) failure: Failure,
    pub(crate) message: String,
}

impl Stopped {
    pub(crate) fn expired(expired: Expired) -> Stopped {
        let (failure, message) = match expired {
            Expired::FirstByte => (Failure::FirstByteTimeout, "no answer within the limit"),
            Expired::Idle => (Failure::IdleTimeout, "silence beyond the limit"),
            Expired::Total => (Failure::TotalTimeout, "the request took longer than its limit"),
        };
        Stopped { failure, message: message.to_owned() }
    }

    pub(crate) fn truncated(message: String) -> Stopped {
        Stopped { failure: Failure::Truncated, message }
    }

    pub(crate) fn label(&self) -> OutcomeLabel {
        match self.failure {
            Failure::FirstByteTimeout => OutcomeLabel::TimeoutFirstByte,
            Failure::IdleTimeout => OutcomeLabel::TimeoutIdle,
            Failure::TotalTimeout => OutcomeLabel::TimeoutTotal,
            Failure::Truncated => OutcomeLabel::UpstreamTruncated,
            _ => OutcomeLabel::UpstreamError,
        }
    }

    /// Settles a request whose head has already gone to the client.
    fn settle(&self, settle: &mut Settle, watching: &mut Watching) {
        let seen = watching.finish(false);
        settle.end(EndKind::Failed(self.failure), self.label(), 200, seen.usage, &self.message);
    }
}
