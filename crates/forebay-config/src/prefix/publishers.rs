//! Which endpoints follow which publishers of KV-cache events.

use std::collections::BTreeMap;

use crate::endpoint_url::EndpointUrl;
use crate::pool::Pool;

/// One endpoint that follows publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Follower {
    /// Index of its pool.
    pub(crate) pool: usize,
    /// Its index there.
    pub(crate) endpoint: usize,
    /// How many ranks it has, each with a publisher of its own.
    pub(crate) ranks: u32,
}

impl Follower {
    /// Where it is in the file.
    pub(crate) fn path(&self) -> String {
        format!("pools[{}].endpoints[{}]", self.pool, self.endpoint)
    }
}

/// Pairs of endpoints with an address in common, each endpoint once as the
/// second, in the file's order. Publishers that connect to the gateway are told
/// apart otherwise, and an endpoint that is in several pools is one.
pub(crate) fn shared(pools: &[Pool]) -> Vec<(Follower, Follower)> {
    // By host, or by the whole address where there is no port: the ports taken.
    let mut taken: BTreeMap<String, Vec<(u32, u32, Follower)>> = BTreeMap::new();
    for (p, pool) in pools.iter().enumerate() {
        for (e, endpoint) in pool.endpoints.iter().enumerate() {
            let Some(events) = pool.kv_events_of(endpoint) else { continue };
            if events.bind || pool.polls_kv_events(endpoint) {
                continue;
            }
            let follower = Follower { pool: p, endpoint: e, ranks: events.ranks };
            let (host, first) = place(&events.url);
            // A Unix socket has no ports: all ranks share it.
            let ports = if first == 0 { 1 } else { events.ranks };
            taken.entry(host).or_default().push((first, first + ports, follower));
        }
    }
    let name = |of: &Follower| pools[of.pool].endpoints[of.endpoint].name.as_str();
    let mut pairs = Vec::new();
    for mut ranges in taken.into_values() {
        // Stable: of two with the same first port, the one that the file has first.
        ranges.sort_by_key(|(first, ..)| *first);
        // Of those so far the one whose ports end last.
        let mut before: Option<(u32, Follower)> = None;
        for (first, end, follower) in ranges {
            if let Some((last, other)) = before
                && first < last
                && name(&other) != name(&follower)
            {
                let in_order = (other.pool, other.endpoint) < (follower.pool, follower.endpoint);
                pairs.push(if in_order { (other, follower) } else { (follower, other) });
            }
            if before.is_none_or(|(last, _)| end > last) {
                before = Some((end, follower));
            }
        }
    }
    pairs.sort_by_key(|(_, second)| (second.pool, second.endpoint));
    pairs.dedup_by_key(|(_, second)| (second.pool, second.endpoint));
    pairs
}

/// Host and port of an address, its host in one spelling; the whole address and
/// 0 where it has no port.
fn place(address: &str) -> (String, u32) {
    let parts = address.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':'));
    let Some((host, port)) = parts.and_then(|(host, port)| Some((host, port.parse().ok()?))) else {
        return (address.to_owned(), 0);
    };
    let url: Option<EndpointUrl> = format!("http://{host}:1").parse().ok();
    (url.map_or_else(|| host.to_owned(), |url| url.to_string()), port)
}

#[cfg(test)]
#[path = "publishers_tests.rs"]
mod tests;
