//! Index of the waiting entries: a radix tree over their tokens, and the part of it that the forming batch covers.
//!
//! A node is a run of tokens; an entry waits at the node where its tokens end. The batch covers the paths of its entries,
//! from the root down, and stays in the tree until it leaves. So the tokens that an entry would add to the batch are
//! those between its node and the nearest covered one, and the entries that share most with the batch are below the
//! deepest covered node that has any. Each node knows the oldest entry at or below it, and each covered node offers
//! the oldest entry that leaves the batch's paths there: the best entry is found without a search.
//!
//! Each distinct sequence is a node below the root where only equal ones are folded: entries share it or nothing.
//!
//! Inserting an entry, covering its path and removing it cost no more than reading its tokens, plus a factor
//! logarithmic in the number of entries for each node on its path.

use super::entry::Ticket;
use super::prefix_tree::{Node, NodeId, PrefixTree, ROOT};
use super::work_counter::count_work;
use crate::plan::tokens::{TokenSlice, Tokens};
use crate::{Folding, Wanted};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Index of the waiting entries by prefix.
#[derive(Debug)]
pub(crate) struct PrefixIndex {
    folding: Folding,
    tree: PrefixTree,
    /// Covered nodes: all but the root, which is always covered.
    covered: Vec<NodeId>,
    /// Covered nodes where entries wait, by the oldest: these add no token to the batch.
    repeats: BTreeSet<(Ticket, NodeId)>,
    /// Covered nodes below which entries wait off the batch's paths: the longest path first, then the oldest entry.
    offers: BTreeSet<(Reverse<usize>, Ticket, NodeId)>,
}

/// The entry that shares most with the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nearest {
    pub(crate) ticket: Ticket,
    /// Entries that leave the batch's paths together with it; none if it adds no token.
    pub(crate) group: Option<Group>,
}

