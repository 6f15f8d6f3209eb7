//! Launchers of `cuda/rows.cu`.

use super::error::CudaError;
use super::launch::{Kernels, Launch, address, address_mut, row_threads};
use super::names::{SCALE_ROWS, names};
use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use crate::rowwise::PoolKind;
use crate::store::Store;
use cudarc::driver::{CudaView, CudaViewMut, DeviceRepr};

/// Threads of a block of the row gather, and the rows that it copies.
const GATHER_THREADS: u32 = 256;
const GATHER_ROWS: usize = GATHER_THREADS as usize / 32;

impl Kernels {
    /// `out[i] = src[index[i]]` for rows of `width` elements of 2 bytes or more; a row of NaN where an index is out of range.
    ///
    /// # Errors
    /// `src` or `out` is not a whole number of rows of this width.
    pub fn gather_rows<T: DeviceRepr>(
        &self,
        src: &CudaView<'_, T>,
        width: usize,
        index: &CudaView<'_, u32>,
        out: &mut CudaViewMut<'_, T>,
    ) -> Result<(), CudaError> {
        let src_rows = whole_rows("src", width, src.len())?;
        let rows = index.len();
        check_len("out", rows * width, out.len())?;
        let row_bytes = width * size_of::<T>();
        let (from, to) = (address(self, src), address_mut(self, out));
        let (name, unit) = gather_unit(row_bytes, from | to)?;
        let launch = Launch { name, blocks: rows.div_ceil(GATHER_ROWS), threads: GATHER_THREADS, shared_bytes: 0 };
        let index = address(self, index);
        self.launch(launch, &[from, index, to, rows as u64, src_rows as u64, (row_bytes / unit) as u64])
    }

