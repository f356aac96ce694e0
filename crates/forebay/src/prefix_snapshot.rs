//! The prefix index on disk, so that a restarted gateway does not begin blind.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::EndpointId;
use forebay_live::{EndpointKey, Live};
use forebay_prefix::{Restored, SnapshotError};
use forebay_proxy::Endpoint;

/// The file of one Gate's index: Gates are told apart by their number. Which
/// Gate has an endpoint is another one when pools change their order: whoever
/// reads looks for names in all of them.
fn file(path: &Path, gate: u32) -> PathBuf {
    if gate == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{gate}"));
    PathBuf::from(name)
}

/// The files beside `path` that earlier processes may have written: by the number
/// of their Gate, whether or not there is such a Gate now.
fn files(path: &Path) -> BTreeMap<u32, PathBuf> {
    let mut found = BTreeMap::from([(0, path.to_owned())]);
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let (Some(name), Ok(entries)) = (path.file_name(), std::fs::read_dir(folder)) else { return found };
    for entry in entries.flatten() {
        let other = entry.file_name();
        let rest = other.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
        let number = rest.and_then(|rest| std::str::from_utf8(rest.strip_prefix(b".")?).ok());
        let Some(gate) = number.and_then(|number| number.parse().ok()) else { continue };
        // Not 01 and the like: what this writes, and nothing else.
        if gate > 0 && file(path, gate).file_name() == Some(&other) {
            found.insert(gate, file(path, gate));
        }
    }
    found
}

/// What a snapshot begins with.
const MAGIC: &[u8] = b"FBPX";

/// Refuses a path where something else lies, there or where the index of any
/// other Gate goes: it would be overwritten.
///
/// # Errors
/// A path is no regular file, or one that is no snapshot.
pub(crate) fn check(path: &Path, live: &Live<Endpoint>) -> Result<(), String> {
    for (gate, _) in live.indexes() {
        let path = file(path, gate);
        check_one(&path).map_err(|why| if gate == 0 { why } else { format!("{}: {why}", path.display()) })?;
    }
    Ok(())
}

fn check_one(path: &Path) -> Result<(), String> {
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
    let ids: BTreeMap<String, EndpointKey> =
        live.endpoints().into_iter().map(|view| (view.member.name.clone(), view.key)).collect();
    for (gate, name) in files(path) {
        let bytes = match std::fs::read(&name) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                tracing::warn!(file = %name.display(), %error, "the prefix index cannot be read back");
                continue;
            }
        };
        match restore_one(&bytes, gate, live, &ids) {
            Ok(restored) => tracing::info!(
                file = %name.display(),
                endpoints = restored.endpoints,
                unknown = restored.unknown,
                blocks = restored.blocks,
                "the prefix index was read back"
            ),
            Err(error) => {
                tracing::warn!(file = %name.display(), %error, "the prefix index cannot be read back");
            }
        }
    }
}

/// Gives each Gate what the file has of its endpoints, whichever Gate wrote it.
fn restore_one(
    bytes: &[u8],
    wrote: u32,
    live: &Live<Endpoint>,
    ids: &BTreeMap<String, EndpointKey>,
) -> Result<Restored, SnapshotError> {
    let mut sum = Restored::default();
    // The others are looked at only for what the first one shows to be theirs.
    let owners = RefCell::new(BTreeSet::new());
    let mut done = BTreeSet::new();
    let mut next =
        live.index(wrote).map_or_else(|| live.indexes().next().map(|(gate, _)| gate), |_| Some(wrote));
    while let Some(gate) = next {
        let Some(index) = live.index(gate) else { break };
        let restored = index.restore(bytes, |name| {
            let key = ids.get(name)?;
            owners.borrow_mut().insert(key.gate);
            (key.gate == gate).then_some(key.id)
        })?;
        if done.is_empty() {
            sum.unknown = restored.endpoints + restored.unknown;
        }
        done.insert(gate);
        sum.endpoints += restored.endpoints;
        sum.blocks += restored.blocks;
        next = owners.borrow().difference(&done).next().copied();
    }
    sum.unknown = sum.unknown.saturating_sub(sum.endpoints);
    Ok(sum)
}

/// Writes every index, each to a new file that then takes the old one's place.
/// What is left of Gates that there were before goes: all of it is in these.
pub(crate) fn write(path: &Path, live: &Live<Endpoint>) {
    let views = live.endpoints();
    let (mut gates, mut is_whole) = (BTreeSet::new(), true);
    for (gate, index) in live.indexes() {
        gates.insert(gate);
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
            is_whole = false;
        }
    }
    for (_, stale) in files(path).into_iter().filter(|(gate, _)| is_whole && !gates.contains(gate)) {
        if check_one(&stale).is_ok()
            && let Err(error) = std::fs::remove_file(&stale)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %stale.display(), %error, "a prefix index of a former Gate cannot be removed");
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

#[cfg(test)]
#[path = "prefix_snapshot_tests.rs"]
mod tests;
