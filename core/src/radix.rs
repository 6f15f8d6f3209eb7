//! The radix plan: which rows of a ragged batch are distinct, and where each of them is.
//!
//! In a causal model the hidden state of a token depends on the tokens before it and on nothing else,
//! so two rows with the same history are the same row at every layer (RadixMLP, arXiv 2601.15013,
//! section 3). A batch is therefore a prefix tree; *compact space* has one row per tree node:
//!
//! ```text
//! ragged[i]  = compact[scatter[i]]      scatter [N]
//! compact[j] = ragged[gather[j]]        gather  [N']
//! [1,2,3], [1,2,4]  =>  gather [0,1,2,5], scatter [0,1,2,0,1,3]
//! ```
//!
//! The tree is never walked token by token. Its edges are runs of compact rows without a branch, so a
//! sequence is placed by comparing slices (longest common prefix) and `scatter` is filled by ranges.

use crate::RaggedBatch;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A run of nodes without a branch: an edge of the radix tree, contiguous in compact space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First compact row.
    pub start: u32,
    /// Rows.
    pub len: u32,
    /// Nodes on the path before the first row; the row `start + i` is at path position `depth + i`.
    pub depth: u32,
    /// A sequence that passes through the whole segment: its first `depth + len` tokens are the path.
    pub sequence: u32,
}

/// The compaction of one [`RaggedBatch`]. See the [module](self) for the equations.
///
/// Nodes are numbered by first occurrence, so `gather[j]` is the first ragged row that holds node `j`.
/// A node is identified by its parent and its (token id, position id).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RadixPlan {
    input_ids: Vec<u32>,
    position_ids: Vec<u32>,
    gather: Vec<u32>,
    scatter: Vec<u32>,
    segments: Vec<Segment>,
    unique_tokens: usize,
}

impl RadixPlan {
    /// The plan of a whole batch, N' rounded up to a multiple of `pad_to_multiple` (1 for none).
    pub fn new(batch: &RaggedBatch, pad_to_multiple: usize) -> Self {
        let mut builder = PlanBuilder::default();
        for b in 0..batch.num_sequences() {
            let rows = batch.rows(b);
            builder.push(&batch.input_ids()[rows.clone()], &batch.position_ids()[rows]);
        }
        builder.finish(pad_to_multiple)
    }

    /// The plan that shares nothing: compact space is ragged space and every sequence is a segment.
    pub fn identity(batch: &RaggedBatch) -> Self {
        let rows: Vec<u32> = (0..batch.total_tokens() as u32).collect();
        let segments = batch.cu_seqlens().windows(2).zip(0..);
        Self {
            input_ids: batch.input_ids().to_vec(),
            position_ids: batch.position_ids().to_vec(),
            gather: rows.clone(),
            scatter: rows,
            segments: segments
                .map(|(ends, sequence)| Segment { start: ends[0], len: ends[1] - ends[0], depth: 0, sequence })
                .collect(),
            unique_tokens: batch.total_tokens(),
        }
    }

    /// Token ids in compact space, `[padded_tokens]`.
    pub fn input_ids(&self) -> &[u32] {
        &self.input_ids
    }

    /// Position ids in compact space, `[padded_tokens]`.
    pub fn position_ids(&self) -> &[u32] {
        &self.position_ids
    }

    /// Compact to ragged, `[padded_tokens]`; padding points at row 0.
    pub fn gather(&self) -> &[u32] {
        &self.gather
    }

    /// Ragged to compact, `[total_tokens]`.
    pub fn scatter(&self) -> &[u32] {
        &self.scatter
    }

    /// The edges of the tree in the order of their rows; they partition the unpadded compact rows.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// N', without padding.
    pub fn unique_tokens(&self) -> usize {
        self.unique_tokens
    }

    /// N' with padding: the rows that are computed.
    pub fn padded_tokens(&self) -> usize {
        self.input_ids.len()
    }

    /// N.
    pub fn total_tokens(&self) -> usize {
        self.scatter.len()
    }
}

