//! Index of the waiting entries: a radix tree over their tokens, and the part of it that the forming batch covers.
//!
//! A node is a run of tokens; an entry waits at the node where its tokens end. The batch covers the paths of its entries
//! from the root down, and stays in the tree until it leaves. So the tokens that an entry would add to the batch lie
//! between its node and the nearest covered one, and the entries that share most with the batch are below the deepest
//! covered node that has any. Each node knows the first entry in turn at or below it, and each covered node offers
//! the first entry in turn that leaves the batch's paths there: the best entry is found without a search.
//!
//! If only equal sequences are folded, each distinct sequence is a node below the root: entries share all of it or nothing.
//!
//! Inserting an entry, covering its path and removing it cost no more than reading its tokens, plus a factor
//! logarithmic in the number of entries for each node on its path.

use super::entry::Ticket;
use super::fair_shares::Turn;
use super::prefix_tree::{Node, NodeId, PrefixTree, ROOT};
use super::work_counter::count_work;
use crate::backend::Folding;
use crate::outputs::Outputs;
use crate::plan::tokens::{TokenSlice, Tokens};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Maximum candidates examined in the search for one that may join. Those that may join come first, except for entries of
/// other accounts.
const MAX_SEARCHED: usize = 16;

/// Index of the waiting entries by prefix.
#[derive(Debug)]
pub(crate) struct PrefixIndex {
    folding: Folding,
    tree: PrefixTree,
    /// Covered nodes without the root, which is always covered.
    covered: Vec<NodeId>,
    /// Covered nodes where entries wait, by the first in turn. These entries add no token to the batch.
    repeats: BTreeSet<(Turn, NodeId)>,
    /// Covered nodes below which entries wait off the batch's paths: the longest path first, then the first in turn.
    offers: BTreeSet<(Reverse<usize>, Turn, NodeId)>,
}

/// The entry that shares most with the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nearest {
    pub(crate) ticket: Ticket,
    /// Entries that leave the batch's paths together with it; `None` if it adds no token.
    pub(crate) group: Option<Group>,
}

/// Entries that leave the batch's paths with the same token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    id: NodeId,
    /// Tokens that all of them share with the batch.
    pub(crate) depth: usize,
    /// Additional tokens that all of them share.
    pub(crate) head: usize,
    /// Tokens that all of them together add to the batch.
    pub(crate) tokens: usize,
    /// Number of entries.
    pub(crate) entries: usize,
    /// Tokens of all of them, with shared tokens counted each time.
    pub(crate) ragged_tokens: usize,
}

impl PrefixIndex {
    pub(crate) fn new(folding: Folding) -> Self {
        Self {
            folding,
            tree: PrefixTree::default(),
            covered: Vec::new(),
            repeats: BTreeSet::new(),
            offers: BTreeSet::new(),
        }
    }

    /// Inserts an entry with a new `turn`.
    pub(crate) fn insert(&mut self, turn: Turn, tokens: &Tokens, wanted: Outputs) -> NodeId {
        let node = match self.folding {
            Folding::Prefix => self.place(tokens.as_slice()),
            Folding::Whole => self.tree.whole(tokens, wanted),
        };
        self.change(node, |node| node.entries.insert(turn));
        self.tree.update_path(node, |node| {
            node.subtree_entries += 1;
            node.subtree_ragged_tokens += tokens.len();
        });
        node
    }

    /// The node where these tokens end.
    fn place(&mut self, tokens: TokenSlice<'_>) -> NodeId {
        let mut node = ROOT;
        let mut placed = 0;
        while placed < tokens.len() {
            count_work();
            let rest = tokens.tail(placed);
            let Some(child) = self.tree.child(node, rest) else {
                return self.tree.add_leaf(node, rest);
            };
            let run = &self.tree[child].tokens;
            let (shared, len) = (rest.common_prefix_len(&run.as_slice()), run.len());
            node = if shared < len { self.split(child, shared) } else { child };
            placed += shared;
        }
        node
    }

    /// Removes an entry that is not hidden.
    pub(crate) fn remove(&mut self, turn: Turn, node: NodeId) {
        let depth = self.tree[node].depth;
        self.change(node, |node| node.entries.remove(&turn));
        self.tree.update_path(node, |node| {
            node.subtree_entries -= 1;
            node.subtree_ragged_tokens -= depth;
        });
        self.tree.prune(node);
    }

    /// Makes [`nearest`](Self::nearest) skip an entry until it is shown again.
    pub(crate) fn hide(&mut self, turn: Turn, node: NodeId) {
        self.tree[node].num_hidden += 1;
        self.change(node, |node| node.entries.remove(&turn));
    }

    /// Undoes [`hide`](Self::hide).
    pub(crate) fn show(&mut self, turn: Turn, node: NodeId) {
        self.tree[node].num_hidden -= 1;
        self.change(node, |node| node.entries.insert(turn));
    }

