//! What the operations of a map do to an index.

use forebay_core::EndpointId;

use super::IndexOp;
use crate::PrefixIndex;

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
