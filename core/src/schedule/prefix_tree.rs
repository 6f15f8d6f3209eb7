//! Radix tree over the tokens of the waiting entries: nodes with their sums, splitting and pruning.

use super::fair_shares::Turn;
use super::work_counter::count_work;
use crate::outputs::Outputs;
use crate::plan::tokens::{Scope, TaskId, TokenKey, TokenSlice, Tokens};
use std::collections::{BTreeSet, HashMap};
use std::ops::{Index, IndexMut};

/// Node where an entry waits; valid as long as it waits.
pub(crate) type NodeId = usize;

pub(crate) const ROOT: NodeId = 0;

/// Radix tree of the waiting entries' tokens.
#[derive(Debug)]
pub(crate) struct PrefixTree {
    nodes: Vec<Node>,
    unused: Vec<NodeId>,
    /// Child nodes by parent, scope, task and first token.
    children: HashMap<(NodeId, Scope, TaskId, TokenKey), NodeId>,
    /// Children of the root if only equal sequences are folded, by all of their tokens and the answer that their
    /// entries want. Then the tree has no other nodes.
    whole: HashMap<(Tokens, Outputs), NodeId>,
}

/// A node: tokens that all entries at it and below it share, after the tokens of its ancestors.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// Not empty, except at the root.
    pub(crate) tokens: Tokens,
    /// Tokens from the root to the node's end.
    pub(crate) depth: usize,
    pub(crate) parent: NodeId,
    pub(crate) num_children: usize,
    /// Tokens of this node and all below it.
    pub(crate) subtree_tokens: usize,
    /// Entries at this node or below it, including hidden ones.
    pub(crate) subtree_entries: usize,
    /// Tokens of these entries, from the root on.
    pub(crate) subtree_ragged_tokens: usize,
    /// Entries that end here.
    pub(crate) entries: BTreeSet<Turn>,
    /// Number of entries that end here and are hidden.
    pub(crate) num_hidden: usize,
    /// The children that are not covered and have entries, each with its first entry in turn.
    pub(crate) below: BTreeSet<(Turn, NodeId)>,
    /// Answer that the entries here want, if only equal sequences are folded.
    whole: Option<Outputs>,
    /// True if the node is on a path of the forming batch.
    pub(crate) covered: bool,
}

impl Node {
    /// The first entry in turn here or below, off the batch's paths.
    pub(crate) fn first(&self) -> Option<Turn> {
        let below = self.below.first().map(|&(turn, _)| turn);
        self.entries.first().copied().into_iter().chain(below).min()
    }
}

impl Index<NodeId> for PrefixTree {
    type Output = Node;

    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }
}

impl IndexMut<NodeId> for PrefixTree {
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }
}

impl Default for PrefixTree {
    /// The root only, which is always covered.
    fn default() -> Self {
        let root = Node { covered: true, ..Node::default() };
        Self { nodes: vec![root], unused: Vec::new(), children: HashMap::new(), whole: HashMap::new() }
    }
}

fn child_key(parent: NodeId, tokens: TokenSlice<'_>) -> (NodeId, Scope, TaskId, TokenKey) {
    (parent, tokens.scope(), tokens.task(), tokens.key(0))
}

impl PrefixTree {
    /// The child of a node with the first of these tokens.
    pub(crate) fn child(&self, parent: NodeId, tokens: TokenSlice<'_>) -> Option<NodeId> {
        self.children.get(&child_key(parent, tokens)).copied()
    }

    pub(crate) fn add_leaf(&mut self, parent: NodeId, tokens: TokenSlice<'_>) -> NodeId {
        let leaf = self.add_child(parent, tokens, None);
        self.children.insert(child_key(parent, tokens), leaf);
        leaf
    }

    /// The node of the entries that have all of these tokens and want the same answer.
    pub(crate) fn whole(&mut self, tokens: &Tokens, wanted: Outputs) -> NodeId {
        if tokens.is_empty() {
            return ROOT;
        }
        count_work();
        let key = (tokens.clone(), wanted);
        if let Some(&node) = self.whole.get(&key) {
            return node;
        }
        let leaf = self.add_child(ROOT, tokens.as_slice(), Some(wanted));
        self.whole.insert(key, leaf);
        leaf
    }