/// Entries that leave the batch's paths with the same token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    id: NodeId,
    /// Tokens that all of them share with the batch.
    pub(crate) depth: usize,
    /// Further tokens that all of them share.
    pub(crate) head: usize,
    /// Tokens that all of them together add to the batch.
    pub(crate) tokens: usize,
    /// Number of entries.
    pub(crate) entries: usize,
    /// Tokens of all of them, what they share counted each time.
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

    /// Inserts an entry; `ticket` must be a new one.
    pub(crate) fn insert(&mut self, ticket: Ticket, tokens: &Tokens, wanted: Wanted) -> NodeId {
        let node = match self.folding {
            Folding::Prefix => self.place(tokens.as_slice()),
            Folding::Whole => self.tree.whole(tokens, wanted),
        };
        self.change(node, |node| node.entries.insert(ticket));
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
    pub(crate) fn remove(&mut self, ticket: Ticket, node: NodeId) {
        let depth = self.tree[node].depth;
        self.change(node, |node| node.entries.remove(&ticket));
        self.tree.update_path(node, |node| {
            node.subtree_entries -= 1;
            node.subtree_ragged_tokens -= depth;
        });
        self.tree.prune(node);
    }

    /// Makes [`nearest`](Self::nearest) pass an entry over, until it is shown again.
    pub(crate) fn hide(&mut self, ticket: Ticket, node: NodeId) {
        self.tree[node].num_hidden += 1;
        self.change(node, |node| node.entries.remove(&ticket));
    }

    /// Undoes [`hide`](Self::hide).
    pub(crate) fn show(&mut self, ticket: Ticket, node: NodeId) {
        self.tree[node].num_hidden -= 1;
        self.change(node, |node| node.entries.insert(ticket));
    }

    /// The entry that shares most with the batch: one that adds no token at all if there is any, then those with the
    /// longest prefix in common; the oldest among equals.
    pub(crate) fn nearest(&self) -> Option<Nearest> {
        if let Some(&(ticket, _)) = self.repeats.first() {
            return Some(Nearest { ticket, group: None });
        }
        let &(Reverse(depth), ticket, node) = self.offers.first()?;
        let &(_, id) = self.tree[node].below.first()?;
        let &Node { subtree_tokens: tokens, subtree_entries: entries, subtree_ragged_tokens: ragged_tokens, .. } =
            &self.tree[id];
        let group = Group { id, depth, head: self.tree.unbranched_tokens(id), tokens, entries, ragged_tokens };
        Some(Nearest { ticket, group: Some(group) })
    }

    /// Makes [`nearest`](Self::nearest) pass over a group that it named, until it is shown again. No entry of the
    /// group may be removed or covered meanwhile.
    pub(crate) fn hide_group(&mut self, Group { id, .. }: Group) {
        let Node { parent, .. } = self.tree[id];
        let oldest = self.tree[id].oldest();
        self.change_here(parent, |parent| oldest.is_some_and(|ticket| parent.below.remove(&(ticket, id))));
    }

    /// Undoes [`hide_group`](Self::hide_group).
    pub(crate) fn show_group(&mut self, Group { id, .. }: Group) {
        let Node { parent, .. } = self.tree[id];
        let oldest = self.tree[id].oldest();
        self.change_here(parent, |parent| oldest.is_some_and(|ticket| parent.below.insert((ticket, id))));
    }

    /// Tokens that the path to a node adds to the batch.
    pub(crate) fn new_tokens(&self, node: NodeId) -> usize {
        self.tree.tokens_below(node, |node| node.covered)
    }

    /// Makes the path to a node, where an entry waits, a part of the batch.
    pub(crate) fn cover(&mut self, node: NodeId) {
        let (mut lower, mut oldest) = (node, self.tree[node].oldest());
        while !self.tree[lower].covered {
            count_work();
            let parent = self.tree[lower].parent;
            let parents_oldest = self.tree[parent].oldest();
            // The entries that remain below the parent are off the batch's paths.
            self.change_here(parent, |parent| oldest.is_some_and(|ticket| parent.below.remove(&(ticket, lower))));
            self.tree[lower].covered = true;
            self.covered.push(lower);
            self.advertise(lower);
            (lower, oldest) = (parent, parents_oldest);
        }
    }

    /// The batch has left: nothing is covered any more.
    pub(crate) fn uncover(&mut self) {
        self.repeats.clear();
        self.offers.clear();
        let mut covered = std::mem::take(&mut self.covered);
        // Children before parents.
        covered.sort_unstable_by_key(|&node| Reverse(self.tree[node].depth));
        for node in covered.drain(..) {
            count_work();
            self.tree[node].covered = false;
            match self.tree[node].oldest() {
                Some(oldest) => {
                    let parent = self.tree[node].parent;
                    self.tree[parent].below.insert((oldest, node));
                }
                None => self.tree.prune(node),
            }
        }
        self.covered = covered;
        self.advertise(ROOT);
    }

    /// Tokens on the path to a node that do not bear the mark.
    pub(crate) fn unmarked_tokens(&self, node: NodeId, mark: u64) -> usize {
        self.tree.tokens_below(node, |node| node.mark == mark || node.depth == 0)
    }

    /// Marks the path to a node, to count a set of paths without covering them. Marks grow from one set to the next.
    pub(crate) fn mark(&mut self, node: NodeId, mark: u64) {
        let mut lower = node;
        while lower != ROOT && self.tree[lower].mark != mark {
            count_work();
            self.tree[lower].mark = mark;
            lower = self.tree[lower].parent;
        }
    }

    /// Cuts a node and returns the new upper half, which is covered as the lower one is.
    fn split(&mut self, lower: NodeId, len: usize) -> NodeId {
        let upper = self.tree.split(lower, len);
        if self.tree[upper].covered {
            self.covered.push(upper);
        }
        upper
    }

    /// Changes the entries of a node, and tells the nodes above, up to the first covered one.
    fn change(&mut self, mut node: NodeId, edit: impl FnOnce(&mut Node) -> bool) {
        let mut before = self.tree[node].oldest();
        self.change_here(node, edit);
        while !self.tree[node].covered {
            let after = self.tree[node].oldest();
            if after == before {
                return;
            }
            let parent = self.tree[node].parent;
            let parents_before = self.tree[parent].oldest();
            self.change_here(parent, |parent| {
                before.is_some_and(|ticket| parent.below.remove(&(ticket, node)))
                    | after.is_some_and(|ticket| parent.below.insert((ticket, node)))
            });
            (node, before) = (parent, parents_before);
        }
    }

    /// Changes a node and, if it is covered, what it offers.
    fn change_here(&mut self, id: NodeId, edit: impl FnOnce(&mut Node) -> bool) {
        count_work();
        let node = &self.tree[id];
        if node.covered {
            node.entries.first().map(|&ticket| self.repeats.remove(&(ticket, id)));
            node.below.first().map(|&(ticket, _)| self.offers.remove(&(Reverse(node.depth), ticket, id)));
        }
        edit(&mut self.tree[id]);
        self.advertise(id);
    }

    /// Enters what a node offers, if it is covered.
    fn advertise(&mut self, id: NodeId) {
        let node = &self.tree[id];
        if node.covered {
            node.entries.first().map(|&ticket| self.repeats.insert((ticket, id)));
            node.below.first().map(|&(ticket, _)| self.offers.insert((Reverse(node.depth), ticket, id)));
        }
    }
}

#[cfg(test)]
#[path = "tests/prefix_index.rs"]
mod tests;
