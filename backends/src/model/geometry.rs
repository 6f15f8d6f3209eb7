//! Which rows a forward pass computes, and where each of them finds its path.
//!
//! *Compute space* is compact space when a batch has a plan and ragged space when it has none. The two
//! attention modes differ only in what this module prepares:
//!
//! | | queries | keys and values |
//! | --- | --- | --- |
//! | no plan | a span for each sequence | ragged rows, page table 0, 1, 2, ... |
//! | `ragged` | Q scattered to ragged rows, a span for each sequence, output gathered back | K, V scattered to ragged rows, page table 0, 1, 2, ... |
//! | `compact` | a span for each segment | compact rows, page table `scatter` |

use crate::ops::Pages;
use crate::options::AttentionMode;
use candle_core::{Device, Result, Tensor};
use prefold_core::{Batch, Pooling, Wanted};
use prefold_kernels::QuerySpan;

/// The indices of one forward pass, on the device where it runs.
#[derive(Debug)]
pub(crate) struct Geometry {
    /// `[rows]`, `u32`
    pub(crate) input_ids: Tensor,
    /// `[rows]`, `u32`
    pub(crate) position_ids: Tensor,
    pub(crate) pages: Pages,
    /// Present when attention runs in ragged space over a compacted batch.
    pub(crate) expansion: Option<Expansion>,
    /// The rows whose final state is wanted; all of them when absent.
    pub(crate) wanted: Option<WantedRows>,
    /// Ragged row -> compute row; `None` where they are the same.
    row_of: Option<Vec<u32>>,
    cu_seqlens: Vec<u32>,
}

/// The way to ragged space and back.
#[derive(Debug)]
pub(crate) struct Expansion {
    /// `ragged[i] = compact[scatter[i]]`, `[total_tokens]`
    pub(crate) scatter: Tensor,
    /// `compact[j] = ragged[gather[j]]`, `[rows]`
    pub(crate) gather: Tensor,
}

/// A subset of the compute rows, in ascending order.
#[derive(Debug)]
pub(crate) struct WantedRows {
    /// The rows, on the host.
    rows: Vec<u32>,
    /// The same on the device, `[wanted]`.
    pub(crate) index: Tensor,
    /// Their positions, `[wanted]`.
    pub(crate) position_ids: Tensor,
    /// A span of one query for each.
    pub(crate) pages: Pages,
}

impl Geometry {
    /// `pooling` tells which of a sequence's rows its pooled vector is made of.
    pub(crate) fn new(batch: &Batch, mode: AttentionMode, pooling: Pooling, device: &Device) -> Result<Self> {
        let ragged = &batch.ragged;
        let cu_seqlens = ragged.cu_seqlens();
        let identity = || (0..ragged.total_tokens() as u32).collect::<Vec<u32>>();
        let (input_ids, position_ids, table) = match (&batch.plan, mode) {
            (None, _) => (ragged.input_ids(), ragged.position_ids(), identity()),
            (Some(plan), AttentionMode::Ragged) => (plan.input_ids(), plan.position_ids(), identity()),
            (Some(plan), AttentionMode::Compact) => (plan.input_ids(), plan.position_ids(), plan.scatter().to_vec()),
        };
        let spans = match (&batch.plan, mode) {
            (Some(plan), AttentionMode::Compact) => plan
                .segments()
                .iter()
                .map(|s| QuerySpan { row: s.start, len: s.len, depth: s.depth, path: cu_seqlens[s.sequence as usize] })
                .collect(),
            _ => cu_seqlens
                .windows(2)
                .map(|ends| QuerySpan { row: ends[0], len: ends[1] - ends[0], depth: 0, path: ends[0] })
                .collect(),
        };
        let expansion = match (&batch.plan, mode) {
            (Some(plan), AttentionMode::Ragged) => Some(Expansion {
                scatter: Tensor::new(plan.scatter(), device)?,
                gather: Tensor::new(plan.gather(), device)?,
            }),
            _ => None,
        };
        let mut geometry = Self {
            input_ids: Tensor::new(input_ids, device)?,
            position_ids: Tensor::new(position_ids, device)?,
            pages: Pages { table, spans },
            expansion,
            wanted: None,
            row_of: batch.plan.as_ref().map(|plan| plan.scatter().to_vec()),
            cu_seqlens: cu_seqlens.to_vec(),
        };
        geometry.wanted = geometry.wanted_rows(batch, pooling, position_ids, device)?;
        Ok(geometry)
    }

    /// The single row of each sequence, unless some sequence needs them all.
    fn wanted_rows(
        &self,
        batch: &Batch,
        pooling: Pooling,
        position_ids: &[u32],
        device: &Device,
    ) -> Result<Option<WantedRows>> {
        if pooling == Pooling::Mean || batch.wanted.contains(&Wanted::Tokens) {
            return Ok(None);
        }
        let span_of = |b: usize| {
            let (path, end) = (self.cu_seqlens[b], self.cu_seqlens[b + 1]);
            let depth = if pooling == Pooling::Cls { 0 } else { end - path - 1 };
            QuerySpan { row: self.row(path + depth), len: 1, depth, path }
        };
        let mut spans: Vec<QuerySpan> = (0..self.num_sequences()).map(span_of).collect();
        spans.sort_unstable_by_key(|span| span.row);
        spans.dedup_by_key(|span| span.row);
        if spans.len() == position_ids.len() {
            return Ok(None);
        }
        let rows: Vec<u32> = spans.iter().map(|span| span.row).collect();
        let positions: Vec<u32> = rows.iter().map(|&row| position_ids[row as usize]).collect();
        spans.iter_mut().zip(0..).for_each(|(span, row)| span.row = row);
        Ok(Some(WantedRows {
            index: Tensor::new(rows.as_slice(), device)?,
            position_ids: Tensor::new(positions.as_slice(), device)?,
            pages: Pages { table: self.pages.table.clone(), spans },
            rows,
        }))
    }

    fn row(&self, ragged_row: u32) -> u32 {
        self.row_of.as_ref().map_or(ragged_row, |row_of| row_of[ragged_row as usize])
    }

    /// B.
    pub(crate) fn num_sequences(&self) -> usize {
        self.cu_seqlens.len() - 1
    }

    /// For each position of sequence `b`, the row of the final states that holds it, if it was wanted.
    pub(crate) fn output_rows(&self, b: usize) -> impl DoubleEndedIterator<Item = Option<usize>> + '_ {
        (self.cu_seqlens[b]..self.cu_seqlens[b + 1]).map(|ragged_row| {
            let row = self.row(ragged_row);
            match &self.wanted {
                Some(wanted) => wanted.rows.binary_search(&row).ok(),
                None => Some(row as usize),
            }
        })
    }
}
