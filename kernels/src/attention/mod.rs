//! Causal attention over paths of a radix tree.

mod check;
mod keys;
mod register_block;
mod tile;
mod tiles;

#[cfg(feature = "cuda")]
pub(crate) use check::{check_layout, check_spans};
pub use tiles::{QueryTile, query_tiles};

use crate::KernelError;
use crate::element::{Activation, ElementsMut};
use crate::isa::Isa;
use crate::scratch::{Shared, with_words};
use crate::simd::{self, Operation, Simd};
use crate::team;
use std::cell::Cell;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The heads of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QkvLayout {
    /// Query heads.
    pub num_heads: usize,
    /// Key/value heads; a divisor of `num_heads`. Query head `h` reads key/value head `h / (num_heads / num_kv_heads)`.
    pub num_kv_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
}

impl QkvLayout {
    /// Values of all query heads of a row.
    pub fn q_width(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Values of all key heads of a row, and of all value heads.
    pub fn kv_width(&self) -> usize {
        self.num_kv_heads * self.head_dim
    }

    /// Values of a fused `[q heads | k heads | v heads]` row.
    pub fn qkv_width(&self) -> usize {
        self.q_width() + 2 * self.kv_width()
    }

    /// Query heads that share a key/value head.
    pub fn group(&self) -> usize {
        self.num_heads / self.num_kv_heads
    }
}

/// Some neighbouring columns of a row-major matrix.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    /// The matrix.
    pub data: &'a [f32],
    /// Values from one row to the next.
    pub row_stride: usize,
    /// First column of the view.
    pub offset: usize,
}

impl<'a> RowView<'a> {
    /// `len` values of a row from a column of the view on.
    #[inline(always)]
    fn values(&self, row: usize, column: usize, len: usize) -> &'a [f32] {
        &self.data[row * self.row_stride + self.offset + column..][..len]
    }
}

/// Queries at neighbouring positions of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuerySpan {
    /// First row in `q` and in `out`.
    pub row: u32,
    /// Queries.
    pub len: u32,
    /// Path position of the first query.
    pub depth: u32,
    /// Where the path's position 0 is in [`Attention::pages`].
    pub path: u32,
}

/// Causal attention by path position.
///
/// The query at path position `p` of a span sees the keys and values of rows `pages[path..=path + p]`, or the last
/// `window` of them. No other row has an influence, even if it holds NaN.
///
/// The same operation serves ragged space (`pages` = 0, 1, 2, .., one span for each sequence), compact space (one
/// span for each segment of the radix tree, `pages` = the plan's `scatter`) and single queries (spans of length 1);
/// the result of a query is the same, bit for bit. With bf16 output the factors are rounded to bf16 for the products.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Queries, `[rows, num_heads * head_dim]`.
    pub q: RowView<'a>,
    /// Keys, `[kv_rows, num_kv_heads * head_dim]`.
    pub k: RowView<'a>,
    /// Values, `[kv_rows, num_kv_heads * head_dim]`.
    pub v: RowView<'a>,
    /// The row of each path position: a page table with pages of one token.
    pub pages: &'a [u32],
    /// The queries, in ascending order of their rows.
    pub spans: &'a [QuerySpan],
    /// Heads.
    pub layout: QkvLayout,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// A query at position `p` sees the keys `p - window + 1 ..= p`; `None` for all up to `p`.
    pub window: Option<usize>,
}

impl Attention<'_> {
    /// Writes the rows of the spans in `out`, `[rows, num_heads * head_dim]`; other rows keep what they have.
    ///
    /// # Errors
    /// If the layout has no whole groups of heads, a row or a page is outside of its matrix, or the spans are not in
    /// ascending order.
    pub fn run<A: Activation>(&self, out: &mut [A]) -> Result<(), KernelError> {
        self.run_with(Isa::best(), out)
    }

    /// [`run`](Self::run) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_with<A: Activation>(&self, isa: Isa, out: &mut [A]) -> Result<(), KernelError> {
        self.check(out.len())?;
        let out = match A::elements_mut(out) {
            ElementsMut::F32(out) => Output::F32(Shared::new(out)),
            ElementsMut::Bf16(out) => Output::Bf16(Shared::new(out)),
        };
        let mut items = ITEMS.take();
        self.list_items(&mut items);
        let next = AtomicUsize::new(0);
        let work = || {
            let words = tile::scratch_words(self.layout.head_dim);
            with_words(words, |scratch| {
                while let Some(&item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    simd::run(isa, Task { attention: self, item, out, scratch });
                }
            });
        };
        let cost: usize = items.iter().map(|item| item.cost as usize).sum();
        if cost * self.layout.head_dim < PARALLEL_PRODUCTS {
            work();
        } else {
            team::for_each(team::num_threads(), |_| work());
        }
        items.clear();
        ITEMS.set(items);
        Ok(())
    }

    /// Splits the spans into items, the longest first: what is left at the end is short.
    fn list_items(&self, items: &mut Vec<Item>) {
        items.clear();
        for (index, span) in (0..).zip(self.spans) {
            let lanes = span.len as usize * self.layout.group();
            for tile in 0..lanes.div_ceil(tile::QUERIES) {
                let queries = tile * tile::QUERIES..((tile + 1) * tile::QUERIES).min(lanes);
                let last = span.depth as usize + (queries.end - 1) / self.layout.group();
                let keys = self.window.map_or(last + 1, |window| (window + tile::QUERIES).min(last + 1));
                let cost = (queries.len() * keys).min(u32::MAX as usize) as u32;
                let heads = 0..self.layout.num_kv_heads as u32;
                items.extend(heads.map(|kv_head| Item { cost, span: index, kv_head, tile: tile as u32 }));
            }
        }
        items.sort_unstable_by_key(|item| Reverse(item.cost));
    }
}

/// Below so many multiplications the work is done before a second thread has woken up.
const PARALLEL_PRODUCTS: usize = 1 << 17;

thread_local! {
    /// Kept for the next call.
    static ITEMS: Cell<Vec<Item>> = const { Cell::new(Vec::new()) };
}

/// Some queries of one key/value head of a span.
#[derive(Debug, Clone, Copy)]
struct Item {
    /// Scores to compute.
    cost: u32,
    span: u32,
    kv_head: u32,
    /// The queries from `tile * QUERIES` on, counting a group of heads at each position.
    tile: u32,
}

#[derive(Clone, Copy)]
enum Output {
    F32(Shared<f32>),
    Bf16(Shared<half::bf16>),
}

/// An item on a thread.
struct Task<'a> {
    attention: &'a Attention<'a>,
    item: Item,
    out: Output,
    scratch: &'a mut [u32],
}

impl Operation for Task<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the instruction set is the caller's duty. `check` has seen that the rows of spans are in `out` and
        // do not overlap; a span's items differ in their queries or in their heads.
        unsafe {
            match self.out {
                Output::F32(out) => tile::run::<S::F32>(self.attention, self.item, out, self.scratch),
                Output::Bf16(out) => tile::run::<S::Bf16>(self.attention, self.item, out, self.scratch),
            }
        }
    }
}