    /// The entry that shares most with the batch among those that may join and are found in a short search: one that adds
    /// no token if there is any, otherwise one with the longest common prefix; the first in order among equals.
    pub(crate) fn nearest(&self, may_join: impl Fn(Turn) -> bool) -> Option<Nearest> {
        let may_join = |turn: &Turn| {
            count_work();
            may_join(*turn)
        };
        if let Some(&(turn, _)) = self.repeats.iter().take(MAX_SEARCHED).find(|(turn, _)| may_join(turn)) {
            return Some(Nearest { ticket: turn.ticket, group: None });
        }
        let mut offers = self.offers.iter().take(MAX_SEARCHED);
        let &(Reverse(depth), turn, node) = offers.find(|(_, turn, _)| may_join(turn))?;
        let &(_, id) = self.tree[node].below.first()?;
        let &Node { subtree_tokens: tokens, subtree_entries: entries, subtree_ragged_tokens: ragged_tokens, .. } =
            &self.tree[id];
        let group = Group { id, depth, head: self.tree.unbranched_tokens(id), tokens, entries, ragged_tokens };
        Some(Nearest { ticket: turn.ticket, group: Some(group) })
    }

    /// Makes [`nearest`](Self::nearest) skip a group that it returned until it is shown again, or until one of its entries is
    /// covered or removed: the leading job takes its entries whatever their groups.
    pub(crate) fn hide_group(&mut self, Group { id, .. }: Group) {
        let Node { parent, .. } = self.tree[id];
        let first = self.tree[id].first();
        self.change_here(parent, |parent| first.is_some_and(|turn| parent.below.remove(&(turn, id))));
    }

    /// Undoes [`hide_group`](Self::hide_group).
    pub(crate) fn show_group(&mut self, Group { id, .. }: Group) {
        let Node { parent, covered, .. } = self.tree[id];
        // A covered node makes its own offers.
        if covered {
            return;
        }
        let first = self.tree[id].first();
        self.change_here(parent, |parent| first.is_some_and(|turn| parent.below.insert((turn, id))));
    }

    /// Tokens that the path to a node adds to the batch.
    pub(crate) fn new_tokens(&self, node: NodeId) -> usize {
        self.tree.uncovered_tokens(node)
    }

    /// Makes the path to a node, where an entry waits, a part of the batch.
    pub(crate) fn cover(&mut self, node: NodeId) {
        let (mut lower, mut first) = (node, self.tree[node].first());
        while !self.tree[lower].covered {
            count_work();
            let parent = self.tree[lower].parent;
            let parents_first = self.tree[parent].first();
            // The entries that remain below the parent are off the batch's paths.
            self.change_here(parent, |parent| first.is_some_and(|turn| parent.below.remove(&(turn, lower))));
            self.tree[lower].covered = true;
            self.covered.push(lower);
            self.advertise(lower);
            (lower, first) = (parent, parents_first);
        }
    }

    /// Uncovers all nodes when the batch has left.
    pub(crate) fn uncover(&mut self) {
        self.repeats.clear();
        self.offers.clear();
        let mut covered = std::mem::take(&mut self.covered);
        // Children before parents.
        covered.sort_unstable_by_key(|&node| Reverse(self.tree[node].depth));
        for node in covered.drain(..) {
            count_work();
            self.tree[node].covered = false;
            match self.tree[node].first() {
                Some(first) => {
                    let parent = self.tree[node].parent;
                    self.tree[parent].below.insert((first, node));
                }
                None => self.tree.prune(node),
            }
        }
        self.covered = covered;
        self.advertise(ROOT);
    }

    /// Splits a node and returns the new upper half, which is covered if the lower half is.
    fn split(&mut self, lower: NodeId, len: usize) -> NodeId {
        let upper = self.tree.split(lower, len);
        if self.tree[upper].covered {
            self.covered.push(upper);
        }
        upper
    }

    /// Changes the entries of a node and updates the nodes above, up to the first covered one.
    fn change(&mut self, mut node: NodeId, edit: impl FnOnce(&mut Node) -> bool) {
        let mut before = self.tree[node].first();
        self.change_here(node, edit);
        while !self.tree[node].covered {
            let after = self.tree[node].first();
            if after == before {
                return;
            }
            let parent = self.tree[node].parent;
            let parents_before = self.tree[parent].first();
            self.change_here(parent, |parent| {
                before.is_some_and(|turn| parent.below.remove(&(turn, node)))
                    | after.is_some_and(|turn| parent.below.insert((turn, node)))
            });
            (node, before) = (parent, parents_before);
        }
    }

    /// Changes a node and, if it is covered, what it offers.
    fn change_here(&mut self, id: NodeId, edit: impl FnOnce(&mut Node) -> bool) {
        count_work();
        let node = &self.tree[id];
        if node.covered {
            node.entries.first().map(|&turn| self.repeats.remove(&(turn, id)));
            node.below.first().map(|&(turn, _)| self.offers.remove(&(Reverse(node.depth), turn, id)));
        }
        edit(&mut self.tree[id]);
        self.advertise(id);
    }

    /// Registers what a covered node offers.
    fn advertise(&mut self, id: NodeId) {
        let node = &self.tree[id];
        if node.covered {
            node.entries.first().map(|&turn| self.repeats.insert((turn, id)));
            node.below.first().map(|&(turn, _)| self.offers.insert((Reverse(node.depth), turn, id)));
        }
    }
}

#[cfg(test)]
#[path = "tests/prefix_index.rs"]
mod tests;
