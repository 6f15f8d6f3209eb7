//! A block of a product on the tiles of AMX.
//!
//! Two tiles of rows times the two tiles of columns that a panel is: four tiles of sums, over whole rows. Rows are copied into
//! tiles once for each block; the lines of a panel are a tile as they lie. The sums of a row are those of a whole tile of rows,
//! so that its result is the same with one row and with many.

use super::block::Block;
use super::pack::PANEL;
use crate::Store;
use crate::scratch::{Line, Scratch};
use crate::simd::{Packing, Simd, TileOperation};
use crate::tiles::{COLUMNS, ROW_BYTES, ROWS, Tiles};
use std::ops::Range;

/// Bytes of panels that are multiplied with all rows of a block before the next panels are: they stay in L2 meanwhile, with a
/// pair of tiles of rows in L1.
const PANELS_BYTES: usize = 768 << 10;

/// Bytes of a tile.
const TILE_BYTES: usize = ROWS * ROW_BYTES;

/// Words of the sums of a pair of tiles of rows.
const SUMS: usize = 2 * ROWS * PANEL;

impl<P: Packing> TileOperation for Block<'_, P> {
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
        let panels_at_once = (PANELS_BYTES / (steps * 2 * TILE_BYTES)).max(1);
        let panels = self.panels();
        for first in panels.clone().step_by(panels_at_once) {
            let some = first..(first + panels_at_once).min(panels.end);
            for tile_row in (0..tile_rows).step_by(2) {
                let a = rows[tile_row * steps * tile_words..].as_ptr().cast();
                for panel in some.clone() {
                    // SAFETY: the tiles are the caller's duty; rows have `steps` tiles for each tile row, and so have panels.
                    unsafe {
                        if tile_row + 1 < tile_rows {
                            self.multiply::<T, true>(&mut tiles, (tile_row, panel), a, steps, sums);
                        } else {
                            self.multiply::<T, false>(&mut tiles, (tile_row, panel), a, steps, sums);
                        }
                    }
                }
            }
        }
    }
}

impl<P: Packing> Block<'_, P> {
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

    /// Multiplies a tile row, or a `PAIR` of them, with a panel.
    ///
    /// # Safety
    /// `tiles` may be used; `a` has `steps` tiles for each tile row.
    #[inline(always)]
    unsafe fn multiply<T: Tiles, const PAIR: bool>(
        &self,
        tiles: &mut T,
        (tile_row, panel): (usize, usize),
        a: *const u8,
        steps: usize,
        sums: &mut [u32],
    ) {
        const LINE: usize = PANEL * size_of::<u32>();
        let first_row = tile_row * ROWS;
        let rows = first_row..self.rows.len().min(first_row + if PAIR { 2 } else { 1 } * ROWS);
        let columns = self.columns_of(panel);
        // Sums of whole tiles without a bias, that replace the output, go there; others pass through `sums`.
        let is_plain = !P::IS_QUANTIZED && self.bias.is_none() && self.store == Store::Overwrite;
        let is_whole = rows.len() == if PAIR { 2 } else { 1 } * ROWS && columns.len() == PANEL;
        // SAFETY: the tiles are the caller's duty; the panel has a line for each of the 16 words of a step; what is written is
        // either whole tiles of the output or `sums`.
        unsafe {
            Self::sum::<T, PAIR>(tiles, a, self.weight.panel(panel).as_ptr().cast(), steps);
            if is_plain && is_whole {
                let out = self.at(first_row, columns.start);
                store::<T, PAIR>(tiles, out.cast(), self.out_stride * size_of::<f32>());
            } else {
                store::<T, PAIR>(tiles, sums.as_mut_ptr().cast(), LINE);
                self.finish_rows(rows, columns, panel, sums);
            }
        }
    }

    /// Sums over all steps: of the first tile row in tiles 0 and 1, of the second in 2 and 3.
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply).
    #[inline(always)]
    unsafe fn sum<T: Tiles, const PAIR: bool>(tiles: &mut T, a: *const u8, b: *const u8, steps: usize) {
        const LINE: usize = PANEL * size_of::<u32>();
        tiles.tilezero::<0>();
        tiles.tilezero::<1>();
        if PAIR {
            tiles.tilezero::<2>();
            tiles.tilezero::<3>();
        }
        for step in 0..steps {
            // SAFETY: the caller's duty; every address is within the tiles that it promised.
            unsafe {
                let a = a.add(step * TILE_BYTES);
                let b = b.add(step * 2 * TILE_BYTES);
                tiles.tileloadd::<4>(a, ROW_BYTES);
                tiles.tileloadd::<6>(b, LINE);
                if PAIR {
                    tiles.tileloadd::<5>(a.add(steps * TILE_BYTES), ROW_BYTES);
                }
                tiles.tileloadd::<7>(b.add(ROW_BYTES), LINE);
            }
            if P::IS_QUANTIZED {
                tiles.tdpbusd::<0, 4, 6>();
                tiles.tdpbusd::<1, 4, 7>();
                if PAIR {
                    tiles.tdpbusd::<2, 5, 6>();
                    tiles.tdpbusd::<3, 5, 7>();
                }
            } else {
                tiles.tdpbf16ps::<0, 4, 6>();
                tiles.tdpbf16ps::<1, 4, 7>();
                if PAIR {
                    tiles.tdpbf16ps::<2, 5, 6>();
                    tiles.tdpbf16ps::<3, 5, 7>();
                }
            }
        }
    }

    /// Writes sums, `[rows, PANEL]`, to the product.
    ///
    /// # Safety
    /// Rows and columns are in the block.
    #[inline(always)]
    unsafe fn finish_rows(&self, rows: Range<usize>, columns: Range<usize>, panel: usize, sums: &[u32]) {
        for (row, sums) in rows.zip(sums.chunks_exact(PANEL)) {
            // SAFETY: the caller's duty.
            unsafe { self.finish(row, columns.clone(), true, &sums[columns.start - panel * PANEL..]) };
        }
    }
}

/// Writes the tiles of sums.
///
/// # Safety
/// The rows of the tiles may be written, `stride` bytes apart.
#[inline(always)]
unsafe fn store<T: Tiles, const PAIR: bool>(tiles: &mut T, out: *mut u8, stride: usize) {
    // SAFETY: the caller's duty.
    unsafe {
        tiles.tilestored::<0>(out, stride);
        tiles.tilestored::<1>(out.add(COLUMNS * size_of::<f32>()), stride);
        if PAIR {
            let out = out.add(ROWS * stride);
            tiles.tilestored::<2>(out, stride);
            tiles.tilestored::<3>(out.add(COLUMNS * size_of::<f32>()), stride);
        }
    }
}
