//! The product of up to two row tiles with up to two column tiles, over any number of steps.

use super::tile::{COLUMNS, ROW_BYTES, ROWS, Tiles};

/// Words of a line of two column tiles.
pub(crate) const LINE: usize = 2 * COLUMNS;

/// Bytes of a line of two column tiles.
const LINE_BYTES: usize = LINE * size_of::<u32>();

/// Addresses of one or two row tiles. Distances are in bytes.
#[derive(Clone, Copy)]
pub(crate) struct TileRows {
    pub(crate) start: *const u8,
    /// From one row to the next.
    pub(crate) row: usize,
    /// From one step of 16 words to the next.
    pub(crate) step: usize,
    /// From the first tile to the second.
    pub(crate) tile: usize,
}

/// The operands' lines that a product leaves in L1 because they are read again soon. The others are read past it.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    /// Steps of the rows, from the first.
    pub(crate) row_steps: usize,
    /// True if all columns stay in L1.
    pub(crate) columns: bool,
}

impl Kept {
    /// All lines.
    pub(crate) const ALL: Self = Self { row_steps: usize::MAX, columns: true };
}

/// Zeroes the sums of `ROWS_` row tiles and `COLUMNS_` column tiles, each 1 or 2. The sums of the first row tile are in tiles 0 and 1,
/// the sums of the second in 2 and 3.
#[inline(always)]
pub(crate) fn zero_sums<T: Tiles, const ROWS_: usize, const COLUMNS_: usize>(tiles: &mut T) {
    tiles.tilezero::<0>();
    if COLUMNS_ == 2 {
        tiles.tilezero::<1>();
    }
    if ROWS_ == 2 {
        tiles.tilezero::<2>();
        if COLUMNS_ == 2 {
            tiles.tilezero::<3>();
        }
    }
}

/// Reads the sums that [`store`] has written.
///
/// # Safety
/// The rows of the tiles may be read.
#[inline(always)]
pub(crate) unsafe fn load_sums<T: Tiles, const ROWS_: usize, const COLUMNS_: usize>(
    tiles: &mut T,
    from: *const u8,
    stride: usize,
) {
    // SAFETY: the caller's duty.
    unsafe {
        tiles.tileloadd::<0>(from, stride);
        if COLUMNS_ == 2 {
            tiles.tileloadd::<1>(from.add(ROW_BYTES), stride);
        }
        if ROWS_ == 2 {
            let from = from.add(ROWS * stride);
            tiles.tileloadd::<2>(from, stride);
            if COLUMNS_ == 2 {
                tiles.tileloadd::<3>(from.add(ROW_BYTES), stride);
            }
        }
    }
}

/// Work in pieces, whose instructions run while tiles multiply.
///
/// A trait and not a closure: a closure might not be inlined, and would then lack the instruction set.
pub(crate) trait Between {
    /// Does a piece.
    ///
    /// # Safety
    /// The CPU has the instructions of the work.
    unsafe fn piece(&mut self);
}

/// No work.
impl Between for () {
    #[inline(always)]
    unsafe fn piece(&mut self) {}
}

/// Adds to the sums ([`zero_sums`]) the products of `ROWS_` row tiles and `COLUMNS_` column tiles over `steps` of 16 words: of bytes if
/// `IS_INT8`, else of pairs of bf16. A tile's sums do not depend on the other tiles. Does a piece of `between`
/// after each step.
///
/// # Safety
/// The CPU has the instructions of `between`. The rows may be read, and at `b` a line of [`LINE`] words for each word of each step.
#[inline(always)]
pub(crate) unsafe fn multiply<T: Tiles, const ROWS_: usize, const COLUMNS_: usize, const IS_INT8: bool>(
    tiles: &mut T,
    a: TileRows,
    b: *const u32,
    steps: usize,
    kept: Kept,
    between: &mut impl Between,
) {
    for step in 0..steps {
        // SAFETY: the caller's duty; every address is within what it promised.
        unsafe {
            let rows = a.start.add(step * a.step);
            let columns = b.add(step * ROWS * LINE).cast::<u8>();
            load::<T, 4>(tiles, rows, a.row, step < kept.row_steps);
            load::<T, 6>(tiles, columns, LINE_BYTES, kept.columns);
            if ROWS_ == 2 {
                load::<T, 5>(tiles, rows.add(a.tile), a.row, step < kept.row_steps);
            }
            if COLUMNS_ == 2 {
                load::<T, 7>(tiles, columns.add(ROW_BYTES), LINE_BYTES, kept.columns);
            }
        }
        add::<T, 0, 4, 6, IS_INT8>(tiles);
        if COLUMNS_ == 2 {
            add::<T, 1, 4, 7, IS_INT8>(tiles);
        }
        if ROWS_ == 2 {
            add::<T, 2, 5, 6, IS_INT8>(tiles);
            if COLUMNS_ == 2 {
                add::<T, 3, 5, 7, IS_INT8>(tiles);
            }
        }
        // SAFETY: the caller's duty.
        unsafe { between.piece() };
    }
}

/// # Safety
/// As [`Tiles::tileloadd`].
#[inline(always)]
unsafe fn load<T: Tiles, const TILE: usize>(tiles: &mut T, from: *const u8, stride: usize, is_kept: bool) {
    // SAFETY: the caller's duty.
    unsafe {
        if is_kept {
            tiles.tileloadd::<TILE>(from, stride);
        } else {
            tiles.tileloaddt1::<TILE>(from, stride);
        }
    }
}

#[inline(always)]
fn add<T: Tiles, const SUMS: usize, const A: usize, const B: usize, const IS_INT8: bool>(tiles: &mut T) {
    if IS_INT8 {
        tiles.tdpbusd::<SUMS, A, B>();
    } else {
        tiles.tdpbf16ps::<SUMS, A, B>();
    }
}

/// Writes the sums of [`multiply`], rows `stride` bytes apart.
///
/// # Safety
/// The rows of the tiles may be written.
#[inline(always)]
pub(crate) unsafe fn store<T: Tiles, const ROWS_: usize, const COLUMNS_: usize>(
    tiles: &mut T,
    out: *mut u8,
    stride: usize,
) {
    // SAFETY: the caller's duty.
    unsafe {
        tiles.tilestored::<0>(out, stride);
        if COLUMNS_ == 2 {
            tiles.tilestored::<1>(out.add(ROW_BYTES), stride);
        }
        if ROWS_ == 2 {
            let out = out.add(ROWS * stride);
            tiles.tilestored::<2>(out, stride);
            if COLUMNS_ == 2 {
                tiles.tilestored::<3>(out.add(ROW_BYTES), stride);
            }
        }
    }
}
