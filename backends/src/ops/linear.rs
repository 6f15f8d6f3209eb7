//! Linear layers: weights packed once at load time on a CPU, as they are on a GPU.

use super::storage::{dims, slice, slice_mut, with_element};
use super::target::Target;
use super::weights::{Values, Vector};
use super::{kernel_error, timed};
use crate::LoadError;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};
use prefold_kernels::{Gemm, PackedMatrix, PackedMatrixBuilder};
use std::ops::Range;

pub(crate) use prefold_kernels::Store;

/// `y = x W^T + b` with W `[out_features, in_features]`.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: Weight,
    bias: Option<Vector>,
}

#[derive(Debug)]
enum Weight {
    Packed(PackedMatrix),
    /// `[out_features, in_features]` in the memory of a GPU.
    Device(Tensor),
}

impl Weight {
    fn rows(&self) -> usize {
        match self {
            Self::Packed(matrix) => matrix.rows(),
            Self::Device(matrix) => matrix.dims()[0],
        }
    }
}

/// Puts matrices one below the other.
pub(crate) struct LinearBuilder<'a> {
    target: &'a Target,
    shape: (usize, usize),
    parts: Parts,
}

enum Parts {
    Packed(PackedMatrixBuilder),
    /// Together on the host, so that they are on the device but once.
    Device(Option<Values>),
}

impl<'a> LinearBuilder<'a> {
    /// A layer of `out_features` in all.
    ///
    /// # Errors
    /// A size is 0.
    pub(crate) fn new(
        target: &'a Target,
        out_features: usize,
        in_features: usize,
    ) -> std::result::Result<Self, LoadError> {
        let parts = match target.is_cpu() {
            true => Parts::Packed(PackedMatrixBuilder::new(target.precision(), out_features, in_features)?),
            false => Parts::Device(None),
        };
        Ok(Self { target, shape: (out_features, in_features), parts })
    }

    /// Adds rows, of the target's type.
    ///
    /// # Errors
    /// They are of another type, or on a CPU not whole rows.
    pub(crate) fn push(&mut self, values: Values) -> std::result::Result<(), LoadError> {
        match (&mut self.parts, values) {
            (Parts::Packed(packed), Values::F32(values)) => packed.push(&values)?,
            (Parts::Packed(packed), Values::Bf16(values)) => packed.push(&values)?,
            (Parts::Packed(_), Values::F16(_)) => {
                return Err(LoadError::Compute("float16 weights cannot be packed for a CPU".to_owned()));
            }
            (Parts::Device(Some(parts)), values) => parts.append(values)?,
            (Parts::Device(parts @ None), values) => *parts = Some(values),
        }
        Ok(())
    }

    /// The layer.
    ///
    /// # Errors
    /// Rows are missing, or the device has no room.
    pub(crate) fn finish(self, bias: Option<Vec<f32>>) -> std::result::Result<Linear, LoadError> {
        let weight = match self.parts {
            Parts::Packed(packed) => Weight::Packed(packed.finish()?),
            Parts::Device(None) => return Err(LoadError::Compute("a linear layer without rows".to_owned())),
            Parts::Device(Some(values)) => Weight::Device(values.tensor(self.shape, self.target)?),
        };
        Ok(Linear { weight, bias: bias.map(|bias| Vector::new(bias, self.target)).transpose()? })
    }
}

impl Linear {
    /// A layer on the CPU.
    pub(crate) fn packed(weight: PackedMatrix, bias: Option<Vec<f32>>) -> Self {
        Self { weight: Weight::Packed(weight), bias: bias.map(Vector::on_cpu) }
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
        let Weight::Packed(weight) = &self.linear.weight else {
            candle_core::bail!("linear: the weight is on a GPU, the input on the CPU")
        };
        let (rows, in_features) = dims(x_layout)?;
        if dims(out_layout)? != (rows, self.columns.len()) || in_features != weight.cols() {
            candle_core::bail!("linear: input {x_layout:?}, output {out_layout:?}, columns {:?}", self.columns);
        }
        let out = slice_mut::<f32>(out, out_layout)?;
        let bias = self.linear.bias.as_ref().map(|bias| &bias.host[self.columns.clone()]);
        with_element!(x, T => {
            let x = slice::<T>(x, x_layout)?;
            let gemm = Gemm { x, weight, columns: self.columns.clone(), bias, store: self.store };
            gemm.run(out).map_err(kernel_error)
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, out: &mut CudaStorage, out_layout: &Layout, x: &CudaStorage, x_layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_cuda_element, with_view};
        let Weight::Device(weight) = &self.linear.weight else {
            candle_core::bail!("linear: the weight is on the CPU, the input on a GPU")
        };
        let (rows, in_features) = dims(x_layout)?;
        if dims(out_layout)? != (rows, self.columns.len()) || in_features != weight.dim(1)? {
            candle_core::bail!("linear: input {x_layout:?}, output {out_layout:?}, columns {:?}", self.columns);
        }
        let cuda = cuda::of(x)?;
        let mut store = self.store;
        if let Some(bias) = &self.linear.bias {
            // The product is added to the bias.
            let bias = bias.device()?.slice(self.columns.clone());
            with_cuda_element!(out, O => {
                let out = &mut view_mut::<O>(out, out_layout)?;
                cuda.kernels.bias_rows(&bias, store == Store::Accumulate, out).map_err(cuda_error)?;
            });
            store = Store::Accumulate;
        }
        with_cuda_element!(x, T => with_view::<T, _>(weight, |weight| {
            let columns = self.columns.clone();
            let gemm = prefold_kernels::cuda::Gemm { x: view::<T>(x, x_layout)?, weight, in_features, columns, store };
            with_cuda_element!(out, O => {
                gemm.run(&cuda.kernels, &cuda.blas, &mut view_mut::<O>(out, out_layout)?).map_err(cuda_error)
            })
        }))
    }
}
