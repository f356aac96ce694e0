//! Collecting a request's body, bounded in size, time and memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use forebay_config::Limits;
use forebay_metrics::Reject;
use http_body::Body;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::problem::Problem;

/// The unit in which the memory of all bodies is counted.
const PAGE: u64 = 4 << 10;
/// Memory is taken in steps of this at most.
const LARGEST_STEP: u64 = 1 << 20;
/// A body that nobody wants is read away up to this size.
const SKIPPED: u64 = 64 << 10;
/// Room made at once for a body of a stated length; more is made as it comes.
const PREALLOCATED: u64 = 1 << 20;

/// The budget for the bodies of all requests together.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    pages: Arc<Semaphore>,
    total: u64,
}

impl BodyMemory {
    pub(crate) fn new(bytes: u64) -> BodyMemory {
        let total = bytes.div_ceil(PAGE).clamp(1, Semaphore::MAX_PERMITS as u64 / 2);
        BodyMemory { pages: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// Takes memory for `bytes` more, waiting while there is none.
    async fn take(&self, bytes: u64, limits: &Limits) -> Result<OwnedSemaphorePermit, Problem> {
        let pages = bytes.div_ceil(PAGE).clamp(1, self.total);
        let acquire = Arc::clone(&self.pages).acquire_many_owned(u32::try_from(pages).unwrap_or(u32::MAX));
        match timeout(limits.body_stall, acquire).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Problem::short_of("memory for request bodies", Reject::BodyMemory)),
        }
    }
}

/// A whole body and the memory it holds.
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    /// Freed with the last copy of the bytes that matters.
    pub(crate) memory: OwnedSemaphorePermit,
}

/// Why there is no whole body.
pub(crate) enum ReadError {
    /// Say so to the client.
    Problem(Problem),
    /// The client left in the middle of it, or its framing broke.
    Broken,
}

impl From<Problem> for ReadError {
    fn from(problem: Problem) -> ReadError {
        ReadError::Problem(problem)
    }
}

/// Reads a body whole.
pub(crate) async fn read(
    mut body: Incoming,
    limits: &Limits,
    memory: &BodyMemory,
) -> Result<ReadBody, ReadError> {
    let hint = body.size_hint();
    let stated = hint.exact();
    if hint.lower() > limits.body {
        return Err(Problem::too_large(limits.body).into());
    }
    // Memory is taken for what has come, never for what was only announced: a
    // client that states a length and sends nothing must not hold any.
    let mut stall = Stall { limit: limits.body_stall, sleep: None };
    let Some(first) = stall.next(&mut body).await? else {
        return Ok(ReadBody { bytes: Bytes::new(), memory: memory.take(0, limits).await? });
    };
    let mut held = first.len() as u64;
    let mut permit = memory.take(held, limits).await?;
    // The usual request comes in one piece with its head: no copy.
    if stated == Some(held) {
        return Ok(ReadBody { bytes: first, memory: permit });
    }
    let mut all = BytesMut::with_capacity(stated.unwrap_or(held * 2).min(PREALLOCATED.max(held)) as usize);
    all.extend_from_slice(&first);
    drop(first);
    loop {
        match stall.next(&mut body).await? {
            Some(data) => {
                let len = (all.len() + data.len()) as u64;
                if len > limits.body {
                    return Err(Problem::too_large(limits.body).into());
                }
                if len > held {
                    // In growing steps, so that a body in small pieces does not
                    // take its memory one page at a time; never past its end.
                    let step =
                        held.clamp(PAGE, LARGEST_STEP).min(stated.unwrap_or(u64::MAX).saturating_sub(held));
                    let more = step.max(len - held);
                    permit.merge(memory.take(more, limits).await?);
                    held += more;
                }
                all.extend_from_slice(&data);
            }
            None => return Ok(ReadBody { bytes: all.freeze(), memory: permit }),
        }
    }
}

/// Reads away the body of a request that is answered without it, so that its
/// connection can be used again. False when it is not worth it: large, of
/// unknown length, or held back until the client is told to go on.
pub(crate) async fn skip(mut body: Incoming, parts: &http::request::Parts, limits: &Limits) -> bool {
    let small = body.size_hint().exact().is_some_and(|len| len <= SKIPPED);
    if !small || parts.headers.contains_key(http::header::EXPECT) {
        return false;
    }
    let mut stall = Stall { limit: limits.body_stall, sleep: None };
    loop {
        match stall.next(&mut body).await {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Bounds the silence between two pieces; its timer is only made when a piece
/// is really waited for.
struct Stall {
    limit: std::time::Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    async fn next(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, ReadError> {
        if let Some(sleep) = &mut self.sleep {
            sleep.as_mut().reset(Instant::now() + self.limit);
        }
        std::future::poll_fn(|cx| {
            loop {
                match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) if !data.is_empty() => return Poll::Ready(Ok(Some(data))),
                        // Trailers and empty pieces say nothing.
                        _ => continue,
                    },
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(ReadError::Broken)),
                    Poll::Ready(None) => return Poll::Ready(Ok(None)),
                    Poll::Pending => {}
                }
                let limit = self.limit;
                let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(limit)));
                return match sleep.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Err(Problem::body_timeout(limit).into())),
                    Poll::Pending => Poll::Pending,
                };
            }
        })
        .await
    }
}