/// Builds a [`RadixPlan`] one sequence at a time.
///
/// After [`finish`](Self::finish) the builder is empty and can be used again; what it allocated for the
/// tree stays allocated.
#[derive(Debug)]
pub struct PlanBuilder {
    plan: RadixPlan,
    /// `edges[ROOT]` is the empty edge above all others.
    edges: Vec<Edge>,
    /// The last edge in the order of compact rows.
    last: u32,
    children: HashMap<ChildKey, u32, BuildHasherDefault<FoldHasher>>,
    num_sequences: u32,
}

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// Up to this many children are searched one by one; beyond, by hash.
const MAX_LISTED_CHILDREN: u32 = 8;

#[derive(Debug, Clone, Copy)]
struct Edge {
    segment: Segment,
    /// Children are a list, the youngest first: neighbours in a batch tend to share most.
    first_child: u32,
    next_sibling: u32,
    num_children: u32,
    /// The next edge in the order of compact rows.
    next_in_order: u32,
}

impl Edge {
    fn new(segment: Segment) -> Self {
        Self { segment, first_child: NONE, next_sibling: NONE, num_children: 0, next_in_order: NONE }
    }

    fn end(&self) -> u32 {
        self.segment.start + self.segment.len
    }
}

/// A child by its parent's end row and its own first node. An edge with children never moves its end
/// (a split gives the end and the children to the lower half), so keys stay valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ChildKey {
    parent_end: u32,
    input_id: u32,
    position_id: u32,
}

impl Default for PlanBuilder {
    fn default() -> Self {
        let root = Edge::new(Segment { start: 0, len: 0, depth: 0, sequence: 0 });
        Self {
            plan: RadixPlan::default(),
            edges: vec![root],
            last: ROOT,
            children: HashMap::default(),
            num_sequences: 0,
        }
    }
}

