use super::*;

use crate::StatusSource;
use crate::control::{ControlError, EndpointPatch, FleetControl, PoolPatch};
use crate::model::{EndpointStatus, PoolStatus, Readiness, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// More than the kernel's buffers hold, so that an answer that nobody reads stalls.
struct Heavy;

impl StatusSource for Heavy {
    fn status(&self) -> Status {
        Status::default()
    }

    fn ready(&self) -> Readiness {
        Readiness::default()
    }

    fn decisions(&self, _last: usize) -> Vec<crate::DecisionView> {
        Vec::new()
    }

    fn metrics(&self) -> String {
        "x".repeat(64 << 20)
    }
}

impl FleetControl for Heavy {
    fn patch_endpoint(&self, _id: &str, _patch: &EndpointPatch) -> Result<EndpointStatus, ControlError> {
        Err(ControlError::Unknown)
    }

    fn patch_pool(&self, _name: &str, _patch: &PoolPatch) -> Result<PoolStatus, ControlError> {
        Err(ControlError::Unknown)
    }
}

async fn start(limits: Limits) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(serve_within(limits, listener, Arc::new(Heavy), std::future::pending::<()>()));
    (address, server)
}

/// Reads to the end or the failure; how many bytes came.
async fn drain(stream: &mut TcpStream) -> usize {
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection is closed");
    bytes.len()
}

#[tokio::test]
async fn half_a_head_is_cut_after_its_time() {
    let limits = Limits { head: Duration::from_millis(50), ..Limits::default() };
    let (address, _server) = start(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nx: ").await.unwrap();
    drain(&mut stream).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let limits =
        Limits { life: Duration::from_millis(50), grace: Duration::from_millis(50), ..Limits::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let (stream, peer) = listener.accept().await.unwrap();
    let (_stop, stopped) = watch::channel(false);
    let connection = one(limits, stream, peer, routes::router(Arc::new(Heavy)), stopped);
    timeout(PATIENCE, connection).await.expect("it ends though nobody reads");
    assert!(drain(&mut client).await < 64 << 20, "the answer was cut");
}

#[tokio::test]
async fn a_kept_connection_ends_after_its_life() {
    let limits = Limits { life: Duration::from_millis(50), ..Limits::default() };
    let (address, _server) = start(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(drain(&mut stream).await > 0, "the answer came before the end");
}
