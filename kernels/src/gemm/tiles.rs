//! A block of a product on the tiles of AMX.
//!
//! Two row tiles times the two column tiles of a panel give four tiles of sums, over whole rows. Rows are copied into tiles
//! once per block (packed A); 16 lines of a panel are a tile without a copy. A row is always computed as part of a whole tile
//! of rows, so that its result is the same with one row and with many.

use super::block::Block;
use super::pack::PANEL;
use crate::runtime::scratch::{Line, Scratch};
use crate::simd::{Format, Simd, TileOperation, Vector};
use crate::store::Store;
use crate::tiles::{LINE, ROW_BYTES, ROWS, TileRows, Tiles, multiply, store};

/// NC in bytes of packed B: panels that are multiplied with all rows of a block before the next. They stay in L2 meanwhile, with a
/// pair of row tiles in L1.
const NC_BYTES: usize = 768 << 10;

/// Bytes of a tile.
const TILE_BYTES: usize = ROWS * ROW_BYTES;

/// Words of the sums of a pair of row tiles.
const SUMS: usize = 2 * ROWS * PANEL;

impl<P: Format> TileOperation for Block<'_, P> {
    #[inline(always)]
    unsafe fn run<S: Simd, T: Tiles>(self) {
        let steps = self.x.len.div_ceil(ROW_BYTES);
        let tile_rows = self.rows.len().div_ceil(ROWS);
        let tile_words = TILE_BYTES / size_of::<u32>();
        let mut scratch = Scratch::new(SUMS + tile_rows * steps * tile_words);
        let (sums, rows) = scratch.words().split_at_mut(SUMS);
        self.copy_rows(steps, rows);
        // SAFETY: the tiles are the caller's duty.
        let mut tiles = unsafe { T::new() };
        let panels_at_once = (NC_BYTES / (steps * 2 * TILE_BYTES)).max(1);
        let panels = self.panels();
        for first in panels.clone().step_by(panels_at_once) {
            let some = first..(first + panels_at_once).min(panels.end);
            for tile_row in (0..tile_rows).step_by(2) {
                let a = rows[tile_row * steps * tile_words..].as_ptr().cast();
                for panel in some.clone() {
                    // SAFETY: the tiles are the caller's duty; rows and panels have `steps` tiles for each tile row.
                    unsafe {
                        if tile_row + 1 < tile_rows {
                            self.multiply::<S::V, T, 2>(&mut tiles, (tile_row, panel), a, steps, sums);
                        } else {
                            self.multiply::<S::V, T, 1>(&mut tiles, (tile_row, panel), a, steps, sums);
                        }
                    }
                }
            }
        }
    }
}

impl<P: Format> Block<'_, P> {
    /// Copies the rows into tiles, `[tile rows, steps, 16 rows of 64 bytes]`, with zeros where there is no element.
    #[inline(always)]
    fn copy_rows(&self, steps: usize, tiles: &mut [u32]) {
        for (i, rows) in tiles.chunks_exact_mut(steps * TILE_BYTES / size_of::<u32>()).enumerate() {
            for r in 0..ROWS {
                let row = i * ROWS + r;
                let bytes = if row < self.rows.len() { self.x.row(self.rows.start + row) } else { &[] };
                for step in 0..steps {
                    let start = (step * ROW_BYTES).min(bytes.len());
                    let bytes = &bytes[start..(start + ROW_BYTES).min(bytes.len())];
                    let mut line = [0_u8; ROW_BYTES];
                    if let Ok(whole) = bytes.try_into() {
                        line = whole;
                    } else {
                        line[..bytes.len()].copy_from_slice(bytes);
                    }
                    let to = &mut rows[(step * ROWS + r) * Line::WORDS..][..Line::WORDS];
                    for (to, word) in to.iter_mut().zip(line.as_chunks().0) {
                        *to = u32::from_ne_bytes(*word);
                    }
                }
            }
        }
    }

    /// Multiplies one or two tile rows with a panel.
    ///
    /// # Safety
    /// `tiles` may be used; `a` has `steps` tiles for each tile row.
    #[inline(always)]
    unsafe fn multiply<V: Vector, T: Tiles, const TILES: usize>(
        &self,
        tiles: &mut T,
        (tile_row, panel): (usize, usize),
        a: *const u8,
        steps: usize,
        sums: &mut [u32],
    ) {
        const { assert!(PANEL == LINE, "a panel is the two tiles of columns") };
        let first_row = tile_row * ROWS;
        let rows = first_row..self.rows.len().min(first_row + TILES * ROWS);
        let a = TileRows { start: a, row: ROW_BYTES, step: TILE_BYTES, tile: steps * TILE_BYTES };
        let columns = self.columns_of(panel);
        // Whole tiles without a bias that replace the output are stored directly; other sums pass through `sums`.
        let is_plain = !P::IS_QUANTIZED && self.bias.is_none() && self.store == Store::Overwrite;
        let is_whole = rows.len() == TILES * ROWS && columns.len() == PANEL;
        // SAFETY: the tiles are the caller's duty; the panel has a line for each of the 16 words of a step; what is written is
        // either whole tiles of the output or `sums`.
        unsafe {
            if P::IS_QUANTIZED {
                multiply::<T, TILES, 2, true>(tiles, a, self.weight.panel(panel).as_ptr(), steps);
            } else {
                multiply::<T, TILES, 2, false>(tiles, a, self.weight.panel(panel).as_ptr(), steps);
            }
            if is_plain && is_whole {
                let out = self.at(first_row, columns.start);
                store::<T, TILES, 2>(tiles, out.cast(), self.out_stride * size_of::<f32>());
            } else {
                store::<T, TILES, 2>(tiles, sums.as_mut_ptr().cast(), PANEL * size_of::<u32>());
                let sums = &sums[columns.start - panel * PANEL..];
                self.finish::<V>(rows, columns, true, sums, PANEL);
            }
        }
    }
}
