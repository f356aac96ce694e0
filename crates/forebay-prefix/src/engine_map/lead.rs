//! What the operations of a map do to an index.

use forebay_core::EndpointId;

use super::{EngineMap, IndexOp};
use crate::{PrefixIndex, Tier};

/// What is worth, 0 to 1, what an engine said before it fell silent: nearly all
/// of it should be there still, and answers tell soon whether it is.
const DOUBTED: f64 = 0.8;

/// Applies the operations of an endpoint's map to an index, in order. Blocks
/// that follow each other in one chain are confirmed together.
pub fn lead(index: &PrefixIndex, endpoint: EndpointId, ops: &[IndexOp]) {
    let mut hashes = Vec::new();
    let mut rest = ops;
    while let Some(&first) = rest.first() {
        hashes.clear();
        let mut taken = 1;
        match first {
            IndexOp::Confirm { hash, parent, tier } => {
                hashes.push(hash);
                for op in &rest[1..] {
                    match *op {
                        IndexOp::Confirm { hash, parent, tier: t }
                            if t == tier && parent == hashes.last().copied() =>
                        {
                            hashes.push(hash);
                        }
                        _ => break,
                    }
                }
                taken = hashes.len();
                index.insert_confirmed_after(endpoint, tier, parent, &hashes);
            }
            IndexOp::Remove { hash, tier } => {
                hashes.push(hash);
                hashes.extend(rest[1..].iter().map_while(|op| match *op {
                    IndexOp::Remove { hash, tier: t } if t == tier => Some(hash),
                    _ => None,
                }));
                taken = hashes.len();
                index.remove_confirmed_in(endpoint, tier, &hashes);
            }
            IndexOp::Forget => index.forget(endpoint),
        }
        rest = &rest[taken..];
    }
}

/// Nobody hears from the engine any more: what it said that it has ready counts
/// as what it has served from now on, which answers correct and which ages. What
/// it had in the host's memory is left out.
pub fn doubt(index: &PrefixIndex, endpoint: EndpointId, map: &EngineMap) {
    let mut ops = Vec::new();
    map.restate(&mut ops);
    let mut rest = ops.as_slice();
    while let Some(&IndexOp::Confirm { hash, parent, tier }) = rest.first() {
        let mut hashes = vec![hash];
        hashes.extend(rest[1..].iter().scan(hash, |last, op| match *op {
            IndexOp::Confirm { hash, parent, tier: t } if t == tier && parent == Some(*last) => {
                *last = hash;
                Some(hash)
            }
            _ => None,
        }));
        match tier {
            Tier::Gpu => index.doubt(endpoint, parent, &hashes, DOUBTED),
            Tier::Host => index.remove_confirmed_in(endpoint, tier, &hashes),
        }
        rest = &rest[hashes.len()..];
    }
}

/// The engine is heard again, and nothing that it said was missed: what it holds
/// counts as its word again, and what was only thought to be there does not.
pub fn trust(index: &PrefixIndex, endpoint: EndpointId, map: &EngineMap) {
    let mut ops = Vec::new();
    map.restate(&mut ops);
    lead(index, endpoint, &ops);
    index.drop_restored(endpoint);
}
