//! Limits of products on tiles: loops of their instructions over operands in L1, L2 and L3, with and without stores.

use crate::isa::Isa;
use crate::runtime::scratch::Scratch;
use crate::simd::{Format, Operation, Simd, TileOperation, Vector};
use crate::tiles::{Between, Kept, LINE, ROW_BYTES, ROWS, TileRows, Tiles, multiply, store, zero_sums};
use half::bf16;
use std::marker::PhantomData;

/// Words of a tile.
const TILE: usize = ROWS * ROW_BYTES / size_of::<u32>();

/// Words of the sums of a pair of row tiles and a panel, `[2 * ROWS, LINE]`.
const SUMS: usize = 2 * ROWS * LINE;

/// Bytes of the tiles of a step of a row tile or of a column tile.
const TILE_BYTES: usize = TILE * size_of::<u32>();

/// A loop over products of bfloat16 tiles.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct TileLoop {
    /// Steps of 32 values of a row.
    pub steps: usize,
    /// Pairs of row tiles, and panels, that are multiplied with one another. Their bytes decide in which cache they lie.
    pub row_pairs: usize,
    pub panels: usize,
    /// True if panels are read past L1.
    pub is_streamed: bool,
    pub stores: Stores,
}

/// Destination of a loop's sums.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// They stay in tiles.
    None,
    /// Tiles are stored to rows of all panels' columns.
    Tiles,
    /// Tiles are stored to a buffer in L1, from which vectors copy them to the rows while the next panel is multiplied.
    Vectors,
}

impl TileLoop {
    /// Runs the loop on this thread and returns the number of multiplications and additions, 0 without tiles. The caller measures the
    /// time.
    pub fn run(self, isa: Isa, repeats: usize) -> usize {
        let operands = self.steps * (self.row_pairs + self.panels) * 2 * TILE;
        let mut scratch = Scratch::new(operands + (self.row_pairs * self.panels + 2) * SUMS);
        scratch.words().fill(0);
        let mut operations = 0;
        bf16::run(isa, Run { tile_loop: self, repeats, words: scratch.words(), operations: &mut operations });
        operations
    }
}

struct Run<'a> {
    tile_loop: TileLoop,
    repeats: usize,
    words: &'a mut [u32],
    operations: &'a mut usize,
}

impl Operation for Run<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {}
}

impl TileOperation for Run<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd, T: Tiles>(self) {
        let TileLoop { steps, row_pairs, panels, is_streamed, stores } = self.tile_loop;
        let (rows, words) = self.words.split_at_mut(steps * row_pairs * 2 * TILE);
        let (columns, words) = words.split_at_mut(steps * panels * 2 * TILE);
        let (mut now, words) = words.split_at_mut(SUMS);
        let (mut before, out) = words.split_at_mut(SUMS);
        let kept = Kept { row_steps: usize::MAX, columns: !is_streamed };
        let row_bytes = panels * LINE * size_of::<u32>();
        // SAFETY: the tiles are the caller's duty; the buffers have these tiles.
        unsafe {
            let mut tiles = T::new();
            for _ in 0..self.repeats {
                let mut copied = out.as_mut_ptr();
                for (pair, rows) in rows.chunks_exact(steps * 2 * TILE).enumerate() {
                    let a = TileRows {
                        start: rows.as_ptr().cast(),
                        row: ROW_BYTES,
                        step: TILE_BYTES,
                        tile: steps * TILE_BYTES,
                    };
                    for (panel, columns) in columns.chunks_exact(steps * 2 * TILE).enumerate() {
                        let to = out[pair * panels * SUMS + panel * LINE..].as_mut_ptr();
                        zero_sums::<T, 2, 2>(&mut tiles);
                        let last = Copy { from: before.as_ptr(), to: copied, row: panels * LINE, rows: 0 };
                        let mut copy = Vectors::<S::V> { copy: last, vectors: PhantomData };
                        if stores == Stores::Vectors {
                            multiply::<T, 2, 2, false>(&mut tiles, a, columns.as_ptr(), steps, kept, &mut copy);
                            copy.rest();
                            store::<T, 2, 2>(&mut tiles, now.as_mut_ptr().cast(), LINE * size_of::<u32>());
                            (now, before) = (before, now);
                            copied = to;
                        } else {
                            multiply::<T, 2, 2, false>(&mut tiles, a, columns.as_ptr(), steps, kept, &mut ());
                            if stores == Stores::Tiles {
                                store::<T, 2, 2>(&mut tiles, to.cast(), row_bytes);
                            }
                        }
                    }
                }
            }
        }
        *self.operations = self.repeats * row_pairs * panels * steps * 4 * 2 * ROWS * ROWS * 32;
    }
}

/// A copy of sums to rows of the output, in pieces.
struct Copy {
    from: *const u32,
    to: *mut u32,
    /// Words from one row of the output to the next.
    row: usize,
    /// Rows that have been copied.
    rows: usize,
}

struct Vectors<V> {
    copy: Copy,
    vectors: PhantomData<V>,
}

impl<V: Vector> Vectors<V> {
    /// Copies the rows that are left.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`; `from` has the sums of a panel, and `to` their rows.
    #[inline(always)]
    unsafe fn rest(&mut self) {
        while self.copy.rows < 2 * ROWS {
            // SAFETY: the caller's duty.
            unsafe { self.piece() };
        }
    }
}

impl<V: Vector> Between for Vectors<V> {
    #[inline(always)]
    unsafe fn piece(&mut self) {
        let Copy { from, to, row, rows } = self.copy;
        let end = (rows + 8).min(2 * ROWS);
        for r in rows..end {
            for word in (0..LINE).step_by(V::LANES) {
                // SAFETY: the caller's duty.
                unsafe { V::loadu(from.add(r * LINE + word).cast()).storeu(to.add(r * row + word).cast()) };
            }
        }
        self.copy.rows = end;
    }
}
