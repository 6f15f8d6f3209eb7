//! Layout of a batch: the rows that a forward pass computes, and the path of each row.
//!
//! *Compute space* is compact space if a batch has a plan, and ragged space if it has none. The two attention modes differ
//! only in what this module prepares:
//!
//! | | queries | keys and values |
//! | --- | --- | --- |
//! | no plan | a span for each sequence | ragged rows, page table 0, 1, 2, ... |
//! | `ragged` | Q scattered to ragged rows, a span for each sequence, output gathered back | K, V scattered to ragged rows, page table 0, 1, 2, ... |
//! | `compact` | a span for each segment | compact rows, page table `scatter` |

use super::adapted::{RowAdapters, Rows, runs};
use super::pooling;
use super::taps::Taps;
use super::task_adapters::TaskAdapters;
use crate::config::{ConvolutionConfig, LearnedPositions, MaskConfig};
use crate::ops::{IndexPack, Indices, Pages, Pool, Slot, Target, Uploader};
use crate::options::AttentionMode;
use candle_core::{Result, Tensor};
use prefold_core::{Batch, Outputs, Pooling, RadixPlan, RaggedBatch};
use prefold_kernels::{QkvLayout, QuerySpan};
use std::borrow::Cow;
use std::ops::Range;

/// Indices of one forward pass, on the device that computes it.
#[derive(Debug)]
pub(super) struct Layout {
    /// `[rows]`, `u32`
    pub(super) input_ids: Tensor,
    /// `[rows]`, `u32`: positions, or rows of the table of learned positions.
    pub(super) position_ids: Tensor,
    /// `[rows]`, `u32`: rows of the token type embeddings, in models that have them.
    pub(super) token_type_ids: Option<Tensor>,
    /// Present if the model has LoRA adapters and the batch uses some.
    adapters: Option<RowAdapters>,
    pub(super) pages: Pages,
    /// `[rows, taps]`, `u32`: the neighbours of each row, in models with short convolutions.
    pub(super) taps: Option<Tensor>,
    /// Present if attention runs in ragged space over a compacted batch.
    pub(super) expansion: Option<Expansion>,
    /// The rows whose final state is needed; `None` for all rows.
    pub(super) outputs: Option<OutputRows>,
    /// The final states that are pooled, by sequence.
    pub(super) pool: Pool,
    rows: RowMap,
}

/// Indices from compact to ragged space and back.
#[derive(Debug)]
pub(super) struct Expansion {
    /// `ragged[i] = compact[scatter[i]]`, `[total_tokens]`
    pub(super) scatter: Tensor,
    /// `compact[j] = ragged[gather[j]]`, `[rows]`
    pub(super) gather: Tensor,
}

/// A subset of the computed rows, in ascending order.
#[derive(Debug)]
pub(super) struct OutputRows {
    /// `[outputs]`
    pub(super) index: Tensor,
    /// `[outputs]`
    pub(super) position_ids: Tensor,
    /// A span of one query for each output row.
    pub(super) pages: Pages,
    /// `[outputs, taps]`
    pub(super) taps: Option<Tensor>,
    adapters: Option<RowAdapters>,
}

impl OutputRows {
    /// The rows with their adapters.
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows { adapters: self.adapters.as_ref(), first: 0 }
    }
}

/// Builds the layouts of a model's batches.
#[derive(Debug)]
pub(super) struct LayoutBuilder {
    pub(super) mode: AttentionMode,
    pub(super) pooling: Vec<Pooling>,
    pub(super) mask: MaskConfig,
    /// The table of learned positions, in models that have one.
    pub(super) positions: Option<LearnedPositions>,
    /// Number of token types of the model.
    pub(super) token_types: usize,
    /// The adapters of a model that has some. In other models only the head uses a sequence's task.
    pub(super) adapters: Option<TaskAdapters>,
    /// A token whose states are not pooled.
    pub(super) unpooled: Option<u32>,
    /// A token that does not count at the end of a sequence when its last state is pooled.
    pub(super) padding: Option<u32>,
    pub(super) qkv: QkvLayout,
    /// The short convolutions of the model.
    pub(super) convolutions: Option<ConvolutionConfig>,
    /// The model has relative position embeddings.
    pub(super) has_distances: bool,
    pub(super) target: Target,
    pub(super) uploader: Uploader,
}

