//! One running program.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::cores::Cores;
use crate::load::{Connection, Requests};
use crate::process::{CpuTime, resident};
use crate::scratch::Scratch;
use crate::temp::TempDir;

const READY_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(5);

/// A proxy that answers, until [`Running::end`] or, when that is not reached,
/// until this process ends. Its folder goes when this value does.
pub(crate) struct Running {
    child: Child,
    pid: u32,
    address: SocketAddr,
    /// Kept open: writing to a closed pipe would end the program.
    _output: Option<BufReader<ChildStdout>>,
    _dir: TempDir,
}

/// The line by which a program of ours says where it listens.
#[derive(Deserialize)]
struct Listening {
    event: String,
    listen: Vec<SocketAddr>,
}

impl Running {
    /// Starts `program` on the proxy's core and waits until it answers.
    /// Without an `address` the program says on its first line of output
    /// where it listens.
    pub(super) async fn start(
        program: &Path,
        arguments: &[String],
        address: Option<SocketAddr>,
        cores: Cores,
        dir: TempDir,
    ) -> Result<Running, String> {
        let log = dir.path().join("stderr");
        let stderr = std::fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let mut command = Command::new("taskset");
        // Both wrappers replace themselves, so the child's id is the program's.
        // The signal at the parent's death keeps servers from outliving a
        // harness that was interrupted; killing them when dropped would not do,
        // because a killed nginx master leaves its worker behind.
        command.args(["-c", &cores.proxy.to_string(), "setpriv", "--pdeathsig", "TERM"]);
        command.arg(program).args(arguments).stdin(Stdio::null()).stderr(stderr);
        command.stdout(if address.is_some() { Stdio::null() } else { Stdio::piped() });
        let mut child = command.spawn().map_err(|e| format!("cannot start taskset: {e}"))?;
        let pid = child.id().ok_or("ended at once")?;
        let mut output = child.stdout.take().map(BufReader::new);
        let answered = async {
            let address = match (address, output.as_mut()) {
                (Some(address), _) => address,
                (None, Some(output)) => listening(output).await?,
                (None, None) => return Err("no output to read".to_owned()),
            };
            until_answered(address).await;
            Ok(address)
        };
        let found = tokio::select! {
            found = timeout(READY_LIMIT, answered) => found.unwrap_or(Err("not ready in time".to_owned())),
            status = child.wait() => Err(ended(status)),
        };
        match found {
            Ok(address) => Ok(Running { child, pid, address, _output: output, _dir: dir }),
            Err(why) => {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                end(&mut child, pid).await;
                Err(format!("{why}\n{}", last_lines(&said)))
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn cpu_time(&self) -> Result<CpuTime, String> {
        CpuTime::of(self.pid)
    }

    pub(crate) fn resident(&self) -> Result<u64, String> {
        resident(self.pid)
    }

    /// Asks it to end, and kills it when it does not.
    pub(crate) async fn end(mut self) {
        end(&mut self.child, self.pid).await;
    }
}

/// SIGTERM first: a killed nginx master cannot end its worker.
async fn end(child: &mut Child, pid: u32) {
    if matches!(child.try_wait(), Ok(None)) {
        let asked = Command::new("kill").args(["-TERM", &pid.to_string()]).status().await;
        if asked.is_ok() && timeout(END_LIMIT, child.wait()).await.is_ok() {
            return;
        }
    }
    let _ = child.kill().await;
}

async fn listening(output: &mut BufReader<ChildStdout>) -> Result<SocketAddr, String> {
    let mut line = String::new();
    output.read_line(&mut line).await.map_err(|e| format!("its output: {e}"))?;
    let said: Listening =
        serde_json::from_str(&line).map_err(|e| format!("its first line is {line:?}: {e}"))?;
    match said.listen.first() {
        Some(address) if said.event == "listening" => Ok(*address),
        _ => Err(format!("its first line is {line:?}")),
    }
}

/// Tries until a request gets its answer.
async fn until_answered(address: SocketAddr) {
    let (scratch, requests) = (Scratch::new(), Requests::chat(1024));
    loop {
        if let Ok(mut connection) = Connection::open(address, &scratch).await
            && let Ok(answer) = connection.exchange(requests.get(0), &|| {}).await
            && answer.status == 200
        {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn ended(status: std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("ended before it was ready ({status})"),
        Err(e) => format!("lost: {e}"),
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