impl PlanBuilder {
    /// Places a sequence and returns how many new nodes it needed.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn push(&mut self, input_ids: &[u32], position_ids: &[u32]) -> usize {
        assert_eq!(input_ids.len(), position_ids.len(), "one position for each token");
        let base = self.plan.scatter.len() as u32;
        let mut parent = ROOT;
        let mut placed = 0;
        while placed < input_ids.len() {
            let Some(child) = self.find_child(parent, input_ids[placed], position_ids[placed]) else { break };
            let Segment { start, len, .. } = self.edges[child as usize].segment;
            let rows = start as usize..(start + len) as usize;
            let ids = common_prefix_len(&input_ids[placed..], &self.plan.input_ids[rows.clone()]);
            let shared = common_prefix_len(&position_ids[placed..][..ids], &self.plan.position_ids[rows]);
            self.plan.scatter.extend(start..start + shared as u32);
            placed += shared;
            if shared < len as usize && placed < input_ids.len() {
                self.split(child, shared as u32);
            }
            parent = child;
        }
        self.append(parent, base, placed, input_ids, position_ids);
        self.num_sequences += 1;
        input_ids.len() - placed
    }

    /// N' so far.
    pub fn unique_tokens(&self) -> usize {
        self.plan.input_ids.len()
    }

    /// N so far.
    pub fn total_tokens(&self) -> usize {
        self.plan.scatter.len()
    }

    /// The plan of everything pushed, N' rounded up to a multiple of `pad_to_multiple` (0 and 1: no padding).
    pub fn finish(&mut self, pad_to_multiple: usize) -> RadixPlan {
        let mut plan = std::mem::take(&mut self.plan);
        plan.unique_tokens = plan.input_ids.len();
        plan.segments.reserve_exact(self.edges.len() - 1);
        let mut edge = self.edges[ROOT as usize].next_in_order;
        while edge != NONE {
            let Edge { segment, next_in_order, .. } = self.edges[edge as usize];
            plan.segments.push(segment);
            edge = next_in_order;
        }
        let padded = plan.unique_tokens.next_multiple_of(pad_to_multiple.max(1));
        for rows in [&mut plan.input_ids, &mut plan.position_ids, &mut plan.gather] {
            rows.resize(padded, 0);
        }
        self.edges.truncate(1);
        self.edges[ROOT as usize] = Edge::new(self.edges[ROOT as usize].segment);
        self.last = ROOT;
        self.children.clear();
        self.num_sequences = 0;
        plan
    }

    /// Adds `input_ids[placed..]` as new rows below `parent`.
    fn append(&mut self, parent: u32, base: u32, placed: usize, input_ids: &[u32], position_ids: &[u32]) {
        let len = (input_ids.len() - placed) as u32;
        if len == 0 {
            return;
        }
        let start = self.plan.input_ids.len() as u32;
        self.plan.input_ids.extend_from_slice(&input_ids[placed..]);
        self.plan.position_ids.extend_from_slice(&position_ids[placed..]);
        self.plan.gather.extend(base + placed as u32..base + input_ids.len() as u32);
        self.plan.scatter.extend(start..start + len);

        let above = &mut self.edges[parent as usize];
        if parent != ROOT && above.first_child == NONE && above.end() == start {
            // The sequence prolongs a leaf whose rows are the last ones: no branch, the same segment.
            above.segment.len += len;
            above.segment.sequence = self.num_sequences;
            return;
        }
        let segment = Segment { start, len, depth: placed as u32, sequence: self.num_sequences };
        let edge = self.edges.len() as u32;
        self.edges.push(Edge::new(segment));
        self.edges[self.last as usize].next_in_order = edge;
        self.last = edge;
        self.add_child(parent, edge);
    }

    /// Cuts an edge after `len` rows. The upper half keeps its number, the lower half gets the children.
    fn split(&mut self, edge: u32, len: u32) {
        let lower = self.edges.len() as u32;
        let upper = &mut self.edges[edge as usize];
        let mut rest = *upper;
        rest.segment.start += len;
        rest.segment.len -= len;
        rest.segment.depth += len;
        rest.next_sibling = NONE;
        upper.segment.len = len;
        upper.first_child = lower;
        upper.num_children = 1;
        upper.next_in_order = lower;
        self.edges.push(rest);
        if self.last == edge {
            self.last = lower;
        }
    }

    fn key(&self, parent: u32, input_id: u32, position_id: u32) -> ChildKey {
        ChildKey { parent_end: self.edges[parent as usize].end(), input_id, position_id }
    }

    fn find_child(&self, parent: u32, input_id: u32, position_id: u32) -> Option<u32> {
        let above = &self.edges[parent as usize];
        if above.num_children > MAX_LISTED_CHILDREN {
            return self.children.get(&self.key(parent, input_id, position_id)).copied();
        }
        let mut child = above.first_child;
        while child != NONE {
            let edge = &self.edges[child as usize];
            let row = edge.segment.start as usize;
            if self.plan.input_ids[row] == input_id && self.plan.position_ids[row] == position_id {
                return Some(child);
            }
            child = edge.next_sibling;
        }
        None
    }

    fn add_child(&mut self, parent: u32, child: u32) {
        let above = &mut self.edges[parent as usize];
        let older = std::mem::replace(&mut above.first_child, child);
        above.num_children += 1;
        let num_children = above.num_children;
        self.edges[child as usize].next_sibling = older;
        if num_children > MAX_LISTED_CHILDREN {
            // Only the new one, unless this is the moment when the list becomes too long to search.
            let mut unhashed = if num_children == MAX_LISTED_CHILDREN + 1 { num_children } else { 1 };
            let mut edge = child;
            while unhashed > 0 {
                let row = self.edges[edge as usize].segment.start as usize;
                let key = self.key(parent, self.plan.input_ids[row], self.plan.position_ids[row]);
                self.children.insert(key, edge);
                edge = self.edges[edge as usize].next_sibling;
                unhashed -= 1;
            }
        }
    }
}

/// How many leading elements two slices have in common.
fn common_prefix_len(a: &[u32], b: &[u32]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let equal_chunks = a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0).take_while(|(a, b)| a == b).count();
    let done = equal_chunks * 16;
    done + a[done..].iter().zip(&b[done..]).take_while(|(a, b)| a == b).count()
}

/// One multiplication per word: the keys are ours, so nobody can aim at collisions they could not have
/// with token ids anyway, and a collision costs time, never an answer.
#[derive(Debug, Default)]
struct FoldHasher(u64);

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, word: u32) {
        let product = u128::from(self.0 ^ u64::from(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
#[path = "radix_tests.rs"]
mod tests;
