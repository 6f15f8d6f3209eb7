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
use crate::edge_table::{EdgeKey, EdgeTable, Vacancy};

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
            builder.push_with_positions(&batch.input_ids()[rows.clone()], &batch.position_ids()[rows]);
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

    fn clear(&mut self) {
        let Self { input_ids, position_ids, gather, scatter, segments, unique_tokens } = self;
        [input_ids, position_ids, gather, scatter].into_iter().for_each(Vec::clear);
        segments.clear();
        *unique_tokens = 0;
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

    /// Pairs of a query and a key in one causal attention over compact space: each node with itself and the path
    /// before it. [`RaggedBatch::attention_work`] is what it is without sharing.
    pub fn attention_work(&self) -> u64 {
        self.segments.iter().map(|segment| causal_pairs(segment.depth.into(), segment.len.into())).sum()
    }
}

/// Pairs of `len` queries with the keys up to their own, the first query at position `depth`.
pub(crate) fn causal_pairs(depth: u64, len: u64) -> u64 {
    len * depth + len * (len + 1) / 2
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

/// What is not in the tree yet: all from `placed` on.
struct Tail<'a> {
    input_ids: &'a [u32],
    positions: Positions<'a>,
    placed: usize,
}

/// The positions of a sequence: a list, or 0, 1, 2, ... when there is none.
#[derive(Clone, Copy)]
struct Positions<'a>(Option<&'a [u32]>);

impl Positions<'_> {
    fn at(self, index: usize) -> u32 {
        self.0.map_or(index as u32, |list| list[index])
    }

    /// How many positions from `index` on are those of the rows.
    fn common_prefix_len(self, index: usize, rows: &[u32]) -> usize {
        match self.0 {
            Some(list) => common_prefix_len(&list[index..], rows),
            None => rows.iter().zip(index as u32..).take_while(|&(&row, position)| row == position).count(),
        }
    }

    fn append(self, range: std::ops::Range<usize>, to: &mut Vec<u32>) {
        match self.0 {
            Some(list) => to.extend_from_slice(&list[range]),
            None => to.extend(range.start as u32..range.end as u32),
        }
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
    /// Places a sequence at positions 0, 1, 2, ... and returns how many new nodes it needed.
    pub fn push(&mut self, input_ids: &[u32]) -> usize {
        self.place(input_ids, Positions(None))
    }

    /// Places a sequence at the given positions and returns how many new nodes it needed.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn push_with_positions(&mut self, input_ids: &[u32], position_ids: &[u32]) -> usize {
        assert_eq!(input_ids.len(), position_ids.len(), "one position for each token");
        let counted = is_counted(position_ids);
        self.counted &= counted;
        self.place(input_ids, Positions((!counted).then_some(position_ids)))
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
        plan.segments.reserve(self.edges.len() - 1);
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

    fn place(&mut self, input_ids: &[u32], positions: Positions<'_>) -> usize {
        let mut parent = ROOT;
        let mut placed = 0;
        while placed < input_ids.len() {
            let parent_end = self.edges[parent as usize].end();
            let key = EdgeKey { parent_end, input_id: input_ids[placed], position_id: positions.at(placed) };
            let child = match self.children.find(key) {
                Ok(child) => child,
                Err(vacancy) => {
                    self.append(parent, vacancy, Tail { input_ids, positions, placed });
                    break;
                }
            };
            let Segment { start, len, .. } = self.edges[child as usize].segment;
            let rows = start as usize..(start + len) as usize;
            let mut shared = common_prefix_len(&input_ids[placed..], &self.plan.input_ids[rows]);
            if !self.counted {
                let rows = start as usize..start as usize + shared;
                shared = positions.common_prefix_len(placed, &self.plan.position_ids[rows]);
            }
            self.plan.scatter.extend(start..start + shared as u32);
            placed += shared;
            if shared < len as usize && placed < input_ids.len() {
                self.split(child, shared as u32);
            }
            parent = child;
        }
        self.num_sequences += 1;
        input_ids.len() - placed
    }

    /// Adds the rest of a sequence as new rows below `parent`, which has no child with its first key.
    fn append(&mut self, parent: u32, vacancy: Vacancy, tail: Tail<'_>) {
        let Tail { input_ids, positions, placed } = tail;
        let Self { plan, .. } = self;
        let (start, row) = (plan.input_ids.len() as u32, plan.scatter.len() as u32);
        let len = (input_ids.len() - placed) as u32;
        plan.input_ids.extend_from_slice(&input_ids[placed..]);
        positions.append(placed..input_ids.len(), &mut plan.position_ids);
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

    /// Cuts an edge after `len` rows. The upper half keeps its number and its key, the lower half gets the children,
    /// whose keys name the end row, which stays where it is.
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
        let row = rest.segment.start as usize;
        let (input_id, position_id) = (self.plan.input_ids[row], self.plan.position_ids[row]);
        // Rows are numbered by first occurrence: no edge has ended here yet, so there is nothing to be found.
        if let Err(vacancy) = self.children.find(EdgeKey { parent_end: row as u32, input_id, position_id }) {
            self.children.insert(vacancy, lower);
        }
    }
}

/// How many leading elements two slices have in common.
pub(crate) fn common_prefix_len(a: &[u32], b: &[u32]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let equal_chunks = a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0).take_while(|(a, b)| a == b).count();
    let done = equal_chunks * 16;
    done + a[done..].iter().zip(&b[done..]).take_while(|(a, b)| a == b).count()
}

/// Whether positions are 0, 1, 2, ...; without an early end, because such a loop is not vectorised.
fn is_counted(position_ids: &[u32]) -> bool {
    position_ids.iter().zip(0u32..).fold(0, |difference, (&position, index)| difference | (position ^ index)) == 0
}

#[cfg(test)]
#[path = "radix_tests.rs"]
mod tests;
