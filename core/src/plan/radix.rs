//! Radix plan: the distinct rows of a ragged batch and their places.
//!
//! In a causal model the hidden state of a token depends only on it and the tokens before it, so two
//! rows with the same history are equal in every layer (RadixMLP, arXiv 2601.15013, section 3). A
//! batch is therefore a prefix tree; *compact space* has one row per tree node:
//!
//! ```text
//! ragged[i]  = compact[scatter[i]]      scatter [N]
//! compact[j] = ragged[gather[j]]        gather  [N']
//! [1,2,3], [1,2,4]  =>  gather [0,1,2,5], scatter [0,1,2,0,1,3]
//! ```
//!
//! The tree is never walked token by token. Its edges are runs of compact rows without a branch, so a
//! sequence is placed by comparing slices (longest common prefix) and `scatter` is filled by ranges.

use super::edge_table::{EdgeKey, EdgeTable, Vacancy};
use super::ragged::{RaggedBatch, causal_pairs};
use super::tokens::{TokenRows, TokenSlice};

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

/// The compaction of one [`RaggedBatch`]: `ragged[i] = compact[scatter[i]]` and `compact[j] = ragged[gather[j]]`.
///
/// Nodes are numbered by first occurrence, so `gather[j]` is the first ragged row that holds node `j`.
/// A node is identified by its parent and its token with all that changes its hidden state, see
/// [`Tokens`](crate::Tokens).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RadixPlan {
    rows: TokenRows,
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
            builder.push(batch.sequence(b));
        }
        builder.finish(pad_to_multiple)
    }

    /// The plan that shares nothing: compact space is ragged space and every sequence is a segment.
    pub fn identity(batch: &RaggedBatch) -> Self {
        let indices: Vec<u32> = (0..batch.total_tokens() as u32).collect();
        let segments = batch.cu_seqlens().windows(2).zip(0..);
        Self {
            rows: batch.token_rows().clone(),
            gather: indices.clone(),
            scatter: indices,
            segments: segments
                .map(|(ends, sequence)| Segment { start: ends[0], len: ends[1] - ends[0], depth: 0, sequence })
                .collect(),
            unique_tokens: batch.total_tokens(),
        }
    }

    fn clear(&mut self) {
        let Self { rows, gather, scatter, segments, unique_tokens } = self;
        rows.clear();
        [gather, scatter].into_iter().for_each(Vec::clear);
        segments.clear();
        *unique_tokens = 0;
    }

    /// Token ids in compact space, `[padded_tokens]`.
    pub fn input_ids(&self) -> &[u32] {
        self.rows.input_ids()
    }

    /// Token types in compact space, `[padded_tokens]`; `None` where all are 0.
    pub fn token_type_ids(&self) -> Option<&[u32]> {
        self.rows.token_type_ids()
    }

    /// Position ids in compact space, `[padded_tokens]`.
    pub fn position_ids(&self) -> &[u32] {
        self.rows.position_ids()
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
        self.rows.len()
    }

    /// N.
    pub fn total_tokens(&self) -> usize {
        self.scatter.len()
    }

    /// Query-key pairs in one causal attention over compact space: each node with itself and the path before it.
    /// [`RaggedBatch::attention_work`] is the number without sharing.
    pub fn attention_work(&self) -> u64 {
        self.segments.iter().map(|segment| causal_pairs(segment.depth.into(), segment.len.into())).sum()
    }
}

/// Builds a [`RadixPlan`] one sequence at a time.
///
/// After [`finish`](Self::finish) the builder is empty and can be used again; what it allocated for the
/// tree stays allocated. [`recycle`](Self::recycle) does the same for a plan that is no longer needed.
#[derive(Debug)]
pub struct PlanBuilder {
    plan: RadixPlan,
    /// `edges[ROOT]` is the empty edge above all others.
    edges: Vec<Edge>,
    /// The last edge in the order of compact rows.
    last: u32,
    children: EdgeTable,
    /// Every sequence so far is at positions 0, 1, 2, ...: equal tokens at equal depth are at equal positions.
    counted: bool,
    num_sequences: u32,
}

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// End row of the root in the keys of its children. No other edge has it, and it differs by scope and task, so that their paths
/// part before the first node. Scopes are numbers of API keys, fewer than 2^23.
fn root_end(sequence: &TokenSlice<'_>) -> u32 {
    ((sequence.scope().0 << 8) | u32::from(sequence.task().0)).wrapping_neg()
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    segment: Segment,
    has_children: bool,
    /// The next edge in the order of compact rows.
    next_in_order: u32,
}

impl Edge {
    fn new(segment: Segment) -> Self {
        Self { segment, has_children: false, next_in_order: NONE }
    }

    fn end(&self) -> u32 {
        self.segment.start + self.segment.len
    }
}

impl Default for PlanBuilder {
    fn default() -> Self {
        let root = Edge::new(Segment { start: 0, len: 0, depth: 0, sequence: 0 });
        Self {
            plan: RadixPlan::default(),
            edges: vec![root],
            last: ROOT,
            children: EdgeTable::default(),
            counted: true,
            num_sequences: 0,
        }
    }
}

