//! The waiting entries as a radix tree over their token ids, and the part of it that the forming batch covers.
//!
//! A node is a run of tokens; an entry waits at the node where its ids end. The batch covers the paths of its entries,
//! from the root down, and stays in the tree until it leaves. So the tokens that an entry would add to the batch are
//! those between its node and the nearest covered one, and the entries that share most with the batch are below the
//! deepest covered node that has any. Each node knows the oldest entry at or below it, and each covered node offers
//! the oldest entry that leaves the batch's paths there: the best entry is found without a search.
//!
//! To put an entry in, to cover its path and to remove it costs no more than reading its tokens, plus a factor
//! logarithmic in the number of entries for each node on its path.

use crate::radix::common_prefix_len;
use crate::steps::step;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// An entry's number in the order of arrival.
pub(crate) type Ticket = u64;

/// Where an entry waits; valid as long as it waits.
pub(crate) type NodeId = usize;

const ROOT: NodeId = 0;

#[derive(Debug)]
pub(crate) struct PrefixIndex {
    nodes: Vec<Node>,
    unused: Vec<NodeId>,
    /// By the node above and the first token.
    children: HashMap<(NodeId, u32), NodeId>,
    /// All but the root, which is always covered.
    covered: Vec<NodeId>,
    /// Covered nodes where entries wait, by the oldest: these add no token to the batch.
    repeats: BTreeSet<(Ticket, NodeId)>,
    /// Covered nodes below which entries wait off the batch's paths: the longest path first, then the oldest entry.
    offers: BTreeSet<(Reverse<usize>, Ticket, NodeId)>,
}

#[derive(Debug, Default)]
struct Node {
    /// Never empty but at the root.
    tokens: Vec<u32>,
    /// Tokens from the root to the node's end.
    depth: usize,
    parent: NodeId,
    num_children: usize,
    /// Of this node and all below it.
    subtree_tokens: usize,
    /// Entries at this node or below it, hidden ones too.
    subtree_entries: usize,
    /// All tokens of these entries, from the root on.
    subtree_ragged_tokens: usize,
    /// Entries that end here.
    entries: BTreeSet<Ticket>,
    /// Entries that end here and are hidden.
    num_hidden: usize,
    /// The children that are not covered and have entries, each with its oldest.
    below: BTreeSet<(Ticket, NodeId)>,
    covered: bool,
    /// See [`PrefixIndex::mark`].
    mark: u64,
}

impl Node {
    /// The oldest entry here or below, off the batch's paths.
    fn oldest(&self) -> Option<Ticket> {
        let below = self.below.first().map(|&(ticket, _)| ticket);
        self.entries.first().copied().into_iter().chain(below).min()
    }
}

/// The entry that shares most with the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nearest {
    pub(crate) ticket: Ticket,
    /// Those that it leaves the batch's paths with; none if it adds no token.
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
    /// How many they are.
    pub(crate) entries: usize,
    /// Tokens of all of them, what they share counted each time.
    pub(crate) ragged_tokens: usize,
}

impl Default for PrefixIndex {
    fn default() -> Self {
        Self {
            nodes: vec![Node { covered: true, mark: u64::MAX, ..Node::default() }],
            unused: Vec::new(),
            children: HashMap::new(),
            covered: Vec::new(),
            repeats: BTreeSet::new(),
            offers: BTreeSet::new(),
        }
    }
}

impl PrefixIndex {
    /// Puts an entry in; `ticket` must be a new one.
    pub(crate) fn insert(&mut self, ticket: Ticket, input_ids: &[u32]) -> NodeId {
        let mut node = ROOT;
        let mut placed = 0;
        while placed < input_ids.len() {
            step();
            let rest = &input_ids[placed..];
            let Some(&child) = self.children.get(&(node, rest[0])) else {
                node = self.add_leaf(node, rest);
                break;
            };
            let shared = common_prefix_len(rest, &self.nodes[child].tokens);
            node = if shared < self.nodes[child].tokens.len() { self.split(child, shared) } else { child };
            placed += shared;
        }
        self.change(node, |node| node.entries.insert(ticket));
        self.count(node, |node| {
            node.subtree_entries += 1;
            node.subtree_ragged_tokens += input_ids.len();
        });
        node
    }

    /// Takes an entry out that is not hidden.
    pub(crate) fn remove(&mut self, ticket: Ticket, node: NodeId) {
        let depth = self.nodes[node].depth;
        self.change(node, |node| node.entries.remove(&ticket));
        self.count(node, |node| {
            node.subtree_entries -= 1;
            node.subtree_ragged_tokens -= depth;
        });
        self.prune(node);
    }

