//! The matrix of a linear layer: packed for a CPU, or in the memory of a GPU.

use crate::error::LoadError;
use crate::ops::device::target::Target;
use crate::ops::pacing::yields::Yields;
use crate::ops::rowwise::rows::convert;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor};
use crate::ops::tensor::storage::{kernel_error, slice, strided_mut, with_element};
use candle_core::{CpuStorage, DType, Layout, Result, Tensor, WithDType};
use half::bf16;
use prefold_kernels::{Activation, Dtype, Float, Gemm, Int8, PackedMatrix, PackedMatrixBuilder, Packing, Store};
use std::fmt::Debug;
use std::ops::Range;

type LoadResult<T> = std::result::Result<T, LoadError>;

/// The matrix of a linear layer.
#[derive(Debug)]
pub(super) enum Weight {
    Packed(Box<dyn Packed>),
    /// `[out_features, in_features]` in the memory of a GPU.
    Device(Tensor),
}

impl Weight {
    /// Packs or uploads matrices one below the other; see [`Linear::load`](super::Linear::load).
    ///
    /// # Errors
    /// A matrix cannot be read or has another shape, rows are missing, or the device has no room.
    pub(super) fn load(
        target: &Target,
        dtype: Dtype,
        shape: (usize, usize),
        is_gated: bool,
        parts: impl Iterator<Item = LoadResult<Tensor>>,
    ) -> LoadResult<Self> {
        Ok(match dtype {
            // Joined on the host, so that the device holds only one copy.
            _ if !target.is_cpu() => {
                let parts = parts.collect::<LoadResult<Vec<_>>>()?;
                Self::Device(target.upload(&Tensor::cat(&parts, 0)?.reshape(shape)?)?)
            }
            Dtype::Float32 => Self::Packed(Box::new(pack::<f32>(shape, is_gated, parts)?)),
            Dtype::Bfloat16 if target.dtype() == Dtype::Int8 => {
                Self::Packed(Box::new(Rounding(pack(shape, is_gated, parts)?)))
            }
            Dtype::Bfloat16 => Self::Packed(Box::new(pack::<bf16>(shape, is_gated, parts)?)),
            Dtype::Int8 => Self::Packed(Box::new(Quantized(pack(shape, is_gated, parts)?))),
            Dtype::Float16 => {
                return Err(LoadError::Compute("float16 weights cannot be packed for a CPU".to_owned()));
            }
        })
    }

    /// Columns of the product.
    pub(super) fn columns(&self) -> usize {
        match self {
            Self::Packed(matrix) => matrix.shape().0,
            Self::Device(matrix) => matrix.dims()[0],
        }
    }

    /// Columns of a gated output; `None` if the layer is not gated.
    pub(super) fn intermediate(&self) -> Option<usize> {
        match self {
            Self::Packed(matrix) => matrix.intermediate(),
            Self::Device(_) => None,
        }
    }

    /// A value for each row of the unpacked matrix, in the order of the product's columns, with zeros as padding.
    pub(super) fn in_columns(&self, values: Vec<f32>) -> Vec<f32> {
        let Self::Packed(matrix) = self else { return values };
        let mut columns = vec![0.0; self.columns()];
        for (row, value) in values.into_iter().enumerate() {
            if let Some(column) = columns.get_mut(matrix.column_of(row)) {
                *column = value;
            }
        }
        columns
    }
}

/// The columns of a product, its bias, and its final step.
pub(super) struct Product<'a> {
    pub(super) columns: Range<usize>,
    /// `[columns]`
    pub(super) bias: Option<&'a [f32]>,
    pub(super) epilogue: Epilogue,
}

/// Final step of a product.
#[derive(Debug, Clone, Copy)]
pub(super) enum Epilogue {
    Store(Store),
    Activate(Activation),
    /// The gated activation of a gated layer.
    Gate(Activation),
}

/// A packed matrix of any format.
pub(super) trait Packed: Debug + Send + Sync {
    /// `[columns of the product, in_features]`
    fn shape(&self) -> (usize, usize);

    /// Columns of the output of [`forward_gated`](super::Linear::forward_gated); `None` for a matrix that is not gated.
    fn intermediate(&self) -> Option<usize>;

    /// The column of the product that a row of the unpacked matrix becomes.
    fn column_of(&self, row: usize) -> usize;