impl LayoutBuilder {
    /// A builder of the same layouts that uploads on `target`'s stream.
    ///
    /// # Errors
    /// The device has no memory.
    pub(super) fn replica(&self, target: &Target) -> Result<Self> {
        let uploader = Uploader::new(target)?;
        let (pooling, adapters) = (self.pooling.clone(), self.adapters.clone());
        Ok(Self { pooling, adapters, target: target.clone(), uploader, ..*self })
    }

    /// Lays a batch out and copies all its indices to the device at once.
    ///
    /// # Errors
    /// The device has no memory.
    pub(super) fn build(&mut self, batch: &Batch, plan: Option<&RadixPlan>) -> Result<Layout> {
        let queries = Queries::new(&batch.ragged, plan, self.mode);
        let position_ids = self.position_ids(&batch.ragged, queries.position_ids);
        let words = self.adapters.as_ref().map_or(0, |adapters| adapters.vocab_size);
        let adapters =
            self.adapters.as_ref().and_then(|adapters| adapters.of_rows(&batch.ragged, plan, queries.input_ids.len()));
        let token_type_ids = (self.token_types > 0).then(|| {
            let mut ids = token_types(&batch.ragged, plan, queries.input_ids.len());
            let tables = adapters.iter().flatten().map(|&adapter| u32::from(adapter) * self.token_types as u32);
            ids.iter_mut().zip(tables).for_each(|(id, table)| *id += table);
            ids
        });
        let path_lens = |spans: &[QuerySpan]| match self.mask {
            MaskConfig::Causal => None,
            MaskConfig::Full => Some(path_lens(batch.ragged.cu_seqlens(), spans)),
        };
        let rows = RowMap::new(&batch.ragged, plan, self.padding);
        let output_spans = rows.output_spans(batch, &self.pooling, queries.input_ids.len());
        let output_rows = output_spans.as_ref().map(|spans| spans.iter().map(|span| span.row).collect::<Vec<u32>>());

        let mut pack = IndexPack::default();
        let input_ids = pack.push(queries.input_ids);
        let token_type_ids = token_type_ids.map(|ids| pack.push(&ids));
        let of_outputs = adapters.as_ref().zip(output_rows.as_ref()).map(|(adapters, rows)| {
            let row = |&row: &u32| (adapters[row as usize], queries.input_ids[row as usize]);
            PackedAdapters::new(rows.iter().map(row), words, &mut pack)
        });
        let of_rows = adapters.as_ref().map(|adapters| {
            let rows = adapters.iter().copied().zip(queries.input_ids.iter().copied());
            PackedAdapters::new(rows, words, &mut pack)
        });
        let taps = self.convolutions.map(|config| {
            let taps = Taps::new(&batch.ragged, plan, queries.input_ids.len(), config.offsets(self.mask));
            taps.pack(output_rows.as_deref(), &mut pack)
        });
        let expansion = queries.expansion.map(|(scatter, gather)| (pack.push(scatter), pack.push(gather)));
        let outputs = output_rows.as_ref().map(|rows| {
            let positions: Vec<u32> = rows.iter().map(|&row| position_ids[row as usize]).collect();
            (pack.push(rows), pack.push(&positions))
        });
        let mut output_pages = output_spans.map(|mut spans| {
            spans.iter_mut().zip(0..).for_each(|(span, row)| span.row = row);
            let path_lens = path_lens(&spans);
            Pages::new(queries.table.clone(), spans, path_lens)
        });
        let path_lens = path_lens(&queries.spans);
        let position_ids = pack.push(&position_ids);
        let mut pages = Pages::new(queries.table, queries.spans, path_lens);
        let is_pooled = |row: u32| {
            self.unpooled.is_none_or(|token| batch.ragged.input_ids().get(row as usize).is_none_or(|&id| id != token))
        };
        let mut pool = rows.pool(&batch.wanted, &self.pooling, output_rows.as_deref(), is_pooled);
        pages.pack(&self.target, (self.qkv, self.has_distances), &mut pack)?;
        if let Some(pages) = &mut output_pages {
            pages.pack(&self.target, (self.qkv, self.has_distances), &mut pack)?;
        }
        pool.pack(&mut pack);

        let indices = self.uploader.upload(pack)?;
        pages.resolve(&indices)?;
        pool.resolve(&indices)?;
        let outputs = match (outputs, output_pages) {
            (Some((index, position_ids)), Some(mut pages)) => {
                pages.resolve(&indices)?;
                let (index, position_ids) = (indices.get(&index)?, indices.get(&position_ids)?);
                let adapters = of_outputs.map(|packed| packed.resolve(&indices)).transpose()?;
                let taps = taps.as_ref().and_then(|taps| taps.of_outputs(&indices)).transpose()?;
                Some(OutputRows { index, position_ids, pages, taps, adapters })
            }
            _ => None,
        };
        let expansion = expansion.map(|(scatter, gather)| -> Result<Expansion> {
            Ok(Expansion { scatter: indices.get(&scatter)?, gather: indices.get(&gather)? })
        });
        Ok(Layout {
            input_ids: indices.get(&input_ids)?,
            position_ids: indices.get(&position_ids)?,
            token_type_ids: token_type_ids.map(|ids| indices.get(&ids)).transpose()?,
            adapters: of_rows.map(|packed| packed.resolve(&indices)).transpose()?,
            pages,
            taps: taps.map(|taps| taps.of_rows(&indices)).transpose()?,
            expansion: expansion.transpose()?,
            outputs,
            pool,
            rows,
        })
    }
}