    /// `out[i] = table[ids[i]]` as f32, or `out[i] += table[ids[i]]`, for rows of `width`; NaN where an id is out of range.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn embed<T: Element>(
        &self,
        table: &CudaView<'_, T>,
        width: usize,
        ids: &CudaView<'_, u32>,
        store: Store,
        out: &mut CudaViewMut<'_, f32>,
    ) -> Result<(), CudaError> {
        let vocab_size = whole_rows("table", width, table.len())?;
        check_len("out", ids.len() * width, out.len())?;
        let (blocks, table, ids) = (ids.len(), address(self, table), address(self, ids));
        let out = address_mut(self, out);
        let launch = Launch::by_rows(names::<T>().embed, blocks, width, 4, &[table, out]);
        let accumulate = u64::from(store == Store::Accumulate);
        self.launch(launch, &[table, ids, out, vocab_size as u64, width as u64, accumulate])
    }

    /// `out = x`, rounded to the type of `out`, rows of `width`.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn convert<T: Element>(
        &self,
        x: &CudaView<'_, f32>,
        width: usize,
        out: &mut CudaViewMut<'_, T>,
    ) -> Result<(), CudaError> {
        let blocks = whole_rows("x", width, x.len())?;
        check_len("out", x.len(), out.len())?;
        let (x, out) = (address(self, x), address_mut(self, out));
        let launch = Launch::by_rows(names::<T>().convert, blocks, width, 4, &[x, out]);
        self.launch(launch, &[x, out, width as u64])
    }

    /// `out = bias` for every row, or `out += bias`.
    ///
    /// # Errors
    /// `out` is not a whole number of rows.
    pub fn bias_rows<T: Element>(
        &self,
        bias: &CudaView<'_, f32>,
        accumulate: bool,
        out: &mut CudaViewMut<'_, T>,
    ) -> Result<(), CudaError> {
        let width = bias.len();
        let blocks = whole_rows("out", width, out.len())?;
        let launch = Launch { name: names::<T>().bias_rows, blocks, threads: row_threads(width), shared_bytes: 0 };
        let (bias, out) = (address(self, bias), address_mut(self, out));
        self.launch(launch, &[out, bias, width as u64, u64::from(accumulate)])
    }

    /// Keeps of each row the columns of its own group, as [`crate::own_columns`]; `width` and `out_width` are the columns of `x` and
    /// `out`. A group out of range gives a row of NaN.
    ///
    /// # Errors
    /// The lengths do not fit together, or `out_width` is not a multiple of `group`.
    pub fn own_columns<T: Element>(
        &self,
        x: &CudaView<'_, f32>,
        width: usize,
        own: &CudaView<'_, u32>,
        group: usize,
        out: &mut CudaViewMut<'_, T>,
        out_width: usize,
    ) -> Result<(), CudaError> {
        let blocks = own.len();
        check_len("x", blocks * width, x.len())?;
        check_len("out", blocks * out_width, out.len())?;
        whole_rows("a row of out", group, out_width)?;
        if width != out_width {
            check_len("a row of x", group, width)?;
        }
        let (x, own, out) = (address(self, x), address(self, own), address_mut(self, out));
        let threads = row_threads(out_width);
        let launch = Launch { name: names::<T>().own_columns, blocks, threads, shared_bytes: 0 };
        self.launch(launch, &[x, own, out, width as u64, group as u64, out_width as u64])
    }

    /// `x *= factor` for rows of `width` values, as [`crate::scale_rows`].
    ///
    /// # Errors
    /// `x` is not a whole number of rows.
    pub fn scale_rows(&self, x: &mut CudaViewMut<'_, f32>, width: usize, factor: f32) -> Result<(), CudaError> {
        let rows = whole_rows("x", width, x.len())?;
        let x = address_mut(self, x);
        let launch = Launch::by_rows(SCALE_ROWS, rows, width, 4, &[x]);
        self.launch(launch, &[x, factor.to_bits().into(), width as u64])
    }

    /// `out[b] = pool(x[table[i]] for i in starts[b]..starts[b + 1])`, optionally scaled to unit length; rows of `width`. The
    /// caller guarantees the indices, which are in device memory: see [`crate::cuda`].
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn pool_rows(
        &self,
        x: &CudaView<'_, f32>,
        width: usize,
        pool: &PoolRows<'_>,
        out: &mut CudaViewMut<'_, f32>,
    ) -> Result<(), CudaError> {
        let rows = whole_rows("x", width, x.len())?;
        if pool.rows_end > rows {
            return Err(KernelError::Index { argument: "row", found: pool.rows_end, limit: rows + 1 }.into());
        }
        let outputs = pool.starts.len().saturating_sub(1);
        check_len("out", outputs * width, out.len())?;
        let threads = row_threads(width);
        let parts = if pool.normalize { 1 } else { width.div_ceil(threads as usize) };
        let launch = Launch { name: "pool_rows", blocks: outputs * parts, threads, shared_bytes: 0 };
        let (x, out) = (address(self, x), address_mut(self, out));
        let (table, starts) = (address(self, &pool.table), address(self, &pool.starts));
        let kind = match pool.kind {
            PoolKind::Mean => 0,
            PoolKind::Max => 1,
            PoolKind::MeanSqrtLen => 2,
            PoolKind::WeightedMean => 3,
        };
        let sizes = [width as u64, parts as u64];
        self.launch(launch, &[&[x, table, starts, out][..], &sizes, &[kind, u64::from(pool.normalize)]].concat())
    }
}

/// The rows to pool. The indices are in device memory; `rows_end` was found while they were on the host.
#[derive(Debug)]
pub struct PoolRows<'a> {
    /// Pooling function.
    pub kind: PoolKind,
    /// The rows of all outputs, one after another.
    pub table: CudaView<'a, u32>,
    /// Start of each output's rows in the table, then the end of the last output's rows. The pool of no rows is zero.
    pub starts: CudaView<'a, u32>,
    /// One more than the largest row in the table.
    pub rows_end: usize,
    /// Scale each output to unit length.
    pub normalize: bool,
}

/// The kernel with the widest accesses for rows of `row_bytes` at these addresses, and the bytes it copies at once.
fn gather_unit(row_bytes: usize, addresses: u64) -> Result<(&'static str, usize), KernelError> {
    [("gather_rows_16", 16), ("gather_rows_4", 4), ("gather_rows_2", 2)]
        .into_iter()
        .find(|&(_, unit)| row_bytes.is_multiple_of(unit) && addresses.is_multiple_of(unit as u64))
        .ok_or(KernelError::Value { argument: "bytes of a row", found: row_bytes, expected: "a multiple of 2" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_copied_in_the_widest_unit_that_divides_them() {
        let unit = |row_bytes, address| gather_unit(row_bytes, address).unwrap().1;
        assert_eq!([unit(64, 256), unit(64, 8), unit(20, 256), unit(6, 256), unit(64, 2)], [16, 4, 4, 2, 2]);
        assert!(gather_unit(3, 256).is_err());
    }
}
