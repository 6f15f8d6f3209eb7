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

use crate::ops::{IndexPack, Pages, Pool, Target, Uploader};
use crate::options::AttentionMode;
use candle_core::{Result, Tensor};
use prefold_core::{Batch, Pooling, Wanted};
use prefold_kernels::{QkvLayout, QuerySpan};

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
    /// How the device pools; absent where the head does it, or where rows of tokens are asked for.
    pub(crate) pool: Option<Pool>,
    paths: Paths,
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

/// What a model's geometries have in common.
#[derive(Debug)]
pub(crate) struct Planner {
    pub(crate) mode: AttentionMode,
    /// Which of a sequence's rows its pooled state is made of.
    pub(crate) pooling: Pooling,
    pub(crate) layout: QkvLayout,
    pub(crate) target: Target,
    pub(crate) uploader: Uploader,
}

impl Planner {
    /// Lays a batch out and brings all its indices to the device, in one copy.
    ///
    /// # Errors
    /// The device has no memory.
    pub(crate) fn plan(&mut self, batch: &Batch) -> Result<Geometry> {
        let layout = Layout::new(batch, self.mode);
        let cu_seqlens = batch.ragged.cu_seqlens().to_vec();
        let row_of = batch.plan.as_ref().map(|plan| plan.scatter().to_vec());
        let paths = Paths { row_of, cu_seqlens };
        let wanted_spans = paths.wanted_spans(batch, self.pooling, layout.input_ids.len());
        let wanted_rows = wanted_spans.as_ref().map(|spans| spans.iter().map(|span| span.row).collect::<Vec<u32>>());

        let mut pack = IndexPack::default();
        let input_ids = pack.push(layout.input_ids);
        let position_ids = pack.push(layout.position_ids);
        let expansion = layout.expansion.map(|(scatter, gather)| (pack.push(scatter), pack.push(gather)));
        let wanted = wanted_rows.as_ref().map(|rows| {
            let positions: Vec<u32> = rows.iter().map(|&row| layout.position_ids[row as usize]).collect();
            (pack.push(rows), pack.push(&positions))
        });
        let mut wanted_pages = wanted_spans.map(|mut spans| {
            spans.iter_mut().zip(0..).for_each(|(span, row)| span.row = row);
            Pages::new(layout.table.clone(), spans)
        });
        let mut pages = Pages::new(layout.table, layout.spans);
        let mut pool = self.pool(batch, &paths, wanted_rows.as_deref());
        pages.pack(&self.target, self.layout, &mut pack)?;
        if let Some(pages) = &mut wanted_pages {
            pages.pack(&self.target, self.layout, &mut pack)?;
        }
        if let Some(pool) = &mut pool {
            pool.pack(&mut pack);
        }

        let indices = self.uploader.upload(pack)?;
        pages.resolve(&indices)?;
        if let Some(pages) = &mut wanted_pages {
            pages.resolve(&indices)?;
        }
        if let Some(pool) = &mut pool {
            pool.resolve(&indices)?;
        }
        let wanted = match (wanted, wanted_pages, wanted_rows) {
            (Some((index, position_ids)), Some(pages), Some(rows)) => {
                let (index, position_ids) = (indices.get(&index)?, indices.get(&position_ids)?);
                Some(WantedRows { rows, index, position_ids, pages })
            }
            _ => None,
        };
        let expansion = expansion.map(|(scatter, gather)| -> Result<Expansion> {
            Ok(Expansion { scatter: indices.get(&scatter)?, gather: indices.get(&gather)? })
        });
        Ok(Geometry {
            input_ids: indices.get(&input_ids)?,
            position_ids: indices.get(&position_ids)?,
            pages,
            expansion: expansion.transpose()?,
            wanted,
            pool,
            paths,
        })
    }

    /// Which of the final states each sequence pools, where the device does it.
    fn pool(&self, batch: &Batch, paths: &Paths, wanted: Option<&[u32]>) -> Option<Pool> {
        if !self.target.pools() || batch.wanted.contains(&Wanted::Tokens) {
            return None;
        }
        let mut pool = Pool::default();
        for b in 0..paths.num_sequences() {
            let ends = paths.cu_seqlens[b]..paths.cu_seqlens[b + 1];
            let rows = match self.pooling {
                Pooling::LastToken => ends.end - 1..ends.end,
                Pooling::Cls => ends.start..ends.start + 1,
                Pooling::Mean => ends,
            };
            let state = |row: u32| match wanted {
                // Every row that is asked for here was wanted.
                Some(wanted) => wanted.binary_search(&row).map_or(u32::MAX, |index| index as u32),
                None => row,
            };
            pool.push(rows.map(|ragged_row| state(paths.row(ragged_row))));
        }
        Some(pool)
    }
}

