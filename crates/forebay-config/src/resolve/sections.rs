//! Timeouts, probes, limits and the like.

use super::Resolver;
use crate::error::quote;
use crate::raw::{RawDrain, RawHealth, RawLimits, RawRetry, RawTimeouts};
use crate::sections::{Drain, Health, Limits, Retry, Timeouts};

impl Resolver<'_> {
    /// Time limits over those of `base`.
    pub(super) fn timeouts(&mut self, raw: Option<&RawTimeouts>, base: Timeouts, path: &str) -> Timeouts {
        let Some(raw) = raw else { return base };
        Timeouts {
            connect: self.field(&raw.connect, path, "connect", base.connect),
            first_byte: self.field(&raw.first_byte, path, "first_byte", base.first_byte),
            answer: self.field(&raw.answer, path, "answer", base.answer),
            idle: self.field(&raw.idle, path, "idle", base.idle),
            total: self.field(&raw.total, path, "total", base.total),
        }
    }

    /// Probes over those of `base`.
    pub(super) fn health(&mut self, raw: Option<&RawHealth>, base: Health, path: &str) -> Health {
        let Some(raw) = raw else { return base };
        Health {
            enabled: self.field(&raw.enabled, path, "enabled", base.enabled),
            path: self.field(&raw.path, path, "path", base.path),
            interval: self.field(&raw.interval, path, "interval", base.interval),
            timeout: self.field(&raw.timeout, path, "timeout", base.timeout),
            fall: self.count(&raw.fall, path, "fall", base.fall),
            rise: self.count(&raw.rise, path, "rise", base.rise),
        }
    }

    /// Second attempts over those of `base`.
    pub(super) fn retry(&mut self, raw: Option<&RawRetry>, base: Retry, path: &str) -> Retry {
        let Some(raw) = raw else { return base };
        Retry { connect: self.count(&raw.connect, path, "connect", base.connect) }
    }

    pub(super) fn limits(&mut self, raw: Option<&RawLimits>, base: Limits) -> Limits {
        let Some(raw) = raw else { return base };
        let path = "limits";
        let header_bytes = self.field(&raw.header_bytes, path, "header_bytes", base.header_bytes as u64);
        let limits = Limits {
            body: self.field(&raw.body, path, "body", base.body),
            body_memory: self.field(&raw.body_memory, path, "body_memory", base.body_memory),
            header_bytes: usize::try_from(header_bytes).unwrap_or(usize::MAX),
            header_read: self.field(&raw.header_read, path, "header_read", base.header_read),
            body_stall: self.field(&raw.body_stall, path, "body_stall", base.body_stall),
            connections: self.count(&raw.connections, path, "connections", base.connections),
            in_flight: self.count(&raw.in_flight, path, "in_flight", base.in_flight),
            client_idle: self.field(&raw.client_idle, path, "client_idle", base.client_idle),
            max_streams: self.count(&raw.max_streams, path, "max_streams", base.max_streams),
        };
        if limits.body_memory < limits.body {
            let (path, other) = if raw.body_memory.is_some() {
                ("limits.body_memory", "limits.body")
            } else {
                ("limits.body", "limits.body_memory")
            };
            let written = |field: Option<&str>, default: &str| field.map_or(default.to_owned(), quote);
            let memory = written(raw.body_memory.as_ref().map(|s| s.text.as_str()), "the default 1GiB");
            let body = written(raw.body.as_ref().map(|s| s.text.as_str()), "the default 64MiB");
            let also: &[(&str, &str)] =
                if raw.body_memory.is_some() && raw.body.is_some() { &[(other, "set here")] } else { &[] };
            self.error_with(
                path,
                format!("body_memory ({memory}) is smaller than body ({body}): a request of that size could never be read"),
                also,
            );
        }
        limits
    }

    pub(super) fn drain(&mut self, raw: Option<&RawDrain>, base: Drain) -> Drain {
        let Some(raw) = raw else { return base };
        Drain {
            delay: self.field(&raw.delay, "drain", "delay", base.delay),
            limit: self.field(&raw.limit, "drain", "limit", base.limit),
        }
    }
}