    /// The product with `x`, which has the format's input type.
    fn multiply(&self, product: Product<'_>, x: CpuTensor<'_>, out: CpuOutput<'_>) -> Result<()>;

    /// True if the matrix is in bfloat16 in a model in int8.
    fn is_kept(&self) -> bool {
        false
    }

    /// The input in the format's input type, converted once for all columns.
    fn input(&self, x: &Tensor, _: &mut Yields<'_>) -> Result<Tensor> {
        Ok(x.clone())
    }

    /// Relative error of the product with `x` from quantization; `None` for a format without quantization.
    fn quantization_error(&self, _: (&CpuStorage, &Layout)) -> Result<Option<f64>> {
        Ok(None)
    }
}

/// A matrix in int8.
#[derive(Debug)]
struct Quantized(PackedMatrix<Int8>);

impl Packed for Quantized {
    fn shape(&self) -> (usize, usize) {
        (self.0.rows(), self.0.cols())
    }

    fn intermediate(&self) -> Option<usize> {
        self.0.intermediate()
    }

    fn column_of(&self, row: usize) -> usize {
        self.0.column_of(row)
    }

    fn multiply(&self, product: Product<'_>, x: CpuTensor<'_>, out: CpuOutput<'_>) -> Result<()> {
        multiply(&self.0, product, slice(x)?, out)
    }

    fn quantization_error(&self, x: CpuTensor<'_>) -> Result<Option<f64>> {
        self.0.quantization_error(slice(x)?).map(Some).map_err(kernel_error)
    }
}

impl<P: Float + WithDType> Packed for PackedMatrix<P> {
    fn shape(&self) -> (usize, usize) {
        (self.rows(), self.cols())
    }

    fn intermediate(&self) -> Option<usize> {
        self.intermediate()
    }

    fn column_of(&self, row: usize) -> usize {
        self.column_of(row)
    }

    fn multiply(&self, product: Product<'_>, x: CpuTensor<'_>, out: CpuOutput<'_>) -> Result<()> {
        multiply(self, product, slice::<P>(x)?, out)
    }
}

/// A bfloat16 matrix in a model in int8, whose float32 activations are rounded here.
#[derive(Debug)]
struct Rounding(PackedMatrix<bf16>);

impl Packed for Rounding {
    fn is_kept(&self) -> bool {
        true
    }

    fn input(&self, x: &Tensor, yields: &mut Yields<'_>) -> Result<Tensor> {
        let rounded = Tensor::zeros(x.shape(), DType::BF16, x.device())?;
        convert(x, &rounded, yields)?;
        Ok(rounded)
    }

    fn shape(&self) -> (usize, usize) {
        (self.0.rows(), self.0.cols())
    }

    fn intermediate(&self) -> Option<usize> {
        self.0.intermediate()
    }

    fn column_of(&self, row: usize) -> usize {
        self.0.column_of(row)
    }

    fn multiply(&self, product: Product<'_>, x: CpuTensor<'_>, out: CpuOutput<'_>) -> Result<()> {
        multiply(&self.0, product, slice(x)?, out)
    }
}

fn multiply<P: Packing>(
    weight: &PackedMatrix<P>,
    product: Product<'_>,
    x: &[P::Input],
    out: CpuOutput<'_>,
) -> Result<()> {
    let Product { columns, bias, epilogue } = product;
    let gemm = Gemm { columns, bias, ..Gemm::new(x, weight) };
    let computed = match epilogue {
        Epilogue::Store(store) => {
            let (out, out_stride) = strided_mut::<f32>(out)?;
            Gemm { store, out_stride: Some(out_stride), ..gemm }.run(out)
        }
        Epilogue::Activate(activation) => with_element!(out.0, T => {
            let (out, out_stride) = strided_mut::<T>(out)?;
            Gemm { out_stride: Some(out_stride), ..gemm }.run_activated(activation, out)
        }),
        Epilogue::Gate(activation) => with_element!(out.0, T => {
            let (out, out_stride) = strided_mut::<T>(out)?;
            Gemm { out_stride: Some(out_stride), ..gemm }.run_gated(activation, out)
        }),
    };
    computed.map_err(kernel_error)
}

/// Packs matrices one below the other; of a gated block, the gate rows first.
fn pack<P: Packing>(
    (out_features, in_features): (usize, usize),
    is_gated: bool,
    parts: impl Iterator<Item = LoadResult<Tensor>>,
) -> LoadResult<PackedMatrix<P>> {
    let mut matrix = if is_gated {
        PackedMatrixBuilder::<P>::gated(out_features / 2, in_features)?
    } else {
        PackedMatrixBuilder::<P>::new(out_features, in_features)?
    };
    for part in parts {
        push(&mut matrix, &part?)?;
    }
    Ok(matrix.finish()?)
}

fn push<P: Packing>(matrix: &mut PackedMatrixBuilder<P>, rows: &Tensor) -> Result<()> {
    let (storage, layout) = rows.storage_and_layout();
    let candle_core::Storage::Cpu(storage) = &*storage else { candle_core::bail!("weights are packed on the host") };
    with_element!(storage, T => matrix.push(slice::<T>((storage, layout))?).map_err(kernel_error))
}
