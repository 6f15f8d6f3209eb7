//! Quantization error of a product.

use super::Gemm;
use super::pack::PackedMatrix;
use super::rows::with_rows;
use crate::error::{KernelError, whole_rows};
use crate::isa::Isa;
use crate::quantization::rows::RowScale;
use crate::simd::Int8;

/// Maximum rows in the sample.
const ROWS: usize = 64;

impl PackedMatrix<Int8> {
    /// Quantization error of the product of `x`, `[rows, k]`, with these weights: the root mean square over rows of the error
    /// relative to the row's product, at most 1 each. The sample is at most 64 rows and 64 columns, evenly spread.
    ///
    /// The error due to the quantization of `x` is computed. The error due to the quantization of the weights is estimated from the
    /// errors measured when they were packed, independently of `x`, because the original weights are gone. A single large weight
    /// that leaves the others in its column few steps therefore counts even where its input is always 0.
    ///
    /// # Errors
    /// If `x` is not a whole number of rows.
    pub fn quantization_error(&self, x: &[f32]) -> Result<f64, KernelError> {
        let k = self.cols();
        let rows = whole_rows("x", k, x.len())?;
        let columns = self.sampled_rows().len();
        let mut weights = Vec::with_capacity(columns * k);
        self.sampled_rows().for_each(|row| weights.append(&mut self.unpack_row(row)));
        let weights = PackedMatrix::<f32>::pack(&weights, columns, k)?;
        let mut sampled = Vec::with_capacity(ROWS * k);
        x.chunks_exact(k).step_by(rows.div_ceil(ROWS).max(1)).for_each(|row| sampled.extend_from_slice(row));
        let x = sampled;
        let mut changes = Vec::with_capacity(x.len());
        with_rows::<Int8, _>(Isa::best(), &x, k, |quantized| {
            for (row, (x, &RowScale { scale, zero_point })) in x.chunks_exact(k).zip(quantized.scales).enumerate() {
                let bytes = quantized.row(row).iter().zip(x);
                changes.extend(bytes.map(|(&byte, x)| scale * (i32::from(byte) - zero_point) as f32 - x));
            }
        });
        let [mut product, mut change] = [(); 2].map(|()| vec![0.0; x.len() / k * columns]);
        Gemm::new(&x, &weights).run(&mut product)?;
        Gemm::new(&changes, &weights).run(&mut change)?;
        let squares = |values: &[f32]| values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        let of_weights: f64 = self.quantized().error_squares.iter().map(|squares| squares / k as f64).sum();
        let rows = product.chunks_exact(columns).zip(change.chunks_exact(columns)).zip(x.chunks_exact(k));
        let errors: Vec<f64> = rows
            .map(|((product, change), x)| (squares(change) + of_weights * squares(x), squares(product)))
            .map(|(change, product)| if change > product { 1.0 } else { change / product.max(f64::MIN_POSITIVE) })
            .collect();
        Ok((errors.iter().sum::<f64>() / errors.len().max(1) as f64).sqrt())
    }
}
