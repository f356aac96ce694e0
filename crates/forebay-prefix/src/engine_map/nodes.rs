//! A table of engine blocks with links inside each index block.

use std::collections::BTreeMap;

/// Stands for "no node".
pub(super) const NONE: u32 = u32::MAX;

/// One engine block. There are as many as engines have, so that every byte
/// counts: [`Nodes::block_bytes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The engine's name.
    pub(super) name: u64,
    /// The chain's hash before the index block that this one is a part of.
    pub(super) before: u64,
    /// The chain's hash after it, if this is its last part.
    pub(super) own: u64,
    /// The part before this one; none if this is the first.
    pub(super) parent: u32,
    /// One of the parts that may come after this one.
    pub(super) child: u32,
    /// Parts that come after the same one.
    pub(super) next: u32,
    pub(super) previous: u32,
    /// Where its tokens are kept; none if no part can come after it.
    row: u32,
    /// Which part it is, from 0; at most 63.
    pub(super) part: u8,
    /// Bits of the tiers that hold it. Zero for one that was removed while
    /// parts after it stay: when it returns, they count again.
    pub(super) tiers: u8,
    /// Bits of the tiers in which the index block was confirmed, if this is
    /// its last part.
    pub(super) listed: u8,
    /// The index block is the first of its prompt: `before` is a seed.
    pub(super) first: bool,
}

impl Node {
    /// A block at its place, which no tier holds yet and nothing comes after.
    pub(super) fn new(name: u64, (before, own): (u64, u64), parent: u32, part: u8, first: bool) -> Node {
        Node {
            name,
            before,
            own,
            parent,
            child: NONE,
            next: NONE,
            previous: NONE,
            row: NONE,
            part,
            tiers: 0,
            listed: 0,
            first,
        }
    }

    /// The element of the chain before the index block.
    pub(super) fn chain_parent(&self) -> Option<u64> {
        (!self.first).then_some(self.before)
    }
}

/// Bytes of an entry of a B-tree whose leaves are two thirds full, and of its
/// share of what is above them.
const fn tree_entry(key_and_value: usize) -> usize {
    (11 * key_and_value + 12) * 3 / 22 + 5
}

/// Nodes by place, by name, and by the part before them.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    free: Vec<u32>,
    names: BTreeMap<u64, u32>,
    /// Tokens of the nodes that parts may come after, `row` each.
    rows: Vec<u32>,
    free_rows: Vec<u32>,
    row: usize,
}

/// Makes room in small steps: doubling would take up to twice what is used.
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / 8).max(16));
    }
}

impl Nodes {
    /// For blocks of `row` tokens that are to be remembered; 0 for none.
    pub(super) fn new(row: usize) -> Nodes {
        Nodes { row, ..Nodes::default() }
    }

    /// Bytes that a block of `size` tokens takes, in the mean, where `parts` of
    /// them make one of the index: with its names, its tokens, what notes the
    /// index block, and what lists keep free.
    pub(super) const fn block_bytes(size: usize, parts: usize) -> usize {
        let parts = if parts == 0 { 1 } else { parts };
        let listed = size_of::<Node>() + 4 * size * (parts - 1) / parts;
        listed * 9 / 8 + tree_entry(8 + 4) + super::held::ENTRY / parts
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn find(&self, name: u64) -> Option<u32> {
        self.names.get(&name).copied()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)
    }

    /// The tokens of a node; empty where none are remembered.
    pub(super) fn tokens(&self, at: u32) -> &[u32] {
        let Some(row) = self.get(at).map(|node| node.row).filter(|&row| row != NONE) else { return &[] };
        let from = row as usize * self.row;
        self.rows.get(from..from + self.row).unwrap_or_default()
    }

    /// Keeps the tokens of a node.
    fn keep(&mut self, tokens: &[u32]) -> u32 {
        if tokens.is_empty() || tokens.len() != self.row {
            return NONE;
        }
        let row = self.free_rows.pop().unwrap_or((self.rows.len() / self.row) as u32);
        let from = row as usize * self.row;
        if from == self.rows.len() {
            grow(&mut self.rows, self.row);
            self.rows.extend_from_slice(tokens);
        } else if let Some(place) = self.rows.get_mut(from..from + self.row) {
            place.copy_from_slice(tokens);
        }
        row
    }

    /// Adds a node, whose links but `parent` are set here; `tokens` are kept, if
    /// there are any.
    pub(super) fn insert(&mut self, node: Node, tokens: &[u32]) -> u32 {
        let next = self.get(node.parent).map_or(NONE, |parent| parent.child);
        let node = Node { child: NONE, next, previous: NONE, row: self.keep(tokens), ..node };
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                grow(&mut self.nodes, 1);
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        if let Some(place) = self.nodes.get_mut(at as usize) {
            *place = node;
        }
        if let Some(sibling) = self.get_mut(next) {
            sibling.previous = at;
        }
        if let Some(parent) = self.get_mut(node.parent) {
            parent.child = at;
        }
        self.names.insert(node.name, at);
        at
    }

    /// Takes out a node without children.
    pub(super) fn remove(&mut self, at: u32) {
        let Some(node) = self.get(at).copied() else { return };
        if let Some(next) = self.get_mut(node.next) {
            next.previous = node.previous;
        }
        match self.get_mut(node.previous) {
            Some(previous) => previous.next = node.next,
            None => {
                if let Some(parent) = self.get_mut(node.parent) {
                    parent.child = node.next;
                }
            }
        }
        self.names.remove(&node.name);
        grow(&mut self.free, 1);
        self.free.push(at);
        if node.row != NONE {
            grow(&mut self.free_rows, 1);
            self.free_rows.push(node.row);
        }
    }

    /// Every node, in the order of names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.names.values().filter_map(|&at| self.get(at))
    }

    /// Bytes that they take now.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + (self.rows.capacity() + self.free.capacity() + self.free_rows.capacity()) * 4
            + self.names.len() * tree_entry(8 + 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_small() {
        assert_eq!(size_of::<Node>(), 48, "each engine has tens of thousands");
    }
}
