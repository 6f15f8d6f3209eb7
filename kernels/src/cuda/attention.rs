//! Launchers of `cuda/attention.cu` and `cuda/attention_plain.cu`.

use super::error::CudaError;
use super::flash::{Flash, Terms};
use super::launch::{Kernels, Launch, address, address_mut};
use super::names::{names, plain_shared_bytes};
use super::positions::RelativePositions;
use crate::attention::{Mask, QkvLayout, QuerySpan, QueryTile, RelativeBias, check_layout, check_spans, query_tiles};
use crate::element::Element;
use crate::error::{KernelError, check_len};
use cudarc::driver::{CudaView, CudaViewMut, DeviceRepr};

/// Threads of a block of either kernel.
const THREADS: u32 = 128;

/// Queries of a small tile, which every kernel has; the kernel without tensor cores takes tiles of any size.
const FEW_QUERIES: usize = 64;

/// Words of `struct Span` of `cuda/attention.cuh`.
const SPAN_WORDS: usize = 5;

/// No limit on positions; small enough that a position can be added without overflow.
const UNLIMITED: u32 = 1 << 30;

/// Neighbouring columns of a row-major matrix on the device.
#[derive(Debug)]
pub struct Columns<'a, T> {
    /// The matrix from the view's first value on.
    pub data: CudaView<'a, T>,
    /// Values from one row to the next.
    pub row_stride: usize,
}

impl<T> Columns<'_, T> {
    /// The number of rows of `width` columns from column `offset` of the view on.
    fn rows(&self, offset: usize, width: usize) -> usize {
        let end = offset + width;
        if end > self.row_stride || self.data.len() < end { 0 } else { (self.data.len() - end) / self.row_stride + 1 }
    }
}

/// The queries of a batch and their page table, prepared and checked on the host.
#[derive(Debug, Clone)]
pub struct AttentionPlan {
    /// [`crate::Attention::pages`], then the spans as `[row, len, depth, path, path_len]`, then the tiles as `[span, index]`.
    words: Vec<u32>,
    shape: PlanShape,
}

#[derive(Debug, Clone, Copy)]
struct PlanShape {
    pages: usize,
    spans: usize,
    tiles: usize,
    queries_per_tile: usize,
    group: usize,
    /// True if queries also see later keys (full mask).
    full: bool,
    /// Positions of the longest path, counted as far as queries see it.
    longest: usize,
    /// One more than the last query row, and one more than the largest page.
    q_rows: usize,
    kv_rows: usize,
}

/// Queries of a tile: the maximum of the kernel for these heads, or fewer where short spans would leave rows of a tile idle.
///
/// `wide_tiles`: keys and values are bf16 or f16, and there are no relative position embeddings.
pub fn plan_queries_per_tile(layout: QkvLayout, wide_tiles: bool, spans: &[QuerySpan]) -> usize {
    let queries: usize = spans.iter().map(|span| span.len as usize * layout.group()).sum();
    let most = Flash::most_queries(layout.head_dim).filter(|_| wide_tiles && queries > FEW_QUERIES * spans.len());
    most.unwrap_or(FEW_QUERIES)
}

impl AttentionPlan {
    /// Checks spans and pages, and lists the tiles; `wide_tiles` as in [`plan_queries_per_tile`].
    ///
    /// # Errors
    /// A span's path is not within `pages`, the spans are not in ascending order, or the mask does not match the spans.
    pub fn new(
        layout: QkvLayout,
        wide_tiles: bool,
        pages: &[u32],
        spans: &[QuerySpan],
        mask: Mask<'_>,
    ) -> Result<Self, KernelError> {
        check_layout(layout)?;
        check_spans(spans, usize::MAX - 1, pages.len())?;
        mask.check(spans, pages.len())?;
        check_queries(layout.group(), spans)?;
        let queries_per_tile = plan_queries_per_tile(layout, wide_tiles, spans);
        let tiles = query_tiles(spans, mask, layout.group(), queries_per_tile);
        let path_lens = || spans.iter().enumerate().map(|(index, span)| mask.path_len(index, span));
        let mut words = Vec::with_capacity(pages.len() + SPAN_WORDS * spans.len() + 2 * tiles.len());
        words.extend_from_slice(pages);
        let span_words = |(span, len): (&QuerySpan, usize)| [span.row, span.len, span.depth, span.path, len as u32];
        words.extend(spans.iter().zip(path_lens()).flat_map(span_words));
        words.extend(tiles.iter().flat_map(|tile: &QueryTile| [tile.span, tile.index]));
        let shape = PlanShape {
            pages: pages.len(),
            spans: spans.len(),
            tiles: tiles.len(),
            queries_per_tile,
            group: layout.group(),
            full: matches!(mask, Mask::Full { .. }),
            longest: path_lens().max().unwrap_or(0),
            q_rows: spans.last().map_or(0, |span| span.row as usize + span.len as usize),
            kv_rows: pages.iter().max().map_or(0, |&page| page as usize + 1),
        };
        Ok(Self { words, shape })
    }

