//! Bytes in and out: listening sockets, client connections that notice when
//! their client is gone, connection pools to engines, and one HTTP client for
//! probes, scrapes and load generators.

pub mod client;
mod downstream;
mod listen;
pub mod upstream;

pub use downstream::{ClientIo, Preface, Watch};
pub use listen::{bind, ensure_free, is_out_of_files};
