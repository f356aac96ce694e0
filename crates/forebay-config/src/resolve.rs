//! From what the user wrote to what the program uses, with every error of meaning.

mod endpoints;
mod listen;
mod models;
mod pools;
mod prefix;
mod routing;
mod sections;
mod shared;

use crate::config::{Config, Log, ResponseHeaders};
use crate::error::{Also, ConfigError, Errors, Place};
use crate::places::{Places, join};
use crate::raw::{Field, Later, RawConfig};
use crate::scalar::{Kind, Scalar};
use crate::variables::{Lookup, expand};

/// Resolves a whole file.
pub(crate) fn resolve(raw: &RawConfig, source: Source<'_>, lookup: Lookup<'_>) -> Result<Config, Errors> {
    let mut to = Resolver::new(source, lookup);
    let defaults = Config::default();
    to.required(&raw.version, "", "version");
    let later = [("routes", raw.routes), ("ledger", raw.ledger), ("epp", raw.epp), ("tls", raw.tls)];
    to.later("", &later);
    if raw.tenants.is_some() {
        // An empty list too: it would let nobody in, and this version would let everybody in.
        let message = "is not in this version; remove it, and note that without it every client is served";
        to.error("tenants", message.to_owned());
    }
    let timeouts = to.timeouts(raw.timeouts.as_ref(), defaults.timeouts, "timeouts");
    let health = to.health(raw.health.as_ref(), defaults.health, "health");
    let retry = to.retry(raw.retry.as_ref(), defaults.retry, "retry");
    let inherited = pools::Inherited { timeouts, health: health.clone(), retry };
    let mut names = models::Names::default();
    let pools = to.pools(raw.pools.as_deref(), &inherited, &mut names);
    to.check_publishers(raw.pools.as_deref().unwrap_or_default(), &pools);
    to.check_metrics_pages(raw.pools.as_deref().unwrap_or_default(), &pools);
    let models = to.models(raw.models.as_deref().unwrap_or_default(), &mut names);
    let admin = to.field(&raw.admin, "", "admin", defaults.admin);
    let prefix_index = to.prefix_index(raw.prefix_index.as_ref(), defaults.prefix_index);
    let decision_log = to.decision_log(raw.decision_log.as_ref());
    to.written_files(&prefix_index, decision_log.as_ref());
    to.check_index_bytes(&prefix_index, &pools);
    let config = Config {
        listen: to.listen(raw.listen.as_ref(), defaults.listen, admin),
        admin,
        pools,
        models,
        timeouts,
        limits: to.limits(raw.limits.as_ref(), defaults.limits),
        drain: to.drain(raw.drain.as_ref(), defaults.drain),
        health,
        retry,
        prefix_index,
        decision_log,
        log: raw.log.as_ref().map_or(defaults.log, |log| Log {
            level: to.field(&log.level, "log", "level", defaults.log.level),
            format: to.field(&log.format, "log", "format", defaults.log.format),
            access: to.field(&log.access, "log", "access", defaults.log.access),
        }),
        workers: to.field(&raw.workers, "", "workers", 0) as usize,
        response_headers: raw.response_headers.as_ref().map_or(defaults.response_headers, |headers| {
            ResponseHeaders {
                endpoint: to.field(&headers.endpoint, "response_headers", "endpoint", false),
                server_timing: to.field(&headers.server_timing, "response_headers", "server_timing", false),
                held_tokens: to.field(&headers.held_tokens, "response_headers", "held_tokens", false),
            }
        }),
        trust_control_headers: to.field(&raw.trust_control_headers, "", "trust_control_headers", false),
    };
    to.finish(config)
}

/// The file that is being read.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    pub(crate) places: &'a Places,
}

impl Source<'_> {
    /// The place to show for a path.
    fn place(&self, path: &str) -> Place {
        let (line, column) = self.places.point(path);
        Place::new(self.text, line, column)
    }
}

/// Reads fields and collects what is wrong with them. After an error it goes on with a
/// default, so that one run reports everything.
pub(crate) struct Resolver<'a> {
    source: Source<'a>,
    lookup: Lookup<'a>,
    errors: Vec<ConfigError>,
    /// Errors beyond `MOST_ERRORS`.
    more: usize,
}