    /// The words to copy to device memory.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The plan with its words in device memory.
    ///
    /// # Errors
    /// Their number differs from the length of [`words`](Self::words).
    pub fn on_device<'a>(&self, words: CudaView<'a, u32>) -> Result<DevicePlan<'a>, KernelError> {
        check_len("words of an attention plan", self.words.len(), words.len())?;
        Ok(DevicePlan { words, shape: self.shape })
    }
}

/// An [`AttentionPlan`] whose words are in device memory.
#[derive(Debug)]
pub struct DevicePlan<'a> {
    words: CudaView<'a, u32>,
    shape: PlanShape,
}

/// Attention by path position, as [`crate::Attention`]; the plan contains the mask.
#[derive(Debug)]
pub struct Attention<'a, T> {
    /// Queries, `[rows, num_heads * head_dim]`.
    pub q: Columns<'a, T>,
    /// Keys and then values, `[kv_rows, 2 * num_kv_heads * head_dim]`.
    pub kv: Columns<'a, T>,
    /// The queries and the page table.
    pub plan: DevicePlan<'a>,
    /// Heads.
    pub layout: QkvLayout,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Sliding window: a query sees keys less than this many positions away; `None` for no limit.
    pub window: Option<usize>,
    /// Added to the scaled scores. Requires as many key/value heads as query heads.
    pub bias: Option<ScoreBias<'a>>,
    /// Relative position embeddings, against which queries and keys are scored too. Requires as many key/value heads as query heads.
    pub positions: Option<RelativePositions<'a, T>>,
}

/// Relative position biases on the device.
#[derive(Debug)]
pub struct ScoreBias<'a> {
    /// The biases on the host.
    pub bias: &'a RelativeBias,
    /// A copy of [`RelativeBias::values`] in device memory.
    pub values: CudaView<'a, f32>,
}

/// `struct Attention` of `cuda/attention.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Argument {
    q: u64,
    k: u64,
    v: u64,
    out: u64,
    pages: u64,
    spans: u64,
    tiles: u64,
    q_stride: u32,
    kv_stride: u32,
    out_stride: u32,
    num_kv_heads: u32,
    group: u32,
    head_dim: u32,
    group_inverse: u32,
    window: u32,
    ahead: u32,
    scale_log2: f32,
    bias_scale: f32,
    bias: u64,
    bias_stride: u32,
    bias_origin: u32,
    position_keys: u64,
    position_queries: u64,
    distance_rows: u64,
    distance_origin: u32,
    tile_queries: u32,
}

// SAFETY: plain numbers in the layout of the C structure: seven pointers, eleven words and padding, a pointer and two words, three
// pointers and two words.
unsafe impl DeviceRepr for Argument {}

