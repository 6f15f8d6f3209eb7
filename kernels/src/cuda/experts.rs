//! Launchers of `cuda/experts.cu`.

use super::error::CudaError;
use super::launch::{Kernels, Launch, address, address_mut};
use super::names::SCATTER_ADD_ROWS;
use crate::error::{check_len, whole_rows};
use crate::rowwise::experts::check_route;
use cudarc::driver::{CudaView, CudaViewMut};

/// Threads that list the rows of an expert: the maximum of a block.
const ROUTE_THREADS: usize = 1024;

/// Rows of a matrix, with a factor for each.
#[derive(Debug)]
pub struct RowFactors<'a> {
    /// The rows, without duplicates.
    pub index: CudaView<'a, u32>,
    /// The bits of `f32` values, one for each row.
    pub factors: CudaView<'a, u32>,
}

impl Kernels {
    /// Lists the rows of each expert in the layout of [`crate::route_rows`]. A row with a NaN score may have more experts than
    /// `top`, with NaN weights.
    ///
    /// # Errors
    /// The lengths do not fit together, or there are fewer experts than `top`.
    pub fn route_rows(
        &self,
        scores: &CudaView<'_, f32>,
        experts: usize,
        top: usize,
        table: &mut CudaViewMut<'_, u32>,
    ) -> Result<(), CudaError> {
        let rows = check_route(scores.len(), experts, top, table.len())?;
        let (scores, listed) = (address(self, scores), address_mut(self, table));
        let part = (experts * rows * size_of::<u32>()) as u64;
        let (weights, counts) = (listed + part, listed + 2 * part);
        let threads = rows.next_multiple_of(32).clamp(32, ROUTE_THREADS) as u32;
        let blocks = if rows == 0 { 0 } else { experts };
        let launch = Launch { name: "route_rows", blocks, threads, shared_bytes: 0 };
        self.launch(launch, &[scores, listed, weights, counts, rows as u64, experts as u64, top as u64])
    }

    /// `out[index[i]] += factors[i] * x[i]` for rows of `width` values, as [`crate::scatter_add_rows`]; indices out of range are skipped.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn scatter_add_rows(
        &self,
        x: &CudaView<'_, f32>,
        width: usize,
        to: &RowFactors<'_>,
        out: &mut CudaViewMut<'_, f32>,
    ) -> Result<(), CudaError> {
        let rows = whole_rows("x", width, x.len())?;
        check_len("index", rows, to.index.len())?;
        check_len("factors", rows, to.factors.len())?;
        self.queue_sum(x, width, [address(self, &to.index), address(self, &to.factors)], out)
    }

    /// `out += x` for rows of `width` values.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn add_rows(
        &self,
        x: &CudaView<'_, f32>,
        width: usize,
        out: &mut CudaViewMut<'_, f32>,
    ) -> Result<(), CudaError> {
        check_len("out", x.len(), out.len())?;
        self.queue_sum(x, width, [0, 0], out)
    }

    /// `[index, factors]` are addresses, or 0 for none.
    fn queue_sum(
        &self,
        x: &CudaView<'_, f32>,
        width: usize,
        [index, factors]: [u64; 2],
        out: &mut CudaViewMut<'_, f32>,
    ) -> Result<(), CudaError> {
        let blocks = whole_rows("x", width, x.len())?;
        let out_rows = whole_rows("out", width, out.len())?;
        let (x, out) = (address(self, x), address_mut(self, out));
        let launch = Launch::by_rows(SCATTER_ADD_ROWS, blocks, width, 4, &[x, out]);
        self.launch(launch, &[x, index, factors, out, out_rows as u64, width as u64])
    }
}
