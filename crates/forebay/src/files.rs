//! Room for connections: each costs a file descriptor.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard one. The soft limit is kept
/// low, usually 1024, for programs that use `select`; a gateway with two
/// descriptors per stream would be full at five hundred.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}
