//! Which pools are decided for together, and how the memory for prefixes is shared.

use std::collections::BTreeMap;

use crate::pool::Pool;
use crate::prefix::PrefixIndex;

/// The least that the index of one group is built with.
const LEAST_INDEX_BYTES: usize = 1 << 20;

/// By pool, the number of its group: pools that share an endpoint, however
/// indirectly, are in one. Numbered without gaps.
pub fn groups(pools: &[Pool]) -> Vec<u32> {
    let mut group: Vec<usize> = (0..pools.len()).collect();
    let mut first_with: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, pool) in pools.iter().enumerate() {
        for endpoint in &pool.endpoints {
            if let Some(&other) = first_with.get(&*endpoint.name) {
                let (from, to) = (group[i].max(group[other]), group[i].min(group[other]));
                group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
            } else {
                first_with.insert(&endpoint.name, i);
            }
        }
    }
    let mut numbers: Vec<usize> = group.clone();
    numbers.sort_unstable();
    numbers.dedup();
    group.iter().map(|g| numbers.binary_search(g).unwrap_or(0) as u32).collect()
}

/// How [`PrefixIndex::max_bytes`] is shared out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexShares {
    /// For the indexes of all groups together.
    pub indexes: usize,
    /// For what is kept of the engines' own caches, where their events are followed:
    /// every block that they hold, by the name that they call it. It takes more
    /// than the index itself, whose blocks are longer and shared by endpoints.
    pub engines: usize,
}

impl PrefixIndex {
    /// How the memory is shared out: all for the indexes, or a quarter where the
    /// events of any endpoint are followed.
    pub fn shares(&self, pools: &[Pool]) -> IndexShares {
        let follows = |pool: &Pool| pool.endpoints.iter().any(|e| pool.kv_events_of(e).is_some());
        let indexes = if pools.iter().any(follows) { self.max_bytes / 4 } else { self.max_bytes };
        IndexShares { indexes, engines: self.max_bytes - indexes }
    }

    /// The least `max_bytes` with which each group has an index.
    pub(crate) fn least(&self, pools: &[Pool]) -> usize {
        let groups = groups(pools).into_iter().max().map_or(0, |most| most as usize + 1);
        let parts = if self.shares(pools).engines > 0 { 4 } else { 1 };
        groups * parts * LEAST_INDEX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_share_an_endpoint_share_a_group() {
        let pool = |name: &str, ports: &[u16]| {
            let mut pool = Pool::new(name, name);
            for port in ports {
                let url = format!("http://127.0.0.1:{port}").parse().unwrap();
                pool.endpoints.push(crate::Endpoint::new(url));
            }
            pool
        };
        let pools =
            [pool("a", &[1]), pool("b", &[2]), pool("c", &[3, 2]), pool("d", &[4]), pool("e", &[1, 3])];
        assert_eq!(groups(&pools), [0, 0, 0, 1, 0]);
        assert_eq!(groups(&[]), Vec::<u32>::new());
    }

    /// So many pools of their own with so much memory: what is wrong, if anything.
    fn refused(pools: u16, max_bytes: &str, kv_events: &str) -> Option<String> {
        let pools: String = (1..=pools)
            .map(|n| {
                format!(
                    "- name: p{n}\n  model: m{n}\n  {kv_events}\n  endpoints: [{{url: \"http://10.0.0.{n}:1\"}}]\n"
                )
            })
            .collect();
        let text = format!("version: 1\nprefix_index: {{{max_bytes}}}\npools:\n{pools}");
        crate::parse_str("f", &text).err().map(|errors| errors.to_string())
    }

    #[test]
    fn memory_that_is_too_little_for_its_indexes_is_refused() {
        assert_eq!(refused(20, "max_bytes: 20MiB", ""), None);
        let error = refused(20, "max_bytes: 19MiB", "").unwrap();
        assert!(error.contains("max_bytes") && error.contains("20MiB"), "{error}");
        assert_eq!(refused(20, "max_bytes: 80MiB", "kv_events: {}"), None);
        let error = refused(20, "max_bytes: 79MiB", "kv_events: {}").unwrap();
        assert!(error.contains("the quarter") && error.contains("80MiB"), "{error}");
        // The default is not enough either, and nobody wrote it.
        let error = refused(65, "", "kv_events: {}").unwrap();
        assert!(error.contains("256MiB") && error.contains("260MiB"), "{error}");
    }
}