    /// Changes what a node and all above it count.
    fn count(&mut self, mut id: NodeId, mut edit: impl FnMut(&mut Node)) {
        while id != ROOT {
            edit(&mut self.nodes[id]);
            id = self.nodes[id].parent;
        }
    }

    /// Makes [`nearest`](Self::nearest) pass an entry over, until it is shown again.
    pub(crate) fn hide(&mut self, ticket: Ticket, node: NodeId) {
        self.nodes[node].num_hidden += 1;
        self.change(node, |node| node.entries.remove(&ticket));
    }

    /// Undoes [`hide`](Self::hide).
    pub(crate) fn show(&mut self, ticket: Ticket, node: NodeId) {
        self.nodes[node].num_hidden -= 1;
        self.change(node, |node| node.entries.insert(ticket));
    }

    /// The entry that shares most with the batch: one that adds no token at all if there is any, then those with the
    /// longest prefix in common; the oldest among equals.
    pub(crate) fn nearest(&self) -> Option<Nearest> {
        if let Some(&(ticket, _)) = self.repeats.first() {
            return Some(Nearest { ticket, group: None });
        }
        let &(Reverse(depth), ticket, node) = self.offers.first()?;
        let &(_, id) = self.nodes[node].below.first()?;
        let &Node { subtree_tokens: tokens, subtree_entries: entries, subtree_ragged_tokens: ragged_tokens, .. } =
            &self.nodes[id];
        let group = Group { id, depth, head: self.head(id), tokens, entries, ragged_tokens };
        Some(Nearest { ticket, group: Some(group) })
    }

    /// Tokens of a node, and of those below it down to where paths part or end. Nodes that were split stay apart when
    /// the reason for it has gone.
    fn head(&self, mut id: NodeId) -> usize {
        let mut head = self.nodes[id].tokens.len();
        while let Node { num_children: 1, entries, below, .. } = &self.nodes[id]
            && entries.is_empty()
            && let Some(&(_, child)) = below.first()
        {
            step();
            id = child;
            head += self.nodes[id].tokens.len();
        }
        head
    }

    /// Makes [`nearest`](Self::nearest) pass over a group that it named, until it is shown again. Nobody in the group
    /// may be removed or covered meanwhile.
    pub(crate) fn hide_group(&mut self, Group { id, .. }: Group) {
        let Node { parent, .. } = self.nodes[id];
        let oldest = self.nodes[id].oldest();
        self.change_here(parent, |parent| oldest.is_some_and(|ticket| parent.below.remove(&(ticket, id))));
    }

    /// Undoes [`hide_group`](Self::hide_group).
    pub(crate) fn show_group(&mut self, Group { id, .. }: Group) {
        let Node { parent, .. } = self.nodes[id];
        let oldest = self.nodes[id].oldest();
        self.change_here(parent, |parent| oldest.is_some_and(|ticket| parent.below.insert((ticket, id))));
    }

    /// Tokens that the path to a node adds to the batch.
    pub(crate) fn new_tokens(&self, node: NodeId) -> usize {
        self.nodes[node].depth - self.nodes[self.top(node, |node| node.covered)].depth
    }

