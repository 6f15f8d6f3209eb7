//! The product on tiles of AMX: rows are row tiles and a panel is two column tiles, both without a copy.

use super::{Before, Panel, Products, Rows, Sums};
use crate::simd::Vector;
use crate::tiles::{
    Between, COLUMNS, Kept, LINE, ROW_BYTES, ROWS, TileRows, Tiles, load_sums, multiply, store, zero_sums,
};
use half::bf16;
use std::marker::PhantomData;

/// The product on the tiles `T`, with vectors `V` for the rest.
pub(crate) struct OnTiles<T, V> {
    tiles: T,
    vectors: PhantomData<V>,
}

impl<T: Tiles, V: Vector> OnTiles<T, V> {
    /// # Safety
    /// As [`Tiles::new`].
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: the caller's duty.
        Self { tiles: unsafe { T::new() }, vectors: PhantomData }
    }

    /// Multiplies one or two row tiles with one or two column tiles.
    ///
    /// # Safety
    /// As [`Products::multiply`]; there are more than 16 rows only with two row tiles.
    #[inline(always)]
    unsafe fn multiply_tiles<const ROW_TILES: usize, const COLUMN_TILES: usize>(
        &mut self,
        rows: Rows<'_>,
        panel: &[u32],
        sums: Sums<'_>,
        between: &mut impl Between,
    ) {
        let row = rows.stride * size_of::<u32>();
        let a = TileRows { start: rows.words.as_ptr().cast(), row, step: ROW_BYTES, tile: ROWS * row };
        let b = panel[..rows.len * LINE].as_ptr();
        let (to, stride) = (sums.to.cast::<u8>(), sums.stride * size_of::<f32>());
        // SAFETY: the caller's duty.
        unsafe {
            match sums.before {
                Before::Zero => zero_sums::<T, ROW_TILES, COLUMN_TILES>(&mut self.tiles),
                Before::Kept => load_sums::<T, ROW_TILES, COLUMN_TILES>(&mut self.tiles, to, stride),
                Before::Rescaled(factors) => {
                    for (r, &factor) in factors[..rows.count].iter().enumerate() {
                        for c in 0..COLUMN_TILES * COLUMNS / V::LANES {
                            let to = sums.vector::<V>(r, c);
                            V::loadu(to).mul(V::set1(factor)).storeu(to);
                        }
                    }
                    load_sums::<T, ROW_TILES, COLUMN_TILES>(&mut self.tiles, to, stride);
                }
            }
            let steps = rows.len / COLUMNS;
            multiply::<T, ROW_TILES, COLUMN_TILES, false>(&mut self.tiles, a, b, steps, Kept::ALL, between);
            store::<T, ROW_TILES, COLUMN_TILES>(&mut self.tiles, to, stride);
        }
    }
}

impl<T: Tiles, V: Vector> Products for OnTiles<T, V> {
    type V = V;
    type Element = bf16;
    const ELEMENTS: usize = 2;
    const VECTORS: usize = LINE / V::LANES;
    const STEP: usize = COLUMNS;

    #[inline(always)]
    fn pieces(len: usize, columns: usize) -> usize {
        columns.div_ceil(LINE) * (len / COLUMNS)
    }

    #[inline(always)]
    fn round(values: V) -> V {
        V::pack_bf16(values, values).unpack_bf16().0
    }

    #[inline(always)]
    unsafe fn multiply(&mut self, rows: Rows<'_>, panel: Panel<'_>, sums: Sums<'_>, between: &mut impl Between) {
        // SAFETY: the caller's duty.
        unsafe {
            match (rows.count > ROWS, panel.vectors * V::LANES > COLUMNS) {
                (true, true) => self.multiply_tiles::<2, 2>(rows, panel.words, sums, between),
                (true, false) => self.multiply_tiles::<2, 1>(rows, panel.words, sums, between),
                (false, true) => self.multiply_tiles::<1, 2>(rows, panel.words, sums, between),
                (false, false) => self.multiply_tiles::<1, 1>(rows, panel.words, sums, between),
            }
        }
    }
}
