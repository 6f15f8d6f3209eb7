//! A block of a product on the tiles of AMX.
//!
//! Two row tiles times the two column tiles of a panel give four tiles of sums, over whole rows. Rows are copied into tiles
//! once per block (packed A); 16 lines of a panel are a tile without a copy. A row is always computed as part of a whole tile
//! of rows, so that its result is the same with one row and with many.
//!
//! A step of four products takes as long as 64 cycles of L1 or some 50 bytes a cycle of L2 allow, so caches decide: a pair of row
//! tiles stays in L1 as far as it fits, panels are read from L2 past it, and the rows of a block stay in L2. The sums of a panel are
//! finished by vector instructions while the tiles multiply the next panel, since stores would otherwise stop the products.

use super::block::Block;
use super::pack::PANEL;
use super::rows::as_bytes_mut;
use crate::runtime::scratch::{Scratch, as_f32};
use crate::simd::{Format, Simd, TileOperation, Vector};
use crate::tiles::{Between, Kept, LINE, ROW_BYTES, ROWS, TileRows, Tiles, multiply, store, zero_sums};
use std::marker::PhantomData;
use std::ops::Range;

/// MC in bytes of packed A: with the panels of [`NC_BYTES`] they fit into an L2 of 2 MB.
const MC_BYTES: usize = 800 << 10;

/// NC in bytes of packed B: panels that are multiplied with all rows of a block before the next.
const NC_BYTES: usize = 384 << 10;

/// Bytes of a tile.
const TILE_BYTES: usize = ROWS * ROW_BYTES;

/// Steps of a pair of row tiles that stay in an L1 of 48 KB, with room for sums and output.
const KEPT_STEPS: usize = (36 << 10) / (2 * TILE_BYTES);

/// Rows of the panel before that are finished in a step: its few loads and stores fit between the products.
const ROWS_A_STEP: usize = 8;

/// Words of the sums of a pair of row tiles.
const SUMS: usize = 2 * ROWS * PANEL;

/// Maximum rows of a block, if a row has `row_bytes` bytes.
pub(super) fn block_rows(row_bytes: usize) -> usize {
    let pair_bytes = 2 * ROWS * row_bytes.next_multiple_of(ROW_BYTES);
    2 * ROWS * (MC_BYTES / pair_bytes).max(1)
}

impl<P: Format> TileOperation for Block<'_, P> {
    #[inline(always)]
    unsafe fn run<S: Simd, T: Tiles>(self) {
        let steps = self.x.len.div_ceil(ROW_BYTES);
        let tile_rows = self.rows.len().div_ceil(ROWS);
        let tile_words = TILE_BYTES / size_of::<u32>();
        let mut scratch = Scratch::new(3 * SUMS + tile_rows * steps * tile_words);
        let (sums, rows) = scratch.words().split_at_mut(3 * SUMS);
        self.copy_rows(steps, rows);
        // SAFETY: the tiles are the caller's duty.
        let mut tiles = unsafe { T::new() };
        let panels_at_once = (NC_BYTES / (steps * 2 * TILE_BYTES)).max(1);
        let panels = self.panels();
        let mut pipeline = Pipeline::new(&self, sums, steps);
        for first in panels.clone().step_by(panels_at_once) {
            let some = first..(first + panels_at_once).min(panels.end);
            for tile_row in (0..tile_rows).step_by(2) {
                let a = rows[tile_row * steps * tile_words..].as_ptr().cast();
                for panel in some.clone() {
                    // SAFETY: the tiles are the caller's duty; rows and panels have `steps` tiles for each tile row.
                    unsafe {
                        if tile_row + 1 < tile_rows {
                            pipeline.multiply::<S::V, T, 2>(&mut tiles, (tile_row, panel), a);
                        } else {
                            pipeline.multiply::<S::V, T, 1>(&mut tiles, (tile_row, panel), a);
                        }
                    }
                }
            }
        }
        // SAFETY: the instructions are the caller's duty.
        unsafe { pipeline.finish_rows::<S::V>(SUMS) };
    }
}

impl<P: Format> Block<'_, P> {
    /// Copies the rows into tiles, `[tile rows, steps, 16 rows of 64 bytes]`, with zeros where there is no element.
    #[inline(always)]
    fn copy_rows(&self, steps: usize, tiles: &mut [u32]) {
        for (i, tile_row) in tiles.chunks_exact_mut(steps * TILE_BYTES / size_of::<u32>()).enumerate() {
            let lines = as_bytes_mut(tile_row).as_chunks_mut::<ROW_BYTES>().0;
            for r in 0..ROWS {
                let row = i * ROWS + r;
                let bytes = if row < self.rows.len() { self.x.row(self.rows.start + row) } else { &[] };
                let (whole, rest) = bytes.as_chunks::<ROW_BYTES>();
                let mut lines = lines.iter_mut().skip(r).step_by(ROWS);
                for (bytes, line) in whole.iter().zip(lines.by_ref()) {
                    *line = *bytes;
                }
                if let Some(line) = lines.next() {
                    line.fill(0);
                    line[..rest.len()].copy_from_slice(rest);
                }
                lines.for_each(|line| line.fill(0));
            }
        }
    }
}

