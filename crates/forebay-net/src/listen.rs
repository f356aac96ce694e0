//! Listening sockets, one for each worker.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel keeps for us between two accepts.
const BACKLOG: i32 = 4096;

/// Binds `address` for `workers` workers: each gets a socket of its own under
/// the same port, and the kernel spreads connections over them. They are
/// non-blocking standard sockets, to be made asynchronous by the worker that uses them.
///
/// # Errors
/// The system's error, for example when the address is in use.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<std::net::TcpListener>> {
    let first = socket(address)?;
    // Port 0 becomes a real port with the first socket; the others must share it.
    let bound = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..workers {
        sockets.push(socket(bound)?);
    }
    Ok(sockets)
}

fn socket(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // `[::]` serves both families, as operators expect of it.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// True when accepting failed for want of file descriptors or memory, which
/// passes by itself; the caller waits a little and goes on.
pub fn is_out_of_files(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM
    matches!(error.raw_os_error(), Some(24 | 23 | 105 | 12))
}

/// Two sockets on one port would take each other's connections, so a second
/// program must be refused although `SO_REUSEPORT` would let it in.
///
/// # Errors
/// `AddrInUse` when something listens there already.
pub fn ensure_free(address: SocketAddr) -> io::Result<()> {
    if address.port() == 0 {
        return Ok(());
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}
