//! Prefixes, tokens, KV-cache events and the decision log.

use super::Resolver;
use crate::config::DecisionLog;
use crate::places::join;
use crate::pool::{Endpoint, Pool};
use crate::prefix::{KvEvents, PrefixIndex, Tokenizer};
use crate::raw::{RawDecisionLog, RawKvEvents, RawPrefixIndex, RawTokenizer};

impl Resolver<'_> {
    pub(super) fn prefix_index(&mut self, raw: Option<&RawPrefixIndex>, base: PrefixIndex) -> PrefixIndex {
        let Some(raw) = raw else { return base };
        let path = "prefix_index";
        let max_bytes = self.field(&raw.max_bytes, path, "max_bytes", base.max_bytes as u64);
        PrefixIndex {
            max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
            snapshot: self.optional(&raw.snapshot, path, "snapshot"),
            snapshot_interval: self.field(
                &raw.snapshot_interval,
                path,
                "snapshot_interval",
                base.snapshot_interval,
            ),
        }
    }

    /// Refuses less memory than the indexes are built with: each takes that much.
    pub(super) fn check_index_bytes(&mut self, index: &PrefixIndex, pools: &[Pool]) {
        let least = index.least(pools);
        if index.max_bytes >= least {
            return;
        }
        let quarter = index.shares(pools).engines > 0;
        let of = if quarter {
            " of the quarter that is left beside what engines tell of their caches"
        } else {
            ""
        };
        let message = format!(
            "is {}MiB, too little for {} groups of pools that share no endpoint, each of which needs 1MiB{of}; write \
             {}MiB or more",
            index.max_bytes >> 20,
            (least >> 20) / if quarter { 4 } else { 1 },
            least >> 20
        );
        self.error("prefix_index.max_bytes", message);
    }

    pub(super) fn decision_log(&mut self, raw: Option<&RawDecisionLog>) -> Option<DecisionLog> {
        let raw = raw?;
        let path = "decision_log";
        let log = DecisionLog::new(self.required(&raw.path, path, "path").unwrap_or_default());
        Some(DecisionLog { max_bytes: self.field(&raw.max_bytes, path, "max_bytes", log.max_bytes), ..log })
    }

    /// Refuses two uses of one file, each of which would destroy the other.
    pub(super) fn written_files(&mut self, index: &PrefixIndex, log: Option<&DecisionLog>) {
        let (Some(snapshot), Some(log)) = (index.snapshot.as_deref(), log) else { return };
        let mut aside = log.path.clone().into_os_string();
        aside.push(".1");
        if snapshot == log.path || snapshot.as_os_str() == aside {
            let message = "the same file as prefix_index.snapshot; each needs its own";
            self.error_with(
                "decision_log.path",
                message.to_owned(),
                &[("prefix_index.snapshot", "writes it already")],
            );
        }
    }

    pub(super) fn tokenizer(&mut self, raw: Option<&RawTokenizer>, path: &str) -> Option<Tokenizer> {
        let raw = raw?;
        let base = Tokenizer::new(self.required(&raw.file, path, "file").unwrap_or_default());
        Some(Tokenizer {
            chat_template: self.optional(&raw.chat_template, path, "chat_template"),
            timeout: self.field(&raw.timeout, path, "timeout", base.timeout),
            workers: self.field(&raw.workers, path, "workers", base.workers as u64) as usize,
            ..base
        })
    }

    pub(super) fn kv_events(&mut self, raw: Option<&RawKvEvents>, path: &str) -> Option<KvEvents> {
        let raw = raw?;
        let base = KvEvents::default();
        let events = KvEvents {
            url: self.field(&raw.url, path, "url", base.url),
            replay: self.optional(&raw.replay, path, "replay"),
            topic: self.field(&raw.topic, path, "topic", base.topic),
            ranks: self.count(&raw.ranks, path, "ranks", base.ranks),
            bind: self.field(&raw.bind, path, "bind", base.bind),
        };
        if events.bind && events.url.contains("{host}") {
            let message = "stands for another machine with {host}, but with bind the gateway listens there itself; \
                           write its own address, such as tcp://0.0.0.0:5557";
            self.error(&join(path, "url"), message.to_owned());
        } else if !events.bind && events.url.contains('*') {
            let message = "has * for its host, which nobody can connect to; write {host}, or set bind";
            self.error(&join(path, "url"), message.to_owned());
        }
        Some(events)
    }

    /// Refuses a publisher that would be taken for the cache of several endpoints, and
    /// ranks that have no ports.
    pub(super) fn check_kv_events(&mut self, pool: &Pool, pool_path: &str) {
        let Some(events) = &pool.kv_events else { return };
        let path = join(&join(pool_path, "kv_events"), "url");
        let sharing = pool.endpoints.iter().filter(|endpoint| endpoint.kv_events.is_none()).count();
        // An address with * has had its error.
        if !events.bind && sharing > 1 && !events.url.contains("{host}") && !events.url.contains('*') {
            let message = format!(
                "is one address for {sharing} endpoints, each of which has a cache of its own; put {{host}} in it, or \
                 give each endpoint its kv_events"
            );
            self.error(&path, message);
        }
        let port = |url: &str| url.rsplit_once(':').and_then(|(_, port)| port.parse::<u32>().ok());
        let too_many = |url: &str| port(url).is_some_and(|port| port + events.ranks > 65_536);
        let own = |endpoint: &Endpoint| {
            [&endpoint.kv_events, &endpoint.kv_replay].into_iter().flatten().any(|url| too_many(url))
        };
        let pools = [Some(&events.url).filter(|_| !events.bind), events.replay.as_ref()];
        if pools.into_iter().flatten().any(|url| too_many(url)) || pool.endpoints.iter().any(own) {
            let message = "asks for ports above 65535: each rank after the first has the next port";
            self.error(&join(&join(pool_path, "kv_events"), "ranks"), message.to_owned());
        }
    }
}
