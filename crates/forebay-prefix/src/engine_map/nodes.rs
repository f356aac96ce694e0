//! A table of engine blocks with links inside each index block.

use std::collections::BTreeMap;

/// Stands for "no node".
pub(super) const NONE: u32 = u32::MAX;

/// One engine block.
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
    /// Which part it is, from 0.
    pub(super) part: u16,
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
    /// The element of the chain before the index block.
    pub(super) fn chain_parent(&self) -> Option<u64> {
        (!self.first).then_some(self.before)
    }
}

/// Nodes by place, by name, and by the part before them.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    free: Vec<u32>,
    names: BTreeMap<u64, u32>,
    /// Tokens of each node, `row` each, where index blocks have several parts.
    tokens: Vec<u32>,
    row: usize,
}

impl Nodes {
    /// For blocks of `row` tokens that are to be remembered; 0 for none.
    pub(super) fn new(row: usize) -> Nodes {
        Nodes { row, ..Nodes::default() }
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
        let from = at as usize * self.row;
        self.tokens.get(from..from + self.row).unwrap_or_default()
    }

    /// Adds a node, whose links but `parent` are set here.
    pub(super) fn insert(&mut self, node: Node, tokens: &[u32]) -> u32 {
        let next = self.get(node.parent).map_or(NONE, |parent| parent.child);
        let node = Node { child: NONE, next, previous: NONE, ..node };
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.nodes.push(node);
                self.tokens.resize(self.nodes.len() * self.row, 0);
                (self.nodes.len() - 1) as u32
            }
        };
        if let Some(place) = self.nodes.get_mut(at as usize) {
            *place = node;
        }
        let from = at as usize * self.row;
        if let Some(row) = self.tokens.get_mut(from..from + self.row.min(tokens.len())) {
            row.copy_from_slice(&tokens[..row.len()]);
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
        self.free.push(at);
    }

    /// Every node, in the order of names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.names.values().filter_map(|&at| self.get(at))
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + (self.tokens.capacity() + self.free.capacity()) * 4
            + self.names.len() * 12 * 3 / 2
    }
}