/// The sums of the last panel, which are finished while the next panel is multiplied.
struct Pipeline<'a, 'b, P> {
    block: &'a Block<'b, P>,
    /// [`SUMS`] words of the panel that is multiplied, and of the one before.
    sums: [&'a mut [u32]; 2],
    /// Finished sums for the epilogue, [`SUMS`] values.
    finished: &'a mut [f32],
    /// Steps of a row.
    steps: usize,
    /// The unfinished rows and the columns of the panel before.
    rows: Range<usize>,
    columns: Range<usize>,
    /// The first row and the panel of its sums.
    start: (usize, usize),
}

/// Rows of the last panel, a few after each step of the next.
struct FinishedRows<'p, 'a, 'b, P, V> {
    pipeline: &'p mut Pipeline<'a, 'b, P>,
    vectors: PhantomData<V>,
}

impl<P: Format, V: Vector> Between for FinishedRows<'_, '_, '_, P, V> {
    #[inline(always)]
    unsafe fn piece(&mut self) {
        // SAFETY: the caller's duty.
        unsafe { self.pipeline.finish_rows::<V>(ROWS_A_STEP) };
    }
}

impl<'a, 'b, P: Format> Pipeline<'a, 'b, P> {
    #[inline(always)]
    fn new(block: &'a Block<'b, P>, sums: &'a mut [u32], steps: usize) -> Self {
        let (now, rest) = sums.split_at_mut(SUMS);
        let (before, finished) = rest.split_at_mut(SUMS);
        Self { block, sums: [now, before], finished: as_f32(finished), steps, rows: 0..0, columns: 0..0, start: (0, 0) }
    }

    /// Multiplies one or two tile rows with a panel, and finishes the panel before.
    ///
    /// # Safety
    /// `tiles` may be used; `a` has the steps' tiles for each tile row; the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn multiply<V: Vector, T: Tiles, const TILES: usize>(
        &mut self,
        tiles: &mut T,
        (tile_row, panel): (usize, usize),
        a: *const u8,
    ) {
        const { assert!(PANEL == LINE, "a panel is the two tiles of columns") };
        let steps = self.steps;
        let a = TileRows { start: a, row: ROW_BYTES, step: TILE_BYTES, tile: steps * TILE_BYTES };
        let b = self.block.weight.panel(panel).as_ptr();
        let kept = Kept { row_steps: KEPT_STEPS, columns: self.block.rows.len() <= 2 * ROWS };
        // SAFETY: the tiles, the instructions and `a` are the caller's duty; a panel has all steps, `sums` has the sums of a panel.
        unsafe {
            zero_sums::<T, TILES, 2>(tiles);
            let mut rows = FinishedRows { pipeline: self, vectors: PhantomData::<V> };
            if P::IS_QUANTIZED {
                multiply::<T, TILES, 2, true>(tiles, a, b, steps, kept, &mut rows);
            } else {
                multiply::<T, TILES, 2, false>(tiles, a, b, steps, kept, &mut rows);
            }
            self.finish_rows::<V>(SUMS);
            store::<T, TILES, 2>(tiles, self.sums[0].as_mut_ptr().cast(), PANEL * size_of::<u32>());
        }
        self.sums.swap(0, 1);
        let first_row = tile_row * ROWS;
        self.rows = first_row..self.block.rows.len().min(first_row + TILES * ROWS);
        self.columns = self.block.columns_of(panel);
        self.start = (first_row, panel);
    }

    /// Finishes up to `count` rows of the panel before.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn finish_rows<V: Vector>(&mut self, count: usize) {
        let rows = self.rows.start..self.rows.end.min(self.rows.start.saturating_add(count));
        if rows.is_empty() {
            return;
        }
        let (first_row, panel) = self.start;
        let sums = &self.sums[1][(rows.start - first_row) * PANEL + self.columns.start - panel * PANEL..];
        self.rows.start = rows.end;
        let columns = self.columns.clone();
        let Some(epilogue) = self.block.epilogue else {
            // SAFETY: the instructions are the caller's duty; rows and columns are in the block, and their sums in `sums`.
            return unsafe { self.block.finish::<V>(rows, columns, true, (sums, PANEL)) };
        };
        let finished = (self.finished.as_mut_ptr(), PANEL);
        // SAFETY: as above; there is room for the sums of a panel. No other thread has the block's rows and columns.
        unsafe {
            self.block.finish_to::<V>(rows.clone(), columns.clone(), (true, false), (sums, PANEL), finished);
            let first = self.block.rows.start;
            epilogue.apply(first + rows.start..first + rows.end, columns, self.finished, PANEL);
        }
    }
}