impl LayoutBuilder {
    /// The positions of the rows, or their rows in the table of learned positions (such models have no plan).
    fn position_ids<'a>(&self, ragged: &RaggedBatch, position_ids: &'a [u32]) -> Cow<'a, [u32]> {
        let Some(positions) = self.positions else { return Cow::Borrowed(position_ids) };
        let mut rows = Vec::with_capacity(ragged.total_tokens());
        for ends in ragged.cu_seqlens().windows(2) {
            positions.push_rows(&ragged.input_ids()[ends[0] as usize..ends[1] as usize], &mut rows);
        }
        Cow::Owned(rows)
    }
}

/// The token type of each row.
fn token_types(ragged: &RaggedBatch, plan: Option<&RadixPlan>, rows: usize) -> Vec<u32> {
    let given = plan.map_or(ragged.token_type_ids(), RadixPlan::token_type_ids);
    given.map_or_else(|| vec![0; rows], <[u32]>::to_vec)
}

/// The adapters of some rows, packed for the upload to the device.
struct PackedAdapters {
    own: Slot,
    words: Slot,
    runs: Vec<Range<usize>>,
}

impl PackedAdapters {
    /// Packs the adapter and the token id of each row.
    fn new(rows: impl Iterator<Item = (u8, u32)> + Clone, vocab_size: usize, pack: &mut IndexPack) -> Self {
        let own: Vec<u32> = rows.clone().map(|(adapter, _)| u32::from(adapter.saturating_sub(1))).collect();
        let words: Vec<u32> =
            own.iter().zip(rows.clone()).map(|(own, (_, word))| own * vocab_size as u32 + word).collect();
        Self { own: pack.push(&own), words: pack.push(&words), runs: runs(rows.map(|(adapter, _)| adapter > 0)) }
    }

    fn resolve(self, indices: &Indices) -> Result<RowAdapters> {
        Ok(RowAdapters { own: indices.get(&self.own)?, words: indices.get(&self.words)?, runs: self.runs })
    }
}

/// The length of the sequence of each span.
fn path_lens(cu_seqlens: &[u32], spans: &[QuerySpan]) -> Vec<u32> {
    let len = |span: &QuerySpan| {
        let sequence = cu_seqlens.partition_point(|&start| start <= span.path);
        cu_seqlens.get(sequence).map_or(0, |end| end - span.path)
    };
    spans.iter().map(len).collect()
}

/// Rows, query spans and page table of an attention mode.
struct Queries<'a> {
    input_ids: &'a [u32],
    position_ids: &'a [u32],
    table: Vec<u32>,
    spans: Vec<QuerySpan>,
    /// Scatter and gather.
    expansion: Option<(&'a [u32], &'a [u32])>,
}

