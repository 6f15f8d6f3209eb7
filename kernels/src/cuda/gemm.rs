//! Matrix products by cuBLAS.

use super::error::CudaError;
use super::launch::{Kernels, address, address_mut};
use super::names::data_type;
use super::stream::Blas;
use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use crate::store::Store;
use cudarc::cublas::result;
use cudarc::cublas::sys::{cublasComputeType_t, cublasGemmAlgo_t, cublasOperation_t};
use cudarc::driver::{CudaView, CudaViewMut};
use std::ffi::c_void;
use std::ops::Range;

/// A product `x W^T` with f32 accumulation.
#[derive(Debug)]
pub struct Gemm<'a, T> {
    /// Input, `[m, k]`.
    pub x: CudaView<'a, T>,
    /// `[n, k]`, row-major.
    pub weight: CudaView<'a, T>,
    /// k.
    pub in_features: usize,
    /// Rows of the weight to multiply with: the columns of the product.
    pub columns: Range<usize>,
    /// Replace the output or add to it.
    pub store: Store,
}

impl<T: Element> Gemm<'_, T> {
    /// Queues the product; `out` is `[m, columns.len()]`, of the input's type or of f32.
    ///
    /// # Errors
    /// The lengths do not fit together.
    pub fn run<O: Element>(
        &self,
        kernels: &Kernels,
        blas: &Blas,
        out: &mut CudaViewMut<'_, O>,
    ) -> Result<(), CudaError> {
        let k = self.in_features;
        let m = whole_rows("x", k, self.x.len())?;
        let rows = whole_rows("weight", k, self.weight.len())?;
        if self.columns.start > self.columns.end || self.columns.end > rows {
            let found = self.columns.end;
            return Err(KernelError::Index { argument: "end of the columns", found, limit: rows + 1 }.into());
        }
        let n = self.columns.len();
        check_len("out", m * n, out.len())?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let int = |argument, size: usize| {
            i32::try_from(size).map_err(|_| KernelError::Index { argument, found: size, limit: 1 << 31 })
        };
        let (m, n, k) = (int("rows of x", m)?, int("columns", n)?, int("in_features", k)?);
        let weight = address(kernels, &self.weight) + (self.columns.start * self.in_features * size_of::<T>()) as u64;
        let (x, out) = (address(kernels, &self.x), address_mut(kernels, out));
        let alpha = 1.0_f32;
        let beta = if self.store == Store::Accumulate { 1.0_f32 } else { 0.0 };
        // cuBLAS works in the context of the calling thread.
        kernels.stream().context().bind_to_thread()?;
        // cuBLAS is column-major: row-major x [m, k] is its [k, m], so out^T = W x^T is a product of [n, k] (transposed) and
        // [k, m], and column-major out^T [n, m] is row-major out [m, n].
        //
        // SAFETY: the pointers are to m * k, n * k and m * n elements of the given types, as checked above; scale factors are
        // f32 on the host, as the compute type and the handle's default pointer mode ask for.
        unsafe {
            result::gemm_ex(
                *blas.handle().handle(),
                cublasOperation_t::CUBLAS_OP_T,
                cublasOperation_t::CUBLAS_OP_N,
                n,
                m,
                k,
                (&raw const alpha).cast::<c_void>(),
                weight as *const c_void,
                data_type::<T>(),
                k,
                x as *const c_void,
                data_type::<T>(),
                k,
                (&raw const beta).cast::<c_void>(),
                out as *mut c_void,
                data_type::<O>(),
                n,
                cublasComputeType_t::CUBLAS_COMPUTE_32F,
                cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }?;
        Ok(())
    }
}
