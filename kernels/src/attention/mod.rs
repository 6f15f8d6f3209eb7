//! Attention over paths of a radix tree, or over whole sequences.

mod block;
mod factors;
mod input;
mod item;
mod keys;
mod layout;
mod mask;
mod output;
mod panels;
mod positions_of_block;
mod products;
mod queries;
mod query_tile;
mod relative_bias;
mod relative_positions;
mod span;
mod task;
mod tile;

pub use factors::Float;
pub use input::Attention;
pub use item::AttentionItems;
pub use layout::{QkvLayout, RowView};
pub use mask::Mask;
pub use query_tile::{QueryTile, query_tiles};
pub use relative_bias::RelativeBias;
pub use relative_positions::{DistanceRows, RelativePositions};
pub use span::QuerySpan;
#[cfg(feature = "cuda")]
pub(crate) use {layout::check_layout, span::check_spans};

use crate::element::Element;
use crate::error::KernelError;
use crate::isa::Isa;
use crate::runtime::claims::{Claims, Division};
use crate::runtime::thread_pool;
use output::Rows;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use task::Task;

impl Attention<'_> {
    /// Writes the rows of the spans in `out`, `[rows, num_heads * head_dim]`; other rows are left unchanged. Operands of both
    /// products are rounded to `F`.
    ///
    /// # Errors
    /// If `num_heads` is not a multiple of `num_kv_heads`, a row or a page is outside of its matrix, or the spans are not
    /// in ascending order.
    pub fn run<F: Float, E: Element>(&self, out: &mut [E]) -> Result<(), KernelError> {
        self.run_with::<F, E>(Isa::best(), out)
    }

    /// [`run`](Self::run) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_with<F: Float, E: Element>(&self, isa: Isa, out: &mut [E]) -> Result<(), KernelError> {
        let mut items = ITEMS.take();
        items.list(self.spans, self.layout, self.mask, self.window)?;
        let result = self.run_items_with::<F, E>(isa, &items, 0..items.len(), out);
        ITEMS.set(items);
        result
    }

    /// Writes the rows of a range of items; the list must have been made for the same spans, layout, mask and window.
    ///
    /// # Errors
    /// As [`run`](Self::run), or if the items were made for other arguments.
    pub fn run_items<F: Float, E: Element>(
        &self,
        items: &AttentionItems,
        range: Range<usize>,
        out: &mut [E],
    ) -> Result<(), KernelError> {
        self.run_items_with::<F, E>(Isa::best(), items, range, out)
    }

    /// [`run_items`](Self::run_items) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_items_with<F: Float, E: Element>(
        &self,
        isa: Isa,
        items: &AttentionItems,
        range: Range<usize>,
        out: &mut [E],
    ) -> Result<(), KernelError> {
        self.check(out.len())?;
        let items = items.get(range, self)?;
        let out = Rows::new(out);
        let cost: usize = items.iter().map(|item| item.cost as usize).sum();
        let threads = if cost * self.layout.head_dim < PARALLEL_PRODUCTS { 1 } else { thread_pool::num_threads() };
        // Items of one length stay with the threads that have their rows; of several lengths, the longest come first on all threads.
        let is_even = items.first().map(|item| item.cost) == items.last().map(|item| item.cost);
        let divide = if is_even { Division::new } else { Division::in_order };
        let division = divide(items.len(), threads);
        let claims = Claims::default();
        claims.reset(division);
        thread_pool::for_each(threads, |thread| {
            let task = Task { attention: self, items, claims: &claims, division, thread, out, factors: PhantomData };
            F::attend(isa, task);
        });
        Ok(())
    }
}

/// Minimum multiplications to use several threads: less work is done before a second thread has woken up.
const PARALLEL_PRODUCTS: usize = 1 << 17;

thread_local! {
    /// Kept for the next call.
    static ITEMS: Cell<AttentionItems> = const { Cell::new(AttentionItems::new()) };
}
