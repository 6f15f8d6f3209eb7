//! Attention over paths of a radix tree, or over whole sequences.

mod input;
mod item;
mod keys;
mod layout;
mod line;
mod mask;
mod products;
mod query_tile;
mod relative_bias;
mod span;
mod tile;

pub use input::Attention;
pub use layout::{QkvLayout, RowView};
pub use mask::Mask;
pub use query_tile::{QueryTile, query_tiles};
pub use relative_bias::RelativeBias;
pub use span::QuerySpan;
#[cfg(feature = "cuda")]
pub(crate) use {layout::check_layout, span::check_spans};

use crate::isa::Isa;
use crate::scratch::with_words;
use crate::shared_pointer::SharedPointer;
use crate::simd::{self, Float, Operation, Simd};
use crate::{KernelError, thread_pool};
use item::Item;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

impl Attention<'_> {
    /// Writes the rows of the spans in `out`, `[rows, num_heads * head_dim]`; other rows keep what they have.
    ///
    /// # Errors
    /// If the layout has no whole groups of heads, a row or a page is outside of its matrix, or the spans are not in
    /// ascending order.
    pub fn run<E: Float>(&self, out: &mut [E]) -> Result<(), KernelError> {
        self.run_with(Isa::best(), out)
    }

    /// [`run`](Self::run) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_with<E: Float>(&self, isa: Isa, out: &mut [E]) -> Result<(), KernelError> {
        self.check(out.len())?;
        let out = SharedPointer::new(out);
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
            thread_pool::for_each(thread_pool::num_threads(), |_| work());
        }
        items.clear();
        ITEMS.set(items);
        Ok(())
    }
}

/// Smallest work, in multiplications, that is shared out: less is done before a second thread has woken up.
const PARALLEL_PRODUCTS: usize = 1 << 17;

thread_local! {
    /// Kept for the next call.
    static ITEMS: Cell<Vec<Item>> = const { Cell::new(Vec::new()) };
}

/// An item on a thread.
struct Task<'a, E> {
    attention: &'a Attention<'a>,
    item: Item,
    out: SharedPointer<E>,
    scratch: &'a mut [u32],
}

impl<E: Float> Operation for Task<'_, E> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the instruction set is the caller's duty. `check` has seen that the rows of spans are in `out` and
        // do not overlap; a span's items differ in their queries or in their heads.
        unsafe { tile::run::<E::FloatDot<S>>(self.attention, self.item, self.out, self.scratch) }
    }
}
