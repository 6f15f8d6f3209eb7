//! Linear layers over weights packed once at load time.

use super::storage::{dims, slice, slice_mut, with_element};
use super::{kernel_error, timed};
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};
use prefold_kernels::{Gemm, PackedMatrix};
use std::ops::Range;

pub(crate) use prefold_kernels::Store;

/// `y = x W^T + b` with W `[out_features, in_features]`.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: PackedMatrix,
    bias: Option<Vec<f32>>,
}

impl Linear {
    pub(crate) fn new(weight: PackedMatrix, bias: Option<Vec<f32>>) -> Self {
        Self { weight, bias }
    }

    pub(crate) fn out_features(&self) -> usize {
        self.weight.rows()
    }

    /// Writes `x W^T + b` to `out`, or adds it.
    pub(crate) fn forward(&self, x: &Tensor, out: &Tensor, store: Store) -> Result<()> {
        self.forward_columns(0..self.out_features(), x, out, store)
    }

    /// The same for some of the output columns; `out` has only those.
    pub(crate) fn forward_columns(&self, columns: Range<usize>, x: &Tensor, out: &Tensor, store: Store) -> Result<()> {
        timed("linear", || out.inplace_op2(x, &LinearOp { linear: self, columns, store }))
    }
}

struct LinearOp<'a> {
    linear: &'a Linear,
    columns: Range<usize>,
    store: Store,
}

impl InplaceOp2 for LinearOp<'_> {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, out_layout: &Layout, x: &CpuStorage, x_layout: &Layout) -> Result<()> {
        let (rows, in_features) = dims(x_layout)?;
        if dims(out_layout)? != (rows, self.columns.len()) || in_features != self.linear.weight.cols() {
            candle_core::bail!("linear: input {x_layout:?}, output {out_layout:?}, columns {:?}", self.columns);
        }
        let out = slice_mut::<f32>(out, out_layout)?;
        let bias = self.linear.bias.as_ref().map(|bias| &bias[self.columns.clone()]);
        with_element!(x, T => {
            let x = slice::<T>(x, x_layout)?;
            let weight = &self.linear.weight;
            let gemm = Gemm { x, weight, columns: self.columns.clone(), bias, store: self.store };
            gemm.run(out).map_err(kernel_error)
        })
    }
}
