//! LayerNorm of the f32 residual stream.

use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use crate::isa::Isa;
use crate::rowwise::rows::for_row_blocks;
use crate::simd::{self, Operation, Simd, Vector, for_vectors};

/// `out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias`, row by row, with the population variance of the row.
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm<'a> {
    /// `[width]`
    pub weight: &'a [f32],
    /// `[width]`
    pub bias: &'a [f32],
    /// Added to the variance.
    pub eps: f32,
}

impl LayerNorm<'_> {
    /// Normalises `x`, `[rows, width]`, into `out`.
    ///
    /// # Errors
    /// If the lengths do not fit together.
    pub fn run<E: Element>(&self, x: &[f32], out: &mut [E]) -> Result<(), KernelError> {
        self.run_with(Isa::best(), x, out)
    }

    /// [`run`](Self::run) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_with<E: Element>(&self, isa: Isa, x: &[f32], out: &mut [E]) -> Result<(), KernelError> {
        let width = self.check(x.len())?;
        check_len("out", x.len(), out.len())?;
        for_row_blocks(out, width, |first, out| {
            let x = &x[first * width..][..out.len()];
            simd::run(isa, Rows { norm: self, x: x.as_ptr(), out, stride: width, offset: 0 });
        });
        Ok(())
    }

    /// Normalises `x`, `[rows, width]`, in place.
    ///
    /// # Errors
    /// If the lengths do not fit together.
    pub fn run_in_place(&self, x: &mut [f32]) -> Result<(), KernelError> {
        self.run_in_place_with(Isa::best(), x)
    }

    /// [`run_in_place`](Self::run_in_place) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_in_place_with(&self, isa: Isa, x: &mut [f32]) -> Result<(), KernelError> {
        let width = self.check(x.len())?;
        for_row_blocks(x, width, |_, x| {
            simd::run(isa, Rows { norm: self, x: x.as_ptr(), out: x, stride: width, offset: 0 });
        });
        Ok(())
    }

    /// Normalises `width` columns of `x`, `[rows, stride]`, from column `offset` on, in place, where `width` is the norm's.
    ///
    /// # Errors
    /// If the lengths do not fit together.
    pub fn run_columns(&self, x: &mut [f32], stride: usize, offset: usize) -> Result<(), KernelError> {
        self.run_columns_with(Isa::best(), x, stride, offset)
    }

    /// [`run_columns`](Self::run_columns) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_columns_with(&self, isa: Isa, x: &mut [f32], stride: usize, offset: usize) -> Result<(), KernelError> {
        let end = offset.saturating_add(self.check(0)?);
        whole_rows("x", stride, x.len())?;
        if end > stride {
            return Err(KernelError::Index { argument: "offset", found: end, limit: stride + 1 });
        }
        for_row_blocks(x, stride, |_, x| simd::run(isa, Rows { norm: self, x: x.as_ptr(), out: x, stride, offset }));
        Ok(())
    }

    /// The width, if `values` is a whole number of rows.
    fn check(&self, values: usize) -> Result<usize, KernelError> {
        let width = self.weight.len();
        check_len("bias", width, self.bias.len())?;
        whole_rows("x", width, values)?;
        Ok(width)
    }
}

/// The columns from `offset` on of a range of rows of `stride` values. `x` has the length of `out`, and may be `out` itself.
struct Rows<'a, E> {
    norm: &'a LayerNorm<'a>,
    x: *const f32,
    out: &'a mut [E],
    stride: usize,
    offset: usize,
}

impl<E: Element> Operation for Rows<'_, E> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = self.norm.weight.len();
        let out = self.out.as_mut_ptr();
        for row in 0..self.out.len() / self.stride {
            // SAFETY: the instruction set is the caller's duty; vectors are within `width` columns of rows of `stride`, and each is
            // read before it is written.
            unsafe {
                let first = row * self.stride + self.offset;
                let (x, out) = (self.x.add(first), out.add(first));
                let (mean, scale) = moments::<S::V>(x, width, self.norm.eps);
                for_vectors::<S::V>(width, |i, count| {
                    let centred = S::V::loadu_up_to(x.add(i), count).sub(mean);
                    let weight = S::V::loadu_up_to(self.norm.weight.as_ptr().add(i), count);
                    let bias = S::V::loadu_up_to(self.norm.bias.as_ptr().add(i), count);
                    centred.mul(scale).fmadd(weight, bias).store_elements(out.add(i), count);
                });
            }
        }
    }
}

/// Mean and `1 / sqrt(variance + eps)` of a row; NaN where the squares overflow, because a factor of 0 would turn large values
/// into the bias, which looks like an answer.
///
/// # Safety
/// The CPU has the instructions of `V`, and `x` has `width` values.
#[inline(always)]
unsafe fn moments<V: Vector>(x: *const f32, width: usize, eps: f32) -> (V, V) {
    // SAFETY: the caller's duty; vectors are within `x`.
    unsafe {
        let mut sums = [V::set1(0.0); 2];
        let mut chain = 0;
        for_vectors::<V>(width, |i, count| {
            sums[chain] = sums[chain].add(V::loadu_up_to(x.add(i), count));
            chain ^= 1;
        });
        let mean = V::set1(sums[0].add(sums[1]).reduce_add() / width as f32);
        let whole = width / V::LANES * V::LANES;
        let mut squares = [V::set1(0.0); 2];
        chain = 0;
        for_vectors::<V>(whole, |i, _| {
            let centred = V::loadu(x.add(i)).sub(mean);
            squares[chain] = centred.fmadd(centred, squares[chain]);
            chain ^= 1;
        });
        let mut sum = squares[0].add(squares[1]).reduce_add();
        // Lanes beyond the row's end would add the square of the mean.
        for i in whole..width {
            let centred = *x.add(i) - mean.to_array()[0];
            sum += centred * centred;
        }
        let scale = if sum.is_finite() { 1.0 / (sum / width as f32 + eps).sqrt() } else { f32::NAN };
        (mean, V::set1(scale))
    }
}
