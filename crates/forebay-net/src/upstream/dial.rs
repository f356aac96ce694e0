//! Making connections, a bounded number at a time.

use std::io;

use forebay_metrics::Dial;
use tokio::net::TcpStream;

use super::Upstream;
use super::error::SendErrorKind;

impl Upstream {
    /// A new connection to the server that is there now, and its life. When
    /// another one may be there by the time it is made, it is none.
    pub(super) async fn dial_alive(&self) -> Result<(TcpStream, u64), (SendErrorKind, String)> {
        let gone = || {
            (
                SendErrorKind::Unsent,
                "another server may have come to the endpoint's address meanwhile".to_owned(),
            )
        };
        let life = self.life.now().ok_or_else(gone)?;
        let stream = self.dial().await?;
        if self.life.is(life) { Ok((stream, life)) } else { Err(gone()) }
    }

    /// A new connection, after others under way if there are too many.
    async fn dial(&self) -> Result<TcpStream, (SendErrorKind, String)> {
        let address = || format!("{}:{}", self.options.host, self.options.port);
        let dial = async {
            // The semaphore is never closed; if it were, dialling without it is right.
            let _permit = self.dials.acquire().await.ok();
            connect(&self.options.host, self.options.port).await
        };
        let result = match self.options.connect_timeout {
            Some(limit) => match tokio::time::timeout(limit, dial).await {
                Ok(result) => result,
                Err(_) => {
                    self.metrics.dial(Dial::Timeout);
                    let message = format!("no connection to {} within {limit:?}", address());
                    return Err((SendErrorKind::ConnectTimeout, message));
                }
            },
            None => dial.await,
        };
        match result {
            Ok(stream) => {
                self.metrics.dial(Dial::Ok);
                Ok(stream)
            }
            Err(error) => {
                let refused = error.kind() == io::ErrorKind::ConnectionRefused;
                self.metrics.dial(if refused { Dial::Refused } else { Dial::Error });
                Err((SendErrorKind::Connect, format!("cannot connect to {}: {error}", address())))
            }
        }
    }
}

/// Tries every address of a name in turn.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = None;
    for address in tokio::net::lookup_host((host, port)).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Small writes must leave at once: each is a request or a token.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
}
