//! The serial part of a product: a block of rows times some panels, on one core.

use super::pack::{PANEL, PackedMatrix, word};
use crate::Store;
use crate::simd::{
    ColumnWords, Dot, MAX_LANES, MAX_ROWS, Operation, Packing, RowTiles, RowWords, Simd, Vector, for_rows, prefetch,
    product,
};
use std::ops::Range;

/// Words of a row that are summed in registers before they are added to the output. The number is large because the
/// output of a large product does not fit in any cache and is read and written once per this many words. Panel and rows then
/// stream from L2, which is fast enough for a register block of this size.
///
/// The blocks of a row are as equal as can be; they depend on k alone, as the order of additions must.
const MAX_STEPS: usize = 512;

/// Vectors of columns in a register block of few rows: enough chains of sums to hide the latency of an addition, and enough
/// panels read at once to hide that of the memory.
const WIDE: usize = 8;

/// Words that [`Block::scratch`] must have for a block of `rows`.
pub(super) fn scratch_words(rows: usize, weight: &PackedMatrix<impl Packing>) -> usize {
    rows * steps_per_block(weight.row_words()) + MAX_LANES
}

fn steps_per_block(row_words: usize) -> usize {
    row_words.div_ceil(row_words.div_ceil(MAX_STEPS).max(1))
}

/// The columns of some panels for some rows.
pub(super) struct Block<'a, P: Packing> {
    /// `[rows, k]`
    pub(super) x: &'a [P::Input],
    pub(super) rows: usize,
    pub(super) weight: &'a PackedMatrix<P>,
    /// Columns to compute.
    pub(super) columns: Range<usize>,
    /// For `columns`.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) store: Store,
    /// Address of `columns.start` in the product's first row; rows are `out_stride` apart. All of it is this block's
    /// alone to write.
    pub(super) out: *mut f32,
    pub(super) out_stride: usize,
    pub(super) scratch: &'a mut [u32],
}

impl<P: Packing> Operation for Block<'_, P> {
    #[inline(always)]
    unsafe fn run<S: Simd>(mut self) {
        // SAFETY: the caller's duty.
        unsafe { self.run_with::<P::Dot<S>>() }
    }
}