impl<T: Element> Attention<'_, T> {
    /// Writes the rows of the plan's queries in `out`, `[rows, num_heads * head_dim]`.
    ///
    /// # Errors
    /// A row or a page is outside of its matrix, or the plan was made for another ratio of query heads to key/value heads.
    pub fn run(&self, kernels: &Kernels, out: &mut CudaViewMut<'_, T>) -> Result<(), CudaError> {
        self.check(out.len())?;
        let QkvLayout { num_kv_heads, head_dim, .. } = self.layout;
        let shape = self.plan.shape;
        let element = size_of::<T>() as u64;
        let (q, k) = (address(kernels, &self.q.data), address(kernels, &self.kv.data));
        let v = k + self.layout.kv_width() as u64 * element;
        let out = address_mut(kernels, out);
        let pages = address(kernels, &self.plan.words);
        let spans = pages + 4 * shape.pages as u64;
        // A window at least as long as every path has no effect.
        let window = self.window.and_then(|window| u32::try_from(window).ok()).filter(|&window| window < UNLIMITED);
        let (bias_stride, bias_origin) = self.bias.as_ref().map_or((0, 0), |bias| bias.bias.geometry());
        let table = |table: &Option<CudaView<'_, T>>| table.as_ref().map_or(0, |table| address(kernels, table));
        let positions = self.positions.as_ref();
        let argument = Argument {
            q,
            k,
            v,
            out,
            pages,
            spans,
            tiles: spans + (4 * SPAN_WORDS * shape.spans) as u64,
            q_stride: self.q.row_stride as u32,
            kv_stride: self.kv.row_stride as u32,
            out_stride: self.layout.q_width() as u32,
            num_kv_heads: num_kv_heads as u32,
            group: self.layout.group() as u32,
            head_dim: head_dim as u32,
            group_inverse: group_inverse(self.layout.group()),
            window: window.unwrap_or(0),
            ahead: if shape.full { window.map_or(UNLIMITED, |window| window - 1) } else { 0 },
            scale_log2: self.scale * std::f32::consts::LOG2_E,
            bias_scale: 1.0 / self.scale,
            bias: self.bias.as_ref().map_or(0, |bias| address(kernels, &bias.values)),
            bias_stride: bias_stride as u32,
            bias_origin: bias_origin as u32,
            position_keys: positions.map_or(0, |positions| table(&positions.keys)),
            position_queries: positions.map_or(0, |positions| table(&positions.queries)),
            distance_rows: positions.map_or(0, |positions| address(kernels, &positions.values)),
            distance_origin: positions.map_or(0, |positions| positions.rows.origin() as u32),
            tile_queries: shape.queries_per_tile as u32,
        };
        let strides = (self.q.row_stride | self.kv.row_stride) as u64 * element;
        let tables = argument.position_keys | argument.position_queries;
        let aligned = (q | k | v | out | strides | tables).is_multiple_of(16);
        let (name, shared_bytes) = self.kernel(aligned)?;
        let launch = Launch { name, blocks: shape.tiles * num_kv_heads, threads: THREADS, shared_bytes };
        kernels.launch_with(launch, &argument)
    }

    /// The kernel for this layout and the shared memory it needs: on tensor cores where there is one for the head size, else the plain kernel.
    fn kernel(&self, aligned: bool) -> Result<(&'static str, usize), KernelError> {
        let (head_dim, queries) = (self.layout.head_dim, self.plan.shape.queries_per_tile);
        // Wide tiles would silently cost these models the tensor cores.
        if self.positions.is_some() && queries != FEW_QUERIES {
            let expected = "64 with relative position embeddings";
            return Err(KernelError::Value { argument: "queries per tile", found: queries, expected });
        }
        let terms = match (&self.bias, &self.positions) {
            (None, None) => Some(Terms::None),
            (Some(_), None) => Some(Terms::Bias),
            (None, Some(_)) => Some(Terms::Positions),
            (Some(_), Some(_)) => None,
        };
        let flash = terms.filter(|_| aligned).and_then(|terms| Flash::find::<T>(terms, head_dim, queries));
        let plain = (names::<T>().plain_attention, plain_shared_bytes(head_dim));
        Ok(flash.map_or(plain, |kernel| (kernel.name, kernel.shared_bytes())))
    }

    fn check(&self, out_len: usize) -> Result<(), KernelError> {
        let layout = self.layout;
        check_layout(layout)?;
        if self.window == Some(0) {
            return Err(KernelError::Value { argument: "window", found: 0, expected: "positive" });
        }
        let shape = self.plan.shape;
        if shape.group != layout.group() {
            let expected = "the plan's";
            return Err(KernelError::Value { argument: "query heads of a group", found: layout.group(), expected });
        }
        let q_rows = self.q.rows(0, layout.q_width()).min(out_len / layout.q_width());
        if shape.q_rows > q_rows {
            return Err(KernelError::Index { argument: "end of a span", found: shape.q_rows, limit: q_rows + 1 });
        }
        let kv_rows = self.kv.rows(0, 2 * layout.kv_width());
        if shape.kv_rows > kv_rows {
            return Err(KernelError::Index { argument: "page", found: shape.kv_rows - 1, limit: kv_rows });
        }
        if let Some(ScoreBias { bias, values }) = &self.bias {
            bias.check(layout, shape.longest)?;
            check_len("relative bias on the device", bias.values().len(), values.len())?;
        }
        if let Some(positions) = &self.positions {
            positions.check(layout, shape.longest)?;
        }
        // A block that needs more shared memory than this must request it.
        let limit = 48 << 10;
        let needed = plain_shared_bytes(layout.head_dim);
        if needed > limit {
            return Err(KernelError::Index { argument: "head_dim", found: layout.head_dim, limit: limit / 32 + 1 });
        }
        Ok(())
    }
}

