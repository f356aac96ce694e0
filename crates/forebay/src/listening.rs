//! Saying on standard output that a program listens, in one line of JSON.

use std::io::Write;
use std::net::SocketAddr;

use serde_json::{Value, json};

/// The gateway listens.
pub(crate) fn gateway(listen: &[SocketAddr], admin: SocketAddr) {
    print(&json!({
        "event": "listening",
        "listen": listen.iter().map(SocketAddr::to_string).collect::<Vec<_>>(),
        "admin": admin.to_string(),
    }));
}

/// A simulated engine listens.
pub(crate) fn engine(listen: SocketAddr) {
    print(&json!({"event": "listening", "listen": listen.to_string()}));
}

fn print(line: &Value) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading; that is no reason to stop serving.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
