//! A block of a product in vector registers.

use super::block::Block;
use super::pack::PANEL;
use crate::runtime::scratch::Scratch;
use crate::simd::{
    ColumnWords, Dot, Format, L1, MAX_LANES, MAX_MR, Operation, RowTiles, RowWords, Simd, Vector, for_rows, prefetch,
    product, product_widening,
};
use std::ops::Range;

/// Words of a row that are summed in registers before the sums are added to the output. Large, because the output of a large
/// product fits in no cache and is read and written once per `KC` words. Packed A and B then stream from L2, which is fast
/// enough for a register block of this size. Integers are summed over whole rows.
///
/// A row is split into blocks of nearly equal length; they depend on k alone, since the order of additions must not
/// depend on anything else.
const KC: usize = 512;

/// Vectors of columns in a register block of few rows: enough independent sums to hide the latency of an addition, and
/// enough panels read at once to hide the memory's latency.
const WIDE: usize = 8;

/// NC in bytes of packed B: panels that are multiplied with all rows of a block before the next. They stay in L2 meanwhile, with the
/// micro-panel of packed A in L1, and writes to a row of the output are long, so that each page is visited once for all
/// of these panels.
const NC_BYTES: usize = 256 << 10;

/// Maximum words of the sums of a register block.
const SUMS: usize = 2 * MAX_MR * MAX_LANES;

/// Rows that a register block gives up, since widening its columns on the fly needs their registers.
const WIDENING_ROWS: usize = 1;

impl<P: Format> Operation for Block<'_, P> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller's duty.
        unsafe { Vectors::<P, P::Dot<S>>::new(&self).run() }
    }
}

/// A block of a product and its split into register blocks.
struct Vectors<'a, P, D> {
    block: &'a Block<'a, P>,
    tiles: RowTiles,
    /// Panels are widened once for all rows, before they are multiplied; otherwise each register block widens them on the fly.
    widens_panels: bool,
    /// The current range of packed words of a row: at most [`KC`] words after widening, unless the format is quantized.
    packed: Range<usize>,
    /// [`SUMS`] words of sums, then packed A (micro-panels, `[steps, MR]`), then a widened panel.
    scratch: Scratch,
    dot: std::marker::PhantomData<D>,
}

/// A register block: MR rows of packed A times NR columns of packed B.
struct RegisterBlock {
    /// Start of packed A, counted from the end of the sums in scratch.
    a: usize,
    b: *const u32,
    /// The first row, counted from the block's first.
    row: usize,
    /// The column of the first lane.
    first_column: usize,
    /// The columns that belong to the block.
    columns: Range<usize>,
}

impl<'a, P: Format, D: Dot> Vectors<'a, P, D> {
    /// Words that a packed word is widened to.
    const WIDENING: usize = if D::IS_WIDENED { 2 } else { 1 };

    #[inline(always)]
    fn new(block: &'a Block<'a, P>) -> Self {
        let row_words = block.x.len.div_ceil(size_of::<u32>());
        let most = if P::IS_QUANTIZED { row_words } else { KC / Self::WIDENING };
        let packed = row_words.div_ceil(row_words.div_ceil(most).max(1));
        let steps = packed * Self::WIDENING;
        let on_the_way = if D::IS_WIDENED { D::MR - WIDENING_ROWS } else { D::MR };
        // bf16 is always widened on the fly: this costs less than reading twice as many words, for which L1 is too small.
        let widens_panels = D::WIDENS_BYTES && block.rows.len() > on_the_way;
        let panel = if widens_panels { steps * PANEL } else { 0 };
        Self {
            block,
            tiles: RowTiles::new(block.rows.len(), if widens_panels { D::MR } else { on_the_way }),
            widens_panels,
            packed: 0..packed,
            scratch: Scratch::new(SUMS + block.rows.len() * steps + MAX_LANES + panel),
            dot: std::marker::PhantomData,
        }
    }

    fn rows(&self) -> usize {
        self.block.rows.len()
    }

    /// Words of a row in the current range, after widening.
    fn steps(&self) -> usize {
        self.packed.len() * Self::WIDENING
    }

    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn run(&mut self) {
        let row_words = self.block.x.len.div_ceil(size_of::<u32>());
        let most = self.packed.len();
        let panels = self.block.panels();
        let at_once = (NC_BYTES / (most * PANEL * size_of::<u32>()).max(1)).max(1);
        for start in (0..row_words).step_by(most) {
            self.packed = start..(start + most).min(row_words);
            // SAFETY: the CPU has the instructions of `D`.
            unsafe { self.pack_a() };
            let mut panel = panels.start;
            while panel < panels.end {
                let wide = panel * PANEL..panel * PANEL + WIDE * D::V::LANES;
                let is_whole = self.block.columns.start <= wide.start && wide.end <= self.block.columns.end;
                // SAFETY: the CPU has the instructions of `D`.
                panel += unsafe {
                    if is_whole && self.rows() * WIDE <= D::MR * D::VECTORS {
                        self.multiply_wide(wide)
                    } else if self.widens_panels {
                        self.widen_panel(panel);
                        self.multiply_panels::<false>(panel..panel + 1)
                    } else {
                        self.multiply_panels::<true>(panel..(panel + at_once).min(panels.end))
                    }
                };
            }
        }
    }