/// Reciprocal that replaces the division of a query's number by the group size: `group_inverse` of
/// `cuda/attention.cuh`.
fn group_inverse(group: usize) -> u32 {
    // 0 for a group of 1: 2^32 does not fit.
    u32::try_from((1_u64 << 32).div_ceil(group as u64)).unwrap_or(0)
}

/// Checks that division by [`group_inverse`] is exact for all queries: their numbers times the group size must fit in 32 bits.
fn check_queries(group: usize, spans: &[QuerySpan]) -> Result<(), KernelError> {
    let len = spans.iter().map(|span| span.len as usize).max().unwrap_or(0);
    let limit = (1 << 32) / (group * group) + 1;
    if len >= limit { Err(KernelError::Index { argument: "queries of a span", found: len, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: QkvLayout = QkvLayout { num_heads: 16, num_kv_heads: 8, head_dim: 128 };

    #[test]
    fn short_spans_get_small_tiles() {
        let span = |row, len| QuerySpan { row, len, depth: 0, path: 0 };
        assert_eq!(plan_queries_per_tile(LAYOUT, true, &[span(0, 1), span(1, 1)]), 64);
        assert_eq!(plan_queries_per_tile(LAYOUT, true, &[span(0, 200), span(200, 1)]), 128);
        assert_eq!(plan_queries_per_tile(LAYOUT, false, &[span(0, 200)]), 64);
        for (head_dim, queries) in [(32, 128), (64, 128), (80, 64), (96, 64), (256, 64), (20, 64)] {
            assert_eq!(plan_queries_per_tile(QkvLayout { head_dim, ..LAYOUT }, true, &[span(0, 200)]), queries);
        }
    }

    #[test]
    fn a_plan_s_words_are_pages_then_spans_then_tiles() {
        let spans = [QuerySpan { row: 0, len: 2, depth: 0, path: 0 }, QuerySpan { row: 2, len: 1, depth: 2, path: 0 }];
        let plan = AttentionPlan::new(LAYOUT, true, &[0, 1, 2], &spans, Mask::Causal).unwrap();
        assert_eq!(plan.words(), [0, 1, 2, 0, 2, 0, 0, 2, 2, 1, 2, 0, 3, 1, 0, 0, 0]);
        assert_eq!((plan.shape.q_rows, plan.shape.kv_rows, plan.shape.tiles), (3, 3, 2));
        let plan = |spans: &[QuerySpan], mask| AttentionPlan::new(LAYOUT, true, &[0, 1, 2], spans, mask);
        let outside = [QuerySpan { row: 0, len: 4, depth: 0, path: 0 }];
        assert!(matches!(plan(&outside, Mask::Causal), Err(KernelError::Index { .. })));
        let crossed = [spans[1], spans[0]];
        assert!(matches!(plan(&crossed, Mask::Causal), Err(KernelError::Value { .. })));

        let full = plan(&spans, Mask::Full { path_lens: &[3, 3] }).unwrap();
        assert_eq!(full.words()[3..13], [0, 2, 0, 0, 3, 2, 1, 2, 0, 3], "every span has its whole path");
        assert!(full.shape.full && full.shape.longest == 3);
        assert!(matches!(plan(&spans, Mask::Full { path_lens: &[3, 4] }), Err(KernelError::Index { .. })));
        assert!(matches!(plan(&spans, Mask::Full { path_lens: &[3] }), Err(KernelError::Length { .. })));
    }

    #[test]
    fn a_product_with_the_inverse_divides() {
        for group in 1..=64_usize {
            let inverse = u64::from(group_inverse(group));
            let most = (1_u64 << 32) / group as u64 - 1;
            let numbers = (0..1000).chain(most - 1000..=most).chain((1..1000).map(|i| most / 1000 * i));
            for query in numbers {
                let quotient = if inverse == 0 { query } else { (query * inverse) >> 32 };
                assert_eq!(quotient, query / group as u64, "{query} / {group}");
            }
        }
        let span = |len| QuerySpan { row: 0, len, depth: 0, path: 0 };
        assert!(check_queries(8, &[span(1 << 26)]).is_ok() && check_queries(8, &[span((1 << 26) + 1)]).is_err());
    }

    #[test]
    fn the_argument_has_the_layout_of_the_c_structure() {
        assert_eq!(size_of::<Argument>(), 7 * 8 + 11 * 4 + 4 + 8 + 2 * 4 + 3 * 8 + 2 * 4);
        assert_eq!(std::mem::offset_of!(Argument, q_stride), 56);
        assert_eq!(std::mem::offset_of!(Argument, bias), 104);
        assert_eq!(std::mem::offset_of!(Argument, position_keys), 120);
    }
}
