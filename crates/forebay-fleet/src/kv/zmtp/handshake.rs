//! Greeting and READY.

use tokio::io::AsyncReadExt;

use super::{COMMAND, Connection, Socket, ZmtpError, put_frame};

const GREETING: usize = 64;

/// Bytes of a READY command, at most.
const MAX_READY: usize = 4096;

pub(super) async fn run(connection: &mut Connection, socket: Socket) -> Result<(), ZmtpError> {
    connection.write(&greeting()).await?;
    let mut theirs = [0; GREETING];
    connection.io.read_exact(&mut theirs).await?;
    if theirs[0] != 0xff || theirs[9] & 1 == 0 {
        return Err(ZmtpError::Protocol("no greeting"));
    }
    if theirs[10] < 3 {
        return Err(ZmtpError::Protocol("its version is before 3.0"));
    }
    if theirs[12..32] != greeting()[12..32] {
        return Err(ZmtpError::Protocol("it wants authentication"));
    }
    connection.write(&ready(socket)).await?;
    let frame = connection.frame(MAX_READY).await?;
    if frame.flags & COMMAND == 0 {
        return Err(ZmtpError::Protocol("it is not ready"));
    }
    let Some(properties) = frame.body.strip_prefix(b"\x05READY") else {
        return Err(ZmtpError::Protocol("it refuses"));
    };
    let theirs = property(properties, b"Socket-Type");
    let fits = match socket {
        Socket::Sub => matches!(theirs, Some(b"PUB" | b"XPUB")),
        Socket::Dealer => matches!(theirs, Some(b"ROUTER" | b"DEALER" | b"REP")),
    };
    if fits { Ok(()) } else { Err(ZmtpError::Protocol("it is another type of socket")) }
}

/// Signature, version 3.0, mechanism NULL, not a server, filler.
fn greeting() -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

fn ready(socket: Socket) -> Vec<u8> {
    let kind: &[u8] = match socket {
        Socket::Sub => b"SUB",
        Socket::Dealer => b"DEALER",
    };
    let mut body = b"\x05READY".to_vec();
    let properties: [(&[u8], &[u8]); 2] = [(b"Socket-Type", kind), (b"Identity", b"")];
    for (name, value) in properties {
        body.push(name.len() as u8);
        body.extend_from_slice(name);
        body.extend((value.len() as u32).to_be_bytes());
        body.extend_from_slice(value);
    }
    let mut frame = Vec::new();
    put_frame(COMMAND, &body, &mut frame);
    frame
}

/// The value of a property; its name is not case-sensitive.
fn property<'a>(mut properties: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    loop {
        let (&length, rest) = properties.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(length))?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        properties = rest;
    }
}