    /// Packs A: copies the current words of all rows into micro-panels in scratch, `[steps, MR]`.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn pack_a(&mut self) {
        let (steps, lanes) = (self.steps(), D::V::LANES);
        let first_byte = self.packed.start * size_of::<u32>();
        // A row's last word may be incomplete.
        let whole = (self.block.x.len / size_of::<u32>()).clamp(self.packed.start, self.packed.end) - self.packed.start;
        let squares = whole / lanes * lanes;
        for tile in 0..self.tiles.count() {
            let rows = self.tiles.rows(tile);
            let row = |r: usize| &self.block.x.row(self.block.rows.start + rows.start + r)[first_byte..];
            let packed = &mut self.scratch.words()[SUMS + rows.start * steps..][..rows.len() * steps + MAX_LANES];
            for word in (0..squares).step_by(lanes) {
                // SAFETY: the instructions are the caller's duty. Each row has `LANES` whole words from `word` on;
                // what the last lines write beyond their rows is within `packed`, and is written over later.
                unsafe {
                    let mut low = [D::V::set1(0.0); MAX_LANES];
                    for (r, words) in low.iter_mut().enumerate().take(rows.len()) {
                        *words =
                            D::V::loadu(row(r)[word * size_of::<u32>()..][..lanes * size_of::<u32>()].as_ptr().cast());
                    }
                    D::V::transpose(&mut low);
                    let mut write = |line: usize, words: D::V| {
                        words.storeu(packed[line * rows.len()..][..lanes].as_mut_ptr().cast());
                    };
                    for (i, &words) in low.iter().enumerate().take(lanes) {
                        if D::IS_WIDENED {
                            let (first, second) = D::widen_rows(words);
                            write(2 * (word + i), first);
                            write(2 * (word + i) + 1, second);
                        } else {
                            write(word + i, words);
                        }
                    }
                }
            }
            for r in 0..rows.len() {
                let rest = &row(r)[squares * size_of::<u32>()..];
                for (word, bytes) in (squares..self.packed.len()).zip(rest.chunks(size_of::<u32>())) {
                    let mut whole = [0; size_of::<u32>()];
                    whole[..bytes.len()].copy_from_slice(bytes);
                    let whole = u32::from_le_bytes(whole);
                    if D::IS_WIDENED {
                        // SAFETY: the instructions are the caller's duty.
                        let (first, second) = D::widen_rows(unsafe { D::V::set1(f32::from_bits(whole)) });
                        packed[2 * word * rows.len() + r] = first.to_array()[0].to_bits();
                        packed[(2 * word + 1) * rows.len() + r] = second.to_array()[0].to_bits();
                    } else {
                        packed[word * rows.len() + r] = whole;
                    }
                }
            }
        }
    }

    /// Start of the widened panel in scratch.
    fn widened_panel(&self) -> usize {
        SUMS + self.rows() * self.steps() + MAX_LANES
    }

    /// Widens the current words of a panel into scratch.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn widen_panel(&mut self, panel: usize) {
        let start = self.widened_panel();
        let packed = &self.block.weight.panel(panel)[self.packed.start * PANEL..self.packed.end * PANEL];
        let widened = &mut self.scratch.words()[start..][..2 * packed.len()];
        for (line, two) in packed.chunks_exact(PANEL).zip(widened.chunks_exact_mut(2 * PANEL)) {
            for c in (0..PANEL).step_by(D::V::LANES) {
                // SAFETY: the instructions are the caller's duty; a line has `PANEL` words.
                unsafe {
                    let (first, second) = D::widen_columns(D::V::loadu(line.as_ptr().add(c).cast()));
                    first.storeu(two.as_mut_ptr().add(c).cast());
                    second.storeu(two.as_mut_ptr().add(PANEL + c).cast());
                }
            }
        }
    }

    /// Multiplies a few rows with whole panels, [`WIDE`] vectors at once; returns the number of panels.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn multiply_wide(&mut self, columns: Range<usize>) -> usize {
        let block = RegisterBlock {
            a: 0,
            b: self.block.weight.panels_from(columns.start / PANEL)[self.packed.start * PANEL..].as_ptr(),
            row: 0,
            first_column: columns.start,
            columns: columns.clone(),
        };
        // SAFETY: scratch has the words of all rows, and all panels of the columns exist.
        unsafe {
            match self.rows() {
                1 => self.multiply_vectors::<1, WIDE, true>(&block),
                2 => self.multiply_vectors::<2, WIDE, true>(&block),
                3 => self.multiply_vectors::<3, WIDE, true>(&block),
                _ => unreachable!("registers hold three rows at most"),
            }
            self.finish(&block, self.rows(), columns.len());
        }
        columns.len() / PANEL
    }

    /// Multiplies all rows with a range of panels; returns their number. `PACKED`: the panels are not widened yet.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn multiply_panels<const PACKED: bool>(&mut self, panels: Range<usize>) -> usize {
        for tile in 0..self.tiles.count() {
            for panel in panels.clone() {
                for offset in (0..PANEL).step_by(D::NR) {
                    // SAFETY: the caller's duty.
                    unsafe { self.multiply_part::<PACKED>(tile, panel, offset) };
                }
            }
        }
        panels.len()
    }

    /// Computes a register block: the rows of a tile times the columns of a panel from `offset` on.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    unsafe fn multiply_part<const PACKED: bool>(&mut self, tile: usize, panel: usize, offset: usize) {
        let (rows, wanted) = (self.tiles.rows(tile), self.block.columns_of(panel));
        let first = panel * PANEL + offset;
        let columns = first.max(wanted.start)..(first + D::NR).min(wanted.end);
        if columns.is_empty() {
            return;
        }
        let b = if D::IS_WIDENED && !PACKED {
            let start = self.widened_panel();
            self.scratch.words()[start + offset..].as_ptr()
        } else {
            self.block.weight.panel(panel)[self.packed.start * PANEL + offset..].as_ptr()
        };
        let block = RegisterBlock { a: rows.start * self.steps(), b, row: rows.start, first_column: first, columns };
        macro_rules! by_rows {
            ($($rows:literal)*) => {
                match rows.len() {
                    // SAFETY: scratch and panel have the words of the block, as sliced above.
                    $($rows if $rows <= D::MR => unsafe { self.multiply::<$rows, PACKED>(&block) },)*
                    _ => unreachable!("tiles have 1 to D::MR rows"),
                }
            };
        }
        by_rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
        // SAFETY: the CPU has the instructions of `D`; the sums have just been written.
        unsafe { self.finish(&block, rows.len(), D::NR) };
    }

    /// # Safety
    /// The CPU has the instructions of `D`; `a` and `b` of `block` have the steps' words for `R` rows and for the
    /// columns of a register block.
    #[inline(always)]
    unsafe fn multiply<const R: usize, const PACKED: bool>(&mut self, block: &RegisterBlock) {
        // SAFETY: the caller's duty.
        unsafe {
            if D::VECTORS == 2 {
                self.multiply_vectors::<R, 2, PACKED>(block);
            } else {
                self.multiply_vectors::<R, 1, PACKED>(block);
            }
        }
    }

    /// Leaves the sums of a register block in scratch, `[R, C * LANES]`.
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply).
    #[inline(always)]
    unsafe fn multiply_vectors<const R: usize, const C: usize, const PACKED: bool>(&mut self, part: &RegisterBlock) {
        const { assert!(R * C * D::V::LANES <= SUMS) };
        let steps = self.packed.len();
        let (sums_of_all, words) = self.scratch.words().split_at_mut(SUMS);
        let a = RowWords { start: words[part.a..].as_ptr(), step: R, row: 1 };
        let b = ColumnWords { start: part.b, line: PANEL, panel: self.block.weight.row_words() * PANEL };
        // SAFETY: `a` and `b` are the caller's duty; scratch has room for the sums of the largest block.
        unsafe {
            // The output of a large product is in no cache: prefetch it while the sums are computed.
            let out = self.block.at(part.row, part.columns.start);
            for r in 0..R {
                for c in 0..C {
                    prefetch::<L1>(out.wrapping_add(r * self.block.out_stride + c * D::V::LANES));
                }
            }
            let sums = if D::IS_WIDENED && PACKED {
                product_widening::<D, R, C>(steps, a, b)
            } else {
                product::<D, R, C>(steps * Self::WIDENING, a, b)
            };
            let to = sums_of_all.as_mut_ptr().cast::<f32>();
            for_rows!(r < R, {
                for c in 0..C {
                    D::to_vector(sums[r][c]).storeu(to.add((r * C + c) * D::V::LANES));
                }
            });
        }
    }

    /// Writes the sums of a register block, `rows` of `width` columns, to the product.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`; the sums are in scratch.
    #[inline(always)]
    unsafe fn finish(&mut self, part: &RegisterBlock, rows: usize, width: usize) {
        let is_first = self.packed.start == 0;
        let sums = &self.scratch.words()[part.columns.start - part.first_column..SUMS];
        // SAFETY: the caller's duty; rows and columns of a register block are in the block.
        unsafe { self.block.finish::<D::V>(part.row..part.row + rows, part.columns.clone(), is_first, (sums, width)) };
    }
}
