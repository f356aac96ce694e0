//! `name=value, name=value`, as the format was specified, and `name:value`, as
//! Envoy read it first.

use super::{OrcaError, OrcaReport};

pub(super) fn parse(payload: &[u8]) -> Result<(OrcaReport, u32), OrcaError> {
    let payload =
        std::str::from_utf8(payload).map_err(|e| OrcaError::Text { format: "TEXT", why: e.to_string() })?;
    let mut report = OrcaReport::default();
    let mut skipped = 0;
    for entry in payload.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        // From the right: Prometheus names, with colons, are used as names.
        let used = entry
            .rsplit_once('=')
            .or_else(|| entry.rsplit_once(':'))
            .and_then(|(name, value)| Some((name.trim_end(), value.trim_start().parse().ok()?)))
            .is_some_and(|(name, value)| report.add(name, value));
        skipped += u32::from(!used);
    }
    Ok((report, skipped))
}
