//! Configuration files of the programs, from the templates in `rivals/`.

use std::fmt::Write;
use std::net::{SocketAddr, TcpListener};

/// An address of the loopback that nothing listened on a moment ago, for
/// programs that cannot be asked which port they were given.
pub(super) fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(|e| e.to_string())
}

pub(super) fn nginx(listen: SocketAddr, backends: &[SocketAddr], dir: &str) -> String {
    let servers = lines(backends, |_, backend| format!("        server {backend};"));
    include_str!("../../rivals/nginx.conf")
        .replace("@LISTEN@", &listen.to_string())
        .replace("@SERVERS@", &servers)
        .replace("@DIR@", dir)
}

pub(super) fn haproxy(listen: SocketAddr, backends: &[SocketAddr]) -> String {
    let servers = lines(backends, |nth, backend| format!("    server engine{nth} {backend}"));
    include_str!("../../rivals/haproxy.cfg")
        .replace("@LISTEN@", &listen.to_string())
        .replace("@SERVERS@", &servers)
}

pub(super) fn forebay(backends: &[SocketAddr]) -> String {
    let servers = lines(backends, |_, backend| format!("      - url: http://{backend}"));
    include_str!("../../rivals/forebay.yaml").replace("@SERVERS@", &servers)
}

fn lines(backends: &[SocketAddr], line: impl Fn(usize, &SocketAddr) -> String) -> String {
    let mut text = String::new();
    for (nth, backend) in backends.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line(nth, backend));
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_filled() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 7000));
        let backends = [7001, 7002].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        for text in [nginx(listen, &backends, "/d"), haproxy(listen, &backends), forebay(&backends)] {
            for expect in ["127.0.0.1:7001", "127.0.0.1:7002"] {
                assert_eq!(text.matches(expect).count(), 1, "{expect} in {text}");
            }
            assert!(!text.contains('@'), "{text}");
        }
    }

    #[test]
    fn the_gateway_reads_its_configuration() {
        let backends = [7001, 7002].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let config = forebay_config::parse_str("forebay.yaml", &forebay(&backends)).unwrap();
        assert_eq!((config.workers, config.pools.len(), config.pools[0].endpoints.len()), (1, 1, 2));
    }
}
