//! Making connections.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::address::KvAddress;
use super::source::KvSettings;
use super::zmtp::{Connection, Io, Limits, Socket, ZmtpError};

/// Connects and shakes hands, within the time for it.
pub(super) async fn connect(
    address: &KvAddress,
    socket: Socket,
    settings: &KvSettings,
) -> Result<Connection, ZmtpError> {
    let open = async {
        let io: Box<dyn Io> = match address {
            KvAddress::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                prepare(&stream);
                Box::new(stream)
            }
            KvAddress::Ipc(path) => Box::new(UnixStream::connect(path).await?),
            KvAddress::Http(_) => return Err(ZmtpError::Protocol("a URL is no socket")),
        };
        Connection::open(io, socket, limits(settings)).await
    };
    timeout(settings.connect, open).await.map_err(|_| ZmtpError::Slow)?
}

/// Shakes hands with who connected to us, within the time for it.
pub(super) async fn accept(io: Box<dyn Io>, settings: &KvSettings) -> Result<Connection, ZmtpError> {
    let open = Connection::open(io, Socket::Sub, limits(settings));
    timeout(settings.connect, open).await.map_err(|_| ZmtpError::Slow)?
}

/// A publisher says nothing while its engine is idle, so the system must find
/// out that a host is gone. That it cannot be asked to is no reason to fail.
pub(super) fn prepare(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(20))
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "no keep-alive on a KV event connection");
    }
}

fn limits(settings: &KvSettings) -> Limits {
    Limits { message: settings.max_message, time: settings.message }
}