impl PlanBuilder {
    /// Places a sequence and returns how many new nodes it needed.
    pub fn push<'a>(&mut self, sequence: impl Into<TokenSlice<'a>>) -> usize {
        let sequence = sequence.into();
        // No copy on the usual way: it would cost as much as placing a short sequence.
        if sequence.is_normal() { self.place(&sequence) } else { self.place(&sequence.normal()) }
    }

    /// N' so far.
    pub fn unique_tokens(&self) -> usize {
        self.plan.rows.len()
    }

    /// N so far.
    pub fn total_tokens(&self) -> usize {
        self.plan.scatter.len()
    }

    /// The plan of everything pushed, N' rounded up to a multiple of `pad_to_multiple` (0 and 1: no padding).
    pub fn finish(&mut self, pad_to_multiple: usize) -> RadixPlan {
        let mut plan = std::mem::take(&mut self.plan);
        plan.unique_tokens = plan.rows.len();
        plan.segments.reserve(self.edges.len() - 1);
        let mut edge = self.edges[ROOT as usize].next_in_order;
        while edge != NONE {
            let Edge { segment, next_in_order, .. } = self.edges[edge as usize];
            plan.segments.push(segment);
            edge = next_in_order;
        }
        let padded = plan.unique_tokens.next_multiple_of(pad_to_multiple.max(1));
        plan.rows.pad(padded);
        plan.gather.resize(padded, 0);
        self.clear();
        plan
    }

    /// Forgets what was pushed and keeps the memory.
    pub fn clear(&mut self) {
        self.plan.clear();
        self.edges.truncate(1);
        self.edges[ROOT as usize] = Edge::new(self.edges[ROOT as usize].segment);
        self.last = ROOT;
        self.children.clear();
        self.counted = true;
        self.num_sequences = 0;
    }

    /// Builds the next plan in the memory of one that is no longer needed. Without effect between the first push
    /// and [`finish`](Self::finish).
    pub fn recycle(&mut self, mut plan: RadixPlan) {
        if self.plan.scatter.is_empty() {
            plan.clear();
            self.plan = plan;
        }
    }

    fn place(&mut self, sequence: &TokenSlice<'_>) -> usize {
        self.counted &= sequence.counts_from(0);
        let mut parent = ROOT;
        let mut placed = 0;
        while placed < sequence.len() {
            let child = match self.find_child(parent, sequence, placed) {
                Ok(child) => child,
                Err(vacancy) => {
                    self.append(parent, vacancy, sequence, placed);
                    break;
                }
            };
            let Segment { start, len, depth, .. } = self.edges[child as usize].segment;
            let rows = start as usize..(start + len) as usize;
            let rows =
                if self.counted { self.plan.rows.counted(rows, depth) } else { self.plan.rows.as_slice().range(rows) };
            // A path has one scope and one task, by which its first edge was found.
            let rows = rows.in_scope(sequence.scope()).with_task(sequence.task());
            let shared = sequence.tail(placed).common_prefix_len(&rows);
            self.plan.scatter.extend(start..start + shared as u32);
            placed += shared;
            if shared < len as usize && placed < sequence.len() {
                self.split(child, shared as u32);
            }
            parent = child;
        }
        self.num_sequences += 1;
        sequence.len() - placed
    }

    /// The child of `parent` that begins with the token `placed` of the sequence, or the place where it would be.
    #[inline]
    fn find_child(&self, parent: u32, sequence: &TokenSlice<'_>, placed: usize) -> Result<u32, Vacancy> {
        let parent_end = match parent {
            ROOT => root_end(sequence),
            edge => self.edges[edge as usize].end(),
        };
        let rows = self.plan.rows.as_slice();
        let first = sequence.key(placed);
        let begins_so = |edge: u32| rows.key(self.edges[edge as usize].segment.start as usize) == first;
        self.children.find(EdgeKey { parent_end, input_id: first.input_id }, begins_so)
    }

    /// Adds what follows the first `placed` tokens of a sequence as new rows below `parent`, which has no child with the
    /// first of them.
    fn append(&mut self, parent: u32, vacancy: Vacancy, sequence: &TokenSlice<'_>, placed: usize) {
        let Self { plan, .. } = self;
        let (start, row) = (plan.rows.len() as u32, plan.scatter.len() as u32);
        let len = (sequence.len() - placed) as u32;
        plan.rows.extend(sequence.tail(placed));
        plan.gather.extend(row..row + len);
        plan.scatter.extend(start..start + len);

        let above = &mut self.edges[parent as usize];
        if parent != ROOT && !above.has_children && above.end() == start {
            // The sequence prolongs a leaf whose rows are the last ones: no branch, the same segment.
            above.segment.len += len;
            above.segment.sequence = self.num_sequences;
            return;
        }
        above.has_children = true;
        let edge = self.edges.len() as u32;
        self.edges.push(Edge::new(Segment { start, len, depth: placed as u32, sequence: self.num_sequences }));
        self.edges[self.last as usize].next_in_order = edge;
        self.last = edge;
        self.children.insert(vacancy, edge);
    }

    /// Cuts an edge after `len` rows. The upper half keeps its number and its key. The lower half gets the children;
    /// their keys stay valid, because they name the end row, which does not move.
    fn split(&mut self, edge: u32, len: u32) {
        let lower = self.edges.len() as u32;
        let upper = &mut self.edges[edge as usize];
        let mut rest = *upper;
        rest.segment.start += len;
        rest.segment.len -= len;
        rest.segment.depth += len;
        upper.segment.len = len;
        upper.has_children = true;
        upper.next_in_order = lower;
        self.edges.push(rest);
        if self.last == edge {
            self.last = lower;
        }
        let parent_end = rest.segment.start;
        let input_id = self.plan.rows.input_ids()[parent_end as usize];
        // Rows are numbered by first occurrence: no edge has ended here yet, so there is nothing to be found.
        if let Err(vacancy) = self.children.find(EdgeKey { parent_end, input_id }, |_| false) {
            self.children.insert(vacancy, lower);
        }
    }
}

#[cfg(test)]
#[path = "tests/radix.rs"]
mod tests;
