//! As much HTTP/1.1 as a stub server and a load generator need.

mod chunked;
mod head;

pub(crate) use chunked::{Chunked, chunk};
pub(crate) use head::{Framing, Head};
