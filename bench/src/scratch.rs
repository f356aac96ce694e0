//! One read buffer for all connections of a thread.
//!
//! A thousand idle connections should not need a thousand buffers, and bytes
//! are used up before the next task runs.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::ready;

use tokio::io::{AsyncRead, ReadBuf};

const SIZE: usize = 64 * 1024;

/// The shared buffer; clones are the same buffer.
#[derive(Debug, Clone)]
pub(crate) struct Scratch(Rc<RefCell<Box<[u8]>>>);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(Rc::new(RefCell::new(vec![0; SIZE].into_boxed_slice())))
    }

    /// Waits for bytes, at most `limit` of them, and gives them to `take`. No
    /// bytes mean that the other side has ended.
    pub(crate) async fn read<R>(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        limit: usize,
        mut take: impl FnMut(&[u8]) -> R,
    ) -> io::Result<R> {
        poll_fn(|cx| {
            let mut buffer = self.0.borrow_mut();
            let limit = limit.min(buffer.len());
            let mut read = ReadBuf::new(&mut buffer[..limit]);
            ready!(Pin::new(&mut *from).poll_read(cx, &mut read))?;
            Ok(take(read.filled())).into()
        })
        .await
    }

    /// The buffer itself, for use inside one poll.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut [u8]) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}