/// Errors that are shown. A generated file with one mistake has it thousands of times.
const MOST_ERRORS: usize = 100;

impl<'a> Resolver<'a> {
    pub(crate) fn new(source: Source<'a>, lookup: Lookup<'a>) -> Resolver<'a> {
        Resolver { source, lookup, errors: Vec::new(), more: 0 }
    }
}

impl Resolver<'_> {
    /// What was read, unless something was wrong with it.
    pub(crate) fn finish<T>(self, read: T) -> Result<T, Errors> {
        let Resolver { mut errors, more, .. } = self;
        errors.sort_by_key(|error| (error.place.line, error.place.column));
        let Some(last) = errors.last() else { return Ok(read) };
        if more > 0 {
            let message = format!("and {more} more errors, not shown");
            errors.push(ConfigError { path: String::new(), message, also: Vec::new(), ..last.clone() });
        }
        Err(Errors(errors))
    }

    pub(crate) fn error(&mut self, path: &str, message: String) {
        self.error_with(path, message, &[]);
    }

    /// An error that is about several places: `also` has the paths of the others and
    /// what is there.
    pub(crate) fn error_with(&mut self, path: &str, message: String, also: &[(&str, &str)]) {
        if self.errors.len() == MOST_ERRORS {
            self.more += 1;
            return;
        }
        let also = also.iter().map(|(path, message)| Also {
            message: format!("{path}: {message}"),
            place: self.source.place(path),
        });
        self.errors.push(ConfigError {
            file: self.source.file.to_owned(),
            path: path.to_owned(),
            message,
            also: also.collect(),
            place: self.source.place(path),
        });
    }

    /// An error about the name of a field that the user chose.
    fn error_at_name(&mut self, path: &str, message: String) {
        self.error(path, message);
        let key = self.source.places.get(path).and_then(|spot| spot.key);
        if let (Some((line, column)), Some(error), 0) = (key, self.errors.last_mut(), self.more) {
            error.place = Place::new(self.source.text, line, column);
        }
    }

    /// The value of a field, or `None` where it is absent or wrong.
    pub(crate) fn optional<K: Kind>(
        &mut self,
        field: &Field<K>,
        parent: &str,
        name: &str,
    ) -> Option<K::Value> {
        let written = field.as_ref()?;
        self.scalar(written, &join(parent, name))
    }

    /// The value of a field, or its default.
    pub(crate) fn field<K: Kind>(
        &mut self,
        field: &Field<K>,
        parent: &str,
        name: &str,
        default: K::Value,
    ) -> K::Value {
        self.optional(field, parent, name).unwrap_or(default)
    }

    /// The value of a whole number whose range fits 32 bits, or its default.
    pub(crate) fn count<K: Kind<Value = u64>>(
        &mut self,
        field: &Field<K>,
        parent: &str,
        name: &str,
        default: u32,
    ) -> u32 {
        self.optional(field, parent, name).map_or(default, |number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// The value of a field that must be there.
    pub(crate) fn required<K: Kind>(
        &mut self,
        field: &Field<K>,
        parent: &str,
        name: &str,
    ) -> Option<K::Value> {
        if field.is_none() {
            self.error(&join(parent, name), "is missing".to_owned());
        }
        self.optional(field, parent, name)
    }

    /// Reads one text of kind `K`.
    pub(crate) fn scalar<K: Kind>(&mut self, written: &Scalar<K>, path: &str) -> Option<K::Value> {
        let expanded = match expand(&written.text, self.lookup) {
            Ok(expanded) => expanded,
            Err(problem) => {
                self.error(path, problem);
                return None;
            }
        };
        match K::parse(&expanded.text) {
            Ok(value) => Some(value),
            Err(complaint) => {
                let shown = if K::SECRET { "…" } else { &written.text };
                self.error(path, complaint.message(shown, expanded.secret || K::SECRET));
                None
            }
        }
    }

    /// Refuses sections that only a later version reads.
    fn later(&mut self, parent: &str, sections: &[(&str, Option<Later>)]) {
        for (name, section) in sections {
            if *section == Some(Later::Filled) {
                self.error(&join(parent, name), "is not in this version; remove it".to_owned());
            }
        }
    }
}
