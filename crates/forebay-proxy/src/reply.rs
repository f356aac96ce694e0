//! What goes back to the client.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use forebay_net::Watch;
use http_body::{Body, Frame, SizeHint};

use crate::proxy::InFlight;
use crate::relay::{Relay, RelayError};

/// How long after a request's limit its connection is closed if that has not
/// ended it.
const TOTAL_GRACE: Duration = Duration::from_millis(500);

/// A request that is being worked on. While it lives, the connection is not
/// idle; from [`Busy::answer`] on its client may be found gone.
pub(crate) struct Busy {
    watch: Watch,
    http1: bool,
    answering: bool,
    read: bool,
    place: Option<InFlight>,
}

impl Busy {
    pub(crate) fn begin(watch: Watch, http1: bool) -> Busy {
        watch.request_begins();
        Busy { watch, http1, answering: false, read: false, place: None }
    }

    /// The body is whole, or there was none to read.
    pub(crate) fn is_read(&self) -> bool {
        self.read
    }

    /// The body was read away.
    pub(crate) fn skipped(&mut self) {
        self.read = true;
    }

    /// The body is whole. An HTTP/2 client that leaves resets its stream, which
    /// hyper sees by itself.
    pub(crate) fn answer(&mut self) {
        self.read = true;
        if self.http1 && !self.answering {
            self.answering = true;
            self.watch.answer_begins();
        }
    }

    /// Keeps the request's place among all of the gateway until it is over.
    pub(crate) fn hold(&mut self, place: InFlight) {
        self.place = Some(place);
    }

    /// Some of the request will stay unread: read it away after the answer.
    pub(crate) fn linger(&self) {
        self.watch.set_linger();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.watch.request_ends(self.answering);
    }
}

/// The body of an answer.
pub(crate) struct Reply {
    kind: Kind,
    _busy: Busy,
}

enum Kind {
    Whole(Bytes),
    Relay(Box<Relay>),
}

impl Reply {
    pub(crate) fn whole(body: Bytes, busy: Busy) -> Reply {
        Reply { kind: Kind::Whole(body), _busy: busy }
    }

    pub(crate) fn relay(relay: Box<Relay>, busy: Busy) -> Reply {
        // While its client reads nothing the relay is not asked, and so cannot
        // look at its own timer.
        if let Some(total) = relay.total().filter(|_| busy.http1) {
            busy.watch.set_total(total + TOTAL_GRACE);
        }
        Reply { kind: Kind::Relay(relay), _busy: busy }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        match &mut self.kind {
            Kind::Whole(body) if body.is_empty() => Poll::Ready(None),
            Kind::Whole(body) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(body))))),
            Kind::Relay(relay) => relay.poll_next(cx).map(|next| next.map(|data| data.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(body) => body.is_empty(),
            Kind::Relay(relay) => relay.is_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(body) => SizeHint::with_exact(body.len() as u64),
            Kind::Relay(relay) => relay.exact_length().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