impl<P: Packing> Block<'_, P> {
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn run_with<D: Dot>(&mut self) {
        let row_words = self.weight.row_words();
        let max_steps = steps_per_block(row_words);
        let tiles = RowTiles::new(self.rows, D::ROWS);
        for start in (0..row_words).step_by(max_steps) {
            let steps = start..(start + max_steps).min(row_words);
            // SAFETY: the CPU has the instructions of `D`.
            unsafe { self.pack_rows::<D>(&tiles, &steps) };
            let (mut panel, end) = (self.columns.start / PANEL, self.columns.end.div_ceil(PANEL));
            while panel < end {
                let wide = panel * PANEL..panel * PANEL + WIDE * D::V::LANES;
                let is_whole = self.columns.start <= wide.start && wide.end <= self.columns.end;
                // SAFETY: the CPU has the instructions of `D`.
                panel += unsafe {
                    if is_whole && self.rows * WIDE <= D::ROWS * D::VECTORS {
                        self.multiply_wide::<D>(wide, &steps)
                    } else {
                        self.multiply_panel::<D>(panel, &tiles, &steps)
                    }
                };
            }
        }
    }

    /// Multiplies whole panels by a few rows; returns the number of panels.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn multiply_wide<D: Dot>(&mut self, columns: Range<usize>, steps: &Range<usize>) -> usize {
        let block = RegisterBlock {
            a: self.scratch.as_ptr(),
            b: self.weight.panels_from(columns.start / PANEL)[steps.start * PANEL..].as_ptr(),
            steps: steps.len(),
            is_first: steps.start == 0,
            row: 0,
            first_column: columns.start,
            columns: columns.clone(),
        };
        // SAFETY: scratch has the words of all rows, and all panels of the columns exist.
        unsafe {
            match self.rows {
                1 => self.multiply_vectors::<D, 1, WIDE>(block),
                2 => self.multiply_vectors::<D, 2, WIDE>(block),
                3 => self.multiply_vectors::<D, 3, WIDE>(block),
                _ => unreachable!("registers hold three rows at most"),
            }
        }
        columns.len() / PANEL
    }

    /// Copies the steps of all rows into scratch, for each register block its rows' words side by side.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn pack_rows<D: Dot>(&mut self, tiles: &RowTiles, steps: &Range<usize>) {
        let k = self.weight.cols();
        // A row's last word may be half a word.
        let whole = (k / D::ELEMENTS).clamp(steps.start, steps.end) - steps.start;
        let squares = whole / D::V::LANES * D::V::LANES;
        for tile in 0..tiles.count() {
            let rows = tiles.rows(tile);
            let from = &self.x[rows.start * k..rows.end * k];
            let packed = &mut self.scratch[rows.start * steps.len()..][..rows.len() * steps.len() + MAX_LANES];
            for step in (0..squares).step_by(D::V::LANES) {
                // SAFETY: the instructions are the caller's duty. Each row has `LANES` whole words from `step` on;
                // what the last lines write beyond their rows is within `packed`, and is written over later.
                unsafe {
                    let mut words = [D::V::set1(0.0); MAX_LANES];
                    for (r, words) in words.iter_mut().enumerate().take(rows.len()) {
                        let from =
                            from[r * k + (steps.start + step) * D::ELEMENTS..][..D::V::LANES * D::ELEMENTS].as_ptr();
                        *words = D::V::loadu(from.cast());
                    }
                    D::V::transpose(&mut words);
                    for (line, &words) in words.iter().enumerate().take(D::V::LANES) {
                        let to = packed[(step + line) * rows.len()..][..D::V::LANES].as_mut_ptr();
                        words.storeu(to.cast());
                    }
                }
            }
            for r in 0..rows.len() {
                let row = &from[r * k..(r + 1) * k][(steps.start + squares) * D::ELEMENTS..];
                for (words, to) in row
                    .chunks(D::ELEMENTS)
                    .zip(packed[squares * rows.len()..].iter_mut().skip(r).step_by(rows.len()))
                    .take(steps.len() - squares)
                {
                    *to = word(words);
                }
            }
        }
    }

    /// Multiplies one panel by all rows; returns the number of panels.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn multiply_panel<D: Dot>(&mut self, panel: usize, tiles: &RowTiles, steps: &Range<usize>) -> usize {
        let width = D::WIDTH;
        let words = &self.weight.panel(panel)[steps.start * PANEL..steps.end * PANEL];
        for offset in (0..PANEL).step_by(width) {
            let first = panel * PANEL + offset;
            let columns = first.max(self.columns.start)..(first + width).min(self.columns.end);
            if columns.is_empty() {
                continue;
            }
            for tile in 0..tiles.count() {
                let rows = tiles.rows(tile);
                let block = RegisterBlock {
                    a: self.scratch[rows.start * steps.len()..rows.end * steps.len()].as_ptr(),
                    b: words[offset..].as_ptr(),
                    steps: steps.len(),
                    is_first: steps.start == 0,
                    row: rows.start,
                    first_column: first,
                    columns: columns.clone(),
                };
                macro_rules! by_rows {
                    ($($rows:literal)*) => {
                        match rows.len() {
                            // SAFETY: scratch and panel have the words of the block, as sliced above.
                            $($rows if $rows <= D::ROWS => unsafe { self.multiply::<D, $rows>(block) },)*
                            _ => unreachable!("tiles have 1 to D::ROWS rows"),
                        }
                    };
                }
                by_rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
            }
        }
        1
    }

    /// # Safety
    /// The CPU has the instructions of `D`; the factors of `block` have `steps` words for `R` rows and for the
    /// columns of a register block.
    #[inline(always)]
    unsafe fn multiply<D: Dot, const R: usize>(&self, block: RegisterBlock) {
        // SAFETY: the caller's duty.
        unsafe {
            if D::VECTORS == 2 {
                self.multiply_vectors::<D, R, 2>(block);
            } else {
                self.multiply_vectors::<D, R, 1>(block);
            }
        }
    }

    /// # Safety
    /// As [`multiply`](Self::multiply).
    #[inline(always)]
    unsafe fn multiply_vectors<D: Dot, const R: usize, const C: usize>(&self, block: RegisterBlock) {
        let a = RowWords { start: block.a, step: R, row: 1 };
        let column = block.columns.start - self.columns.start;
        // SAFETY: the factors are the caller's duty; `out` and `bias` have all columns of the block that exist.
        unsafe {
            let out = self.out.add(block.row * self.out_stride + column);
            // The output of a large product is in no cache: let it come while the sums are made.
            for r in 0..R {
                for c in 0..C {
                    prefetch(out.wrapping_add(r * self.out_stride + c * D::V::LANES));
                }
            }
            let b = ColumnWords { start: block.b, line: PANEL, panel: self.weight.row_words() * PANEL };
            let sums = product::<D, R, C>(block.steps, a, b);
            let bias = self.bias.filter(|_| block.is_first).map(|bias| bias[column..].as_ptr());
            let add = !block.is_first || self.store == Store::Accumulate;
            // More columns than a panel are whole ones.
            if C * D::V::LANES > PANEL || block.columns.len() == C * D::V::LANES {
                for_rows!(r < R, {
                    for c in 0..C {
                        let sum = D::to_f32(sums[r][c]);
                        let out = out.add(r * self.out_stride + c * D::V::LANES);
                        let sum = bias.map_or(sum, |bias| sum.add(D::V::loadu(bias.add(c * D::V::LANES))));
                        let sum = if add { D::V::loadu(out).add(sum) } else { sum };
                        sum.storeu(out);
                    }
                });
            } else {
                let skip = block.columns.start - block.first_column;
                let mut values = [[0.0_f32; PANEL]; MAX_ROWS];
                for_rows!(r < R, {
                    for c in 0..C {
                        D::to_f32(sums[r][c]).storeu(values[r][c * D::V::LANES..].as_mut_ptr());
                    }
                });
                for (r, values) in values.iter().take(R).enumerate() {
                    for (j, &sum) in values[skip..][..block.columns.len()].iter().enumerate() {
                        let out = out.add(r * self.out_stride + j);
                        let sum = bias.map_or(sum, |bias| sum + *bias.add(j));
                        *out = if add { *out + sum } else { sum };
                    }
                }
            }
        }
    }
}

/// Factors and destination of a register block.
struct RegisterBlock {
    a: *const u32,
    b: *const u32,
    steps: usize,
    /// True for the first words of the rows.
    is_first: bool,
    row: usize,
    /// The column of the first lane.
    first_column: usize,
    /// The columns that are wanted.
    columns: Range<usize>,
}