    /// Makes the path to a node, where an entry waits, a part of the batch.
    pub(crate) fn cover(&mut self, node: NodeId) {
        let (mut lower, mut oldest) = (node, self.nodes[node].oldest());
        while !self.nodes[lower].covered {
            step();
            let parent = self.nodes[lower].parent;
            let parents_oldest = self.nodes[parent].oldest();
            // What remains below the parent is off the batch's paths.
            self.change_here(parent, |parent| oldest.is_some_and(|ticket| parent.below.remove(&(ticket, lower))));
            self.nodes[lower].covered = true;
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
        covered.sort_unstable_by_key(|&node| Reverse(self.nodes[node].depth));
        for node in covered.drain(..) {
            step();
            self.nodes[node].covered = false;
            match self.nodes[node].oldest() {
                Some(oldest) => {
                    let parent = self.nodes[node].parent;
                    self.nodes[parent].below.insert((oldest, node));
                }
                None => self.prune(node),
            }
        }
        self.covered = covered;
        self.advertise(ROOT);
    }

    /// Tokens on the path to a node that do not bear the mark.
    pub(crate) fn unmarked_tokens(&self, node: NodeId, mark: u64) -> usize {
        self.nodes[node].depth - self.nodes[self.top(node, |node| node.mark == mark || node.depth == 0)].depth
    }

    /// Marks the path to a node, to count a set of paths without covering them. Marks grow from one set to the next.
    pub(crate) fn mark(&mut self, node: NodeId, mark: u64) {
        let mut lower = node;
        while lower != ROOT && self.nodes[lower].mark != mark {
            step();
            self.nodes[lower].mark = mark;
            lower = self.nodes[lower].parent;
        }
    }

    /// The first node upwards that is as asked; the root must be.
    fn top(&self, mut node: NodeId, is_top: impl Fn(&Node) -> bool) -> NodeId {
        while !is_top(&self.nodes[node]) {
            step();
            node = self.nodes[node].parent;
        }
        node
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

    fn add_leaf(&mut self, parent: NodeId, tokens: &[u32]) -> NodeId {
        let depth = self.nodes[parent].depth + tokens.len();
        let leaf = self.add(Node { tokens: tokens.to_vec(), depth, parent, ..Node::default() });
        self.children.insert((parent, tokens[0]), leaf);
        self.nodes[parent].num_children += 1;
        let mut node = leaf;
        while node != ROOT {
            step();
            self.nodes[node].subtree_tokens += tokens.len();
            node = self.nodes[node].parent;
        }
        leaf
    }

    /// Cuts a node after `len` tokens and returns the new upper half. The lower half keeps the number, which the
    /// entries and the children know.
    fn split(&mut self, lower: NodeId, len: usize) -> NodeId {
        let node = &mut self.nodes[lower];
        let rest = node.tokens.split_off(len);
        let tokens = std::mem::replace(&mut node.tokens, rest);
        let (first, next) = (tokens[0], node.tokens[0]);
        let (parent, covered, mark, oldest) = (node.parent, node.covered, node.mark, node.oldest());
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
            mark,
            ..Node::default()
        });
        self.nodes[lower].parent = upper;
        self.children.insert((parent, first), upper);
        self.children.insert((upper, next), lower);
        if covered {
            self.covered.push(upper);
        } else if let Some(oldest) = oldest {
            self.nodes[upper].below.insert((oldest, lower));
            // Another node with the same oldest entry: what the parent offers stays the same.
            let below = &mut self.nodes[parent].below;
            below.remove(&(oldest, lower));
            below.insert((oldest, upper));
        }
        upper
    }

    /// Removes a node that serves nobody, and then perhaps those above it.
    fn prune(&mut self, mut id: NodeId) {
        let mut pruned = 0;
        while id != ROOT {
            step();
            let node = &mut self.nodes[id];
            node.subtree_tokens -= pruned;
            if node.covered || node.num_children > 0 || node.num_hidden > 0 || !node.entries.is_empty() {
                id = node.parent;
                continue;
            }
            let Node { tokens, parent, .. } = std::mem::take(node);
            self.children.remove(&(parent, tokens[0]));
            self.nodes[parent].num_children -= 1;
            self.unused.push(id);
            pruned += tokens.len();
            id = parent;
        }
    }

    /// Changes who waits at a node, and tells the nodes above, up to the first covered one.
    fn change(&mut self, mut node: NodeId, edit: impl FnOnce(&mut Node) -> bool) {
        let mut before = self.nodes[node].oldest();
        self.change_here(node, edit);
        while !self.nodes[node].covered {
            let after = self.nodes[node].oldest();
            if after == before {
                return;
            }
            let parent = self.nodes[node].parent;
            let parents_before = self.nodes[parent].oldest();
            self.change_here(parent, |parent| {
                before.is_some_and(|ticket| parent.below.remove(&(ticket, node)))
                    | after.is_some_and(|ticket| parent.below.insert((ticket, node)))
            });
            (node, before) = (parent, parents_before);
        }
    }

    /// Changes a node and, if it is covered, what it offers.
    fn change_here(&mut self, id: NodeId, edit: impl FnOnce(&mut Node) -> bool) {
        step();
        let node = &self.nodes[id];
        if node.covered {
            node.entries.first().map(|&ticket| self.repeats.remove(&(ticket, id)));
            node.below.first().map(|&(ticket, _)| self.offers.remove(&(Reverse(node.depth), ticket, id)));
        }
        edit(&mut self.nodes[id]);
        self.advertise(id);
    }

    /// Enters what a node offers, if it is covered.
    fn advertise(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        if node.covered {
            node.entries.first().map(|&ticket| self.repeats.insert((ticket, id)));
            node.below.first().map(|&(ticket, _)| self.offers.insert((Reverse(node.depth), ticket, id)));
        }
    }
}

#[cfg(test)]
#[path = "prefix_index_tests.rs"]
mod tests;
