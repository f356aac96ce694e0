//! The prefix index on disk, so that a restarted gateway does not begin blind.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::EndpointId;
use forebay_live::Live;
use forebay_proxy::Endpoint;

/// The file of one Gate's index: Gates are told apart by their number.
fn file(path: &Path, gate: u32) -> PathBuf {
    if gate == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{gate}"));
    PathBuf::from(name)
}

/// What a snapshot begins with.
const MAGIC: &[u8] = b"FBPX";

/// Refuses a path where something else lies: it would be overwritten.
///
/// # Errors
/// The path is no regular file, or one that is no snapshot.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut head = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    io::Read::read_to_end(&mut io::Read::take(file, MAGIC.len() as u64), &mut head)
        .map_err(|error| error.to_string())?;
    // A snapshot that was cut off is one all the same.
    if MAGIC.starts_with(&head) {
        Ok(())
    } else {
        Err("it is not a snapshot, and would be overwritten".to_owned())
    }
}

/// Reads what an earlier process wrote; what cannot be read is passed over
/// with a word in the log.
pub(crate) fn restore(path: &Path, live: &Live<Endpoint>) {
    let mut ids: BTreeMap<(u32, String), EndpointId> = BTreeMap::new();
    for view in live.endpoints() {
        ids.insert((view.key.gate, view.member.name.clone()), view.key.id);
    }
    for (gate, index) in live.indexes() {
        let name = file(path, gate);
        let bytes = match std::fs::read(&name) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                tracing::warn!(file = %name.display(), %error, "the prefix index cannot be read back");
                continue;
            }
        };
        match index.restore(&bytes, |endpoint| ids.get(&(gate, endpoint.to_owned())).copied()) {
            Ok(restored) => tracing::info!(
                file = %name.display(),
                endpoints = restored.endpoints,
                blocks = restored.blocks,
                "the prefix index was read back"
            ),
            Err(error) => {
                tracing::warn!(file = %name.display(), %error, "the prefix index cannot be read back");
            }
        }
    }
}

/// Writes every index, each to a new file that then takes the old one's place.
pub(crate) fn write(path: &Path, live: &Live<Endpoint>) {
    let views = live.endpoints();
    for (gate, index) in live.indexes() {
        let names: BTreeMap<EndpointId, &str> = views
            .iter()
            .filter(|view| view.key.gate == gate)
            .map(|view| (view.key.id, view.member.name.as_str()))
            .collect();
        let bytes = index.snapshot(|id| names.get(&id).map(|name| (*name).to_owned()));
        let name = file(path, gate);
        let mut fresh = name.as_os_str().to_owned();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        let written = std::fs::write(&fresh, bytes).and_then(|()| std::fs::rename(&fresh, &name));
        if let Err(error) = written {
            tracing::warn!(file = %name.display(), %error, "the prefix index cannot be written");
        }
    }
}

/// Writes every so often from a thread of its own until it is dropped, and
/// then once more.
pub(crate) struct Keeper {
    path: PathBuf,
    live: Arc<Live<Endpoint>>,
    stop: std::sync::mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn start(
        path: PathBuf,
        every: std::time::Duration,
        live: Arc<Live<Endpoint>>,
    ) -> io::Result<Keeper> {
        let (stop, stopped) = std::sync::mpsc::channel();
        let (file, gates) = (path.clone(), Arc::clone(&live));
        let thread =
            std::thread::Builder::new().name("forebay-prefix-snapshot".to_owned()).spawn(move || {
                while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
                    write(&file, &gates);
                }
            })?;
        Ok(Keeper { path, live, stop, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        write(&self.path, &self.live);
    }
}
