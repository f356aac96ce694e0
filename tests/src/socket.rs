//! The few socket operations that both ends need: exact writes, aborts, and
//! ports that refuse.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::TcpStream;

/// Writes `bytes` as they are. With `TCP_NODELAY` set, as both ends of the rig
/// have it, what fits the socket's buffer leaves as one segment.
pub async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads what is there; 0 is the peer's FIN.
pub async fn read_some(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

/// Sends FIN and keeps the reading side.
pub fn half_close(stream: &TcpStream) {
    // A peer that is already gone is no failure of the one who says goodbye.
    let _ = SockRef::from(stream).shutdown(std::net::Shutdown::Write);
}

/// Makes the drop of this socket an RST.
pub fn abort_on_drop(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// A port that refuses connections for as long as this value lives: it is
/// bound, so that nobody else can get it, and nobody listens on it.
pub struct RefusingPort {
    _socket: Socket,
    /// The address to connect to.
    pub addr: SocketAddr,
}

impl RefusingPort {
    /// Takes a free port of the IPv4 loopback.
    pub fn new() -> RefusingPort {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        let addr = socket.local_addr().unwrap().as_socket().unwrap();
        RefusingPort { _socket: socket, addr }
    }
}

impl Default for RefusingPort {
    fn default() -> Self {
        RefusingPort::new()
    }
}

/// A port where connecting hangs: its queue of connections that nobody accepts
/// is full, and the kernel drops what comes after.
pub struct HangingPort {
    _socket: Socket,
    _queued: Vec<TcpStream>,
    /// The address to connect to.
    pub addr: SocketAddr,
}

impl HangingPort {
    /// Takes a free port of the IPv4 loopback and fills its queue.
    pub async fn new() -> HangingPort {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        socket.listen(0).unwrap();
        let addr = socket.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        // One that is still not connected after this long on the loopback never will be.
        while let Ok(stream) =
            tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(addr)).await
        {
            queued.push(stream.unwrap());
            assert!(queued.len() < 100, "the queue does not fill");
        }
        HangingPort { _socket: socket, _queued: queued, addr }
    }
}