impl<'a> Queries<'a> {
    fn new(ragged: &'a RaggedBatch, plan: Option<&'a RadixPlan>, mode: AttentionMode) -> Self {
        let cu_seqlens = ragged.cu_seqlens();
        let identity = || (0..ragged.total_tokens() as u32).collect::<Vec<u32>>();
        let sequences = || -> Vec<QuerySpan> {
            let ends = cu_seqlens.windows(2);
            ends.map(|ends| QuerySpan { row: ends[0], len: ends[1] - ends[0], depth: 0, path: ends[0] }).collect()
        };
        let Some(plan) = plan else {
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

/// Map from the sequences' tokens to computed rows.
#[derive(Debug)]
struct RowMap {
    /// Ragged row to computed row; `None` if they are the same.
    row_of: Option<Vec<u32>>,
    cu_seqlens: Vec<u32>,
    /// Tokens of each sequence up to the last one that counts; at least one.
    lens: Vec<u32>,
}

impl RowMap {
    fn new(ragged: &RaggedBatch, plan: Option<&RadixPlan>, padding: Option<u32>) -> Self {
        let row_of = plan.map(|plan| plan.scatter().to_vec());
        let cu_seqlens = ragged.cu_seqlens().to_vec();
        let len = |ends: &[u32]| {
            let ids = &ragged.input_ids()[ends[0] as usize..ends[1] as usize];
            let counts = |id: &u32| Some(*id) != padding;
            // Of nothing but padding the first state is pooled.
            ids.iter().rposition(counts).map_or(1, |last| last as u32 + 1)
        };
        let lens = cu_seqlens.windows(2).map(len).collect();
        Self { row_of, cu_seqlens, lens }
    }

    fn row(&self, ragged_row: u32) -> u32 {
        self.row_of.as_ref().map_or(ragged_row, |row_of| row_of[ragged_row as usize])
    }

    /// First ragged row of each sequence, and its tokens up to the last one that counts.
    fn sequences(&self) -> impl Iterator<Item = (u32, u32)> {
        self.cu_seqlens.iter().copied().zip(self.lens.iter().copied())
    }

    /// The pooled rows of the sequences, in the order of rows; `None` if all rows are needed.
    fn output_spans(&self, batch: &Batch, pooling: &[Pooling], rows: usize) -> Option<Vec<QuerySpan>> {
        if !pooling.iter().copied().all(pooling::is_single) || batch.needs_all_tokens() {
            return None;
        }
        let spans = self.sequences().zip(&batch.wanted).flat_map(|((path, len), wanted)| {
            pooling.iter().map(move |&mode| {
                let depth = pooling::positions(mode, len, wanted.skipped()).start;
                QuerySpan { row: self.row(path + depth), len: 1, depth, path }
            })
        });
        let mut spans: Vec<QuerySpan> = spans.collect();
        spans.sort_unstable_by_key(|span| span.row);
        spans.dedup_by_key(|span| span.row);
        (spans.len() < rows).then_some(spans)
    }

    /// The pooled states of each sequence, as rows of the final states. `outputs` are the rows with a final state; `is_pooled` tells
    /// whether a ragged row is pooled.
    fn pool(
        &self,
        wanted: &[Outputs],
        pooling: &[Pooling],
        outputs: Option<&[u32]>,
        is_pooled: impl Fn(u32) -> bool,
    ) -> Pool {
        let state = |row: u32| match outputs {
            // `Pool` refuses a missing row.
            Some(outputs) => outputs.binary_search(&row).map_or(u32::MAX, |index| index as u32),
            None => row,
        };
        let mut pool = Pool::new(pooling.iter().copied().map(pooling::kind).collect());
        for ((start, len), wanted) in self.sequences().zip(wanted) {
            for &mode in pooling {
                let rows = pooling::positions(mode, len, wanted.skipped()).map(|position| start + position);
                pool.push(rows.filter(|&row| is_pooled(row)).map(|row| state(self.row(row))));
            }
        }
        pool
    }
}

impl Layout {
    /// The computed rows with their adapters.
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows { adapters: self.adapters.as_ref(), first: 0 }
    }

    /// The adapters of the computed rows.
    pub(super) fn adapters(&self) -> Option<&RowAdapters> {
        self.adapters.as_ref()
    }

    /// The part of the layout that answers need, on the host.
    pub(super) fn into_answers(self) -> AnswerRows {
        AnswerRows { rows: self.rows, pool: self.pool.on_host() }
    }
}

/// Rows of the states that answers are made of.
#[derive(Debug)]
pub(super) struct AnswerRows {
    rows: RowMap,
    /// Rows of the pooled states of each sequence.
    pub(super) pool: Pool,
}

impl AnswerRows {
    /// The computed row of each token of sequence `b`.
    pub(super) fn sequence_rows(&self, b: usize) -> impl ExactSizeIterator<Item = usize> {
        (self.rows.cu_seqlens[b]..self.rows.cu_seqlens[b + 1]).map(|ragged_row| self.rows.row(ragged_row) as usize)
    }
}