    fn add_child(&mut self, parent: NodeId, tokens: TokenSlice<'_>, whole: Option<Outputs>) -> NodeId {
        let depth = self.nodes[parent].depth + tokens.len();
        let leaf = self.add(Node { tokens: tokens.into_owned(), depth, parent, whole, ..Node::default() });
        self.nodes[parent].num_children += 1;
        self.update_path(leaf, |node| {
            count_work();
            node.subtree_tokens += tokens.len();
        });
        leaf
    }

    /// Splits a node after `len` tokens and returns the new upper half. The lower half keeps its number, to which entries
    /// and children refer.
    pub(crate) fn split(&mut self, lower: NodeId, len: usize) -> NodeId {
        let node = &mut self.nodes[lower];
        let rest = node.tokens.split_off(len);
        let tokens = std::mem::replace(&mut node.tokens, rest);
        let (key, next) = (child_key(node.parent, tokens.as_slice()), node.tokens.as_slice().key(0));
        let (scope, task) = (tokens.scope(), tokens.task());
        let (parent, covered, first) = (node.parent, node.covered, node.first());
        let depth = node.depth - node.tokens.len();
        let &mut Node { subtree_tokens, subtree_entries, subtree_ragged_tokens, .. } = node;
        node.subtree_tokens -= len;
        let upper = self.add(Node {
            tokens,
            depth,
            parent,
            num_children: 1,
            subtree_tokens,
            subtree_entries,
            subtree_ragged_tokens,
            covered,
            ..Node::default()
        });
        self.nodes[lower].parent = upper;
        self.children.insert(key, upper);
        self.children.insert((upper, scope, task, next), lower);
        if let Some(first) = first.filter(|_| !covered) {
            self.nodes[upper].below.insert((first, lower));
            // The new node has the same first entry in turn, so the parent's offer stays the same.
            let below = &mut self.nodes[parent].below;
            below.remove(&(first, lower));
            below.insert((first, upper));
        }
        upper
    }

    /// Removes a node if it is unused, then the nodes above it that become unused.
    pub(crate) fn prune(&mut self, mut id: NodeId) {
        let mut pruned = 0;
        while id != ROOT {
            count_work();
            let node = &mut self.nodes[id];
            node.subtree_tokens -= pruned;
            if node.covered || node.num_children > 0 || node.num_hidden > 0 || !node.entries.is_empty() {
                id = node.parent;
                continue;
            }
            let Node { tokens, parent, whole, .. } = std::mem::take(node);
            pruned += tokens.len();
            match whole {
                None => self.children.remove(&child_key(parent, tokens.as_slice())),
                Some(wanted) => self.whole.remove(&(tokens, wanted)),
            };
            self.nodes[parent].num_children -= 1;
            self.unused.push(id);
            id = parent;
        }
    }

    /// Edits a node and all nodes above it except the root.
    pub(crate) fn update_path(&mut self, mut id: NodeId, mut edit: impl FnMut(&mut Node)) {
        while id != ROOT {
            edit(&mut self.nodes[id]);
            id = self.nodes[id].parent;
        }
    }

    /// Tokens from the nearest covered node upwards to the end of this one.
    pub(crate) fn uncovered_tokens(&self, node: NodeId) -> usize {
        let mut top = node;
        while !self.nodes[top].covered {
            count_work();
            top = self.nodes[top].parent;
        }
        self.nodes[node].depth - self.nodes[top].depth
    }

    /// Tokens of a node and of the nodes below it, down to where paths part or end. Split nodes stay split even after one
    /// branch is gone.
    pub(crate) fn unbranched_tokens(&self, mut id: NodeId) -> usize {
        let mut tokens = self.nodes[id].tokens.len();
        while let Node { num_children: 1, entries, below, .. } = &self.nodes[id]
            && entries.is_empty()
            && let Some(&(_, child)) = below.first()
        {
            count_work();
            id = child;
            tokens += self.nodes[id].tokens.len();
        }
        tokens
    }

    /// True when the root is the only node in use.
    #[cfg(test)]
    pub(crate) fn is_bare(&self) -> bool {
        self.children.is_empty() && self.whole.is_empty() && self.unused.len() + 1 == self.nodes.len()
    }

    fn add(&mut self, node: Node) -> NodeId {
        match self.unused.pop() {
            Some(id) => {
                self.nodes[id] = node;
                id
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }
}