/// Where a batch is computed: rows, queries and page table of an attention mode.
struct Layout<'a> {
    input_ids: &'a [u32],
    position_ids: &'a [u32],
    table: Vec<u32>,
    spans: Vec<QuerySpan>,
    /// Scatter and gather.
    expansion: Option<(&'a [u32], &'a [u32])>,
}

impl<'a> Layout<'a> {
    fn new(batch: &'a Batch, mode: AttentionMode) -> Self {
        let ragged = &batch.ragged;
        let cu_seqlens = ragged.cu_seqlens();
        let identity = || (0..ragged.total_tokens() as u32).collect::<Vec<u32>>();
        let sequences = || -> Vec<QuerySpan> {
            let ends = cu_seqlens.windows(2);
            ends.map(|ends| QuerySpan { row: ends[0], len: ends[1] - ends[0], depth: 0, path: ends[0] }).collect()
        };
        let Some(plan) = &batch.plan else {
            let (input_ids, position_ids) = (ragged.input_ids(), ragged.position_ids());
            return Self { input_ids, position_ids, table: identity(), spans: sequences(), expansion: None };
        };
        let (table, spans, expansion) = match mode {
            AttentionMode::Ragged => (identity(), sequences(), Some((plan.scatter(), plan.gather()))),
            AttentionMode::Compact => {
                let span = |s: &prefold_core::Segment| QuerySpan {
                    row: s.start,
                    len: s.len,
                    depth: s.depth,
                    path: cu_seqlens[s.sequence as usize],
                };
                (plan.scatter().to_vec(), plan.segments().iter().map(span).collect(), None)
            }
        };
        Self { input_ids: plan.input_ids(), position_ids: plan.position_ids(), table, spans, expansion }
    }
}

/// The way from sequences to rows.
#[derive(Debug)]
struct Paths {
    /// Ragged row -> compute row; `None` where they are the same.
    row_of: Option<Vec<u32>>,
    cu_seqlens: Vec<u32>,
}

impl Paths {
    fn row(&self, ragged_row: u32) -> u32 {
        self.row_of.as_ref().map_or(ragged_row, |row_of| row_of[ragged_row as usize])
    }

    fn num_sequences(&self) -> usize {
        self.cu_seqlens.len() - 1
    }

    /// The single row of each sequence, by compute row, unless some sequence needs them all.
    fn wanted_spans(&self, batch: &Batch, pooling: Pooling, rows: usize) -> Option<Vec<QuerySpan>> {
        if pooling == Pooling::Mean || batch.wanted.contains(&Wanted::Tokens) {
            return None;
        }
        let span_of = |b: usize| {
            let (path, end) = (self.cu_seqlens[b], self.cu_seqlens[b + 1]);
            let depth = if pooling == Pooling::Cls { 0 } else { end - path - 1 };
            QuerySpan { row: self.row(path + depth), len: 1, depth, path }
        };
        let mut spans: Vec<QuerySpan> = (0..self.num_sequences()).map(span_of).collect();
        spans.sort_unstable_by_key(|span| span.row);
        spans.dedup_by_key(|span| span.row);
        (spans.len() < rows).then_some(spans)
    }
}

impl Geometry {
    /// B.
    pub(crate) fn num_sequences(&self) -> usize {
        self.paths.num_sequences()
    }

    /// For each position of sequence `b`, the row of the final states that holds it, if it was wanted.
    pub(crate) fn output_rows(&self, b: usize) -> impl DoubleEndedIterator<Item = Option<usize>> + '_ {
        (self.paths.cu_seqlens[b]..self.paths.cu_seqlens[b + 1]).map(|ragged_row| {
            let row = self.paths.row(ragged_row);
            match &self.wanted {
                Some(wanted) => wanted.rows.binary_search(&row).ok(),
                None => Some(row as usize),
            }
        })
    }
}
