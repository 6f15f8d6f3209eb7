//! Linear layers. Weights are packed once at load time on a CPU, and kept unpacked on a GPU.

pub(super) mod expert_rows;
mod weight;

use self::weight::{Epilogue, Product, Weight};
use crate::error::LoadError;
use crate::ops::device::target::Target;
use crate::ops::memory::weights::Vector;
use crate::ops::pacing::pace::Pace;
use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::dims;
use candle_core::{Result, Tensor};
use prefold_kernels::{Activation, Dtype, PANEL, PackedMatrix, row_parts};
use std::cell::Cell;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::OnceLock;

pub(crate) use prefold_kernels::Store;

type LoadResult<T> = std::result::Result<T, LoadError>;

/// `y = x W^T + b` with W `[out_features, in_features]`.
#[derive(Debug)]
pub(crate) struct Linear {
    name: String,
    weight: Weight,
    bias: Option<Vector>,
    pace: Pace,
    /// Set by a forward pass inside [`measure_quantization`].
    quantization_error: OnceLock<f64>,
}

/// Initial guess of the time for a multiplication, in nanoseconds: all cores of a small CPU without tiles.
const GUESS: f32 = 0.02;

/// Cost of reading the weights, in rows that could be multiplied in the same time.
const READING: usize = 8;

thread_local! {
    static MEASURED: Cell<bool> = const { Cell::new(false) };
}

/// Runs forward passes in which each layer in int8 measures and keeps the quantization error of its product, for the first inputs that
/// it sees.
pub(crate) fn measure_quantization<T>(f: impl FnOnce() -> T) -> T {
    MEASURED.set(true);
    let result = f();
    MEASURED.set(false);
    result
}

impl Linear {
    /// Packs or uploads matrices `[any, in_features]`, one below the other; `shape` is the shape of the whole. A CPU takes them one at a
    /// time. The type is the target's or, for skipped layers of an int8 target, bfloat16. The layer has the name of its first matrix.
    /// A gated layer has as many gate rows as up rows, in this order, and on a CPU only [`forward_gated`](Self::forward_gated).
    ///
    /// # Errors
    /// A matrix cannot be read or has another shape, rows are missing, or the device has no room.
    pub(crate) fn load(
        target: &Target,
        (name, dtype): (&str, Dtype),
        shape: (usize, usize),
        is_gated: bool,
        parts: impl Iterator<Item = LoadResult<Tensor>>,
        bias: Option<Vec<f32>>,
    ) -> LoadResult<Self> {
        let weight = Weight::load(target, dtype, shape, is_gated, parts)?;
        let bias = bias.map(|bias| Vector::new(weight.in_columns(bias), target)).transpose()?;
        Ok(Self::new(target.full_name(name), weight, bias))
    }

    /// A layer on the CPU.
    pub(crate) fn packed(weight: PackedMatrix<f32>, bias: Option<Vec<f32>>) -> Self {
        Self::new(String::new(), Weight::Packed(Box::new(weight)), bias.map(Vector::on_cpu))
    }

    fn new(name: String, weight: Weight, bias: Option<Vector>) -> Self {
        Self { name, weight, bias, pace: Pace::guessed(GUESS), quantization_error: OnceLock::new() }
    }

    /// The layer's name and the error measured inside [`measure_quantization`].
    pub(crate) fn quantization_error(&self) -> Option<(&str, f64)> {
        self.quantization_error.get().map(|error| (self.name.as_str(), *error))
    }

    /// The layer's name, if it is in bfloat16 in a model in int8.
    pub(crate) fn kept_in_bfloat16(&self) -> Option<&str> {
        matches!(&self.weight, Weight::Packed(matrix) if matrix.is_kept()).then_some(&self.name)
    }

    /// Columns of the product.
    pub(crate) fn out_features(&self) -> usize {
        self.weight.columns()
    }

    /// True if [`forward_gated`](Self::forward_gated) is the only product of this layer.
    pub(crate) fn is_gated(&self) -> bool {
        self.weight.intermediate().is_some()
    }

    /// Writes `x W^T + b` to `out`, or adds it.
    pub(crate) fn forward(&self, x: &Tensor, out: &Tensor, store: Store, yields: &mut Yields<'_>) -> Result<()> {
        self.forward_columns(0..self.out_features(), x, out, store, yields)
    }

    /// Writes or adds some of the output columns; `out` has only those.
    pub(crate) fn forward_columns(
        &self,
        columns: Range<usize>,
        x: &Tensor,
        out: &Tensor,
        store: Store,
        yields: &mut Yields<'_>,
    ) -> Result<()> {
        self.run(columns, Epilogue::Store(store), x, out, yields)
    }

    /// Writes `activation(x W^T + b)` to `out`, which may be of an activation type.
    pub(crate) fn forward_activated(
        &self,
        activation: Activation,
        x: &Tensor,
        out: &Tensor,
        yields: &mut Yields<'_>,
    ) -> Result<()> {
        self.run(0..self.out_features(), Epilogue::Activate(activation), x, out, yields)
    }

    /// Writes `activation(gate) * up` of a [gated](Self::is_gated) layer to `out`, which may be of an activation type.
    pub(crate) fn forward_gated(
        &self,
        activation: Activation,
        x: &Tensor,
        out: &Tensor,
        yields: &mut Yields<'_>,
    ) -> Result<()> {
        self.run(0..self.out_features(), Epilogue::Gate(activation), x, out, yields)
    }

    /// Splits a long product by rows as far as that costs nothing, and then by columns, for which rows are packed again.
    fn run(
        &self,
        columns: Range<usize>,
        epilogue: Epilogue,
        x: &Tensor,
        out: &Tensor,
        yields: &mut Yields<'_>,
    ) -> Result<()> {
        let op = LinearOp { linear: self, columns, epilogue };
        let x = match &self.weight {
            Weight::Packed(weight) => weight.input(x, yields)?,
            Weight::Device(_) => x.clone(),
        };
        // The measured error must not depend on the time that a product takes.
        if MEASURED.get() || matches!(self.weight, Weight::Device(_)) {
            return yields.run("linear", || out.inplace_op2(&x, &InPlace(op)));
        }
        let (rows, panels) = (x.dim(0)?, op.columns.len().div_ceil(PANEL));
        if out.dims2()? != (rows, op.out_columns().len()) {
            candle_core::bail!("linear: output {:?} of {rows} rows, columns {:?}", out.shape(), op.columns);
        }
        let most = self.pace.parts(panels as f64 * self.panel_work(rows));
        let parts = if most < row_parts(rows) as f64 { most as usize } else { row_parts(rows) };
        for part in 0..parts {
            let start = rows * part / parts;
            let len = rows * (part + 1) / parts - start;
            self.run_columns(&op, &x.narrow(0, start, len)?, &out.narrow(0, start, len)?, yields)?;
        }
        Ok(())
    }

    fn run_columns(&self, op: &LinearOp<'_>, x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
        let (panel_work, columns) = (self.panel_work(x.dim(0)?), &op.columns);
        let mut start = columns.start;
        while start < columns.end {
            let panels = columns.end.div_ceil(PANEL) - start / PANEL;
            let share = (self.pace.share(panels as f64 * panel_work) / panel_work).ceil() as usize;
            let part = start..((start / PANEL + share.max(1)) * PANEL).min(columns.end);
            let work = part.len().div_ceil(PANEL) as f64 * panel_work;
            start = part.end;
            let (first, op) = (op.out_columns().start, LinearOp { columns: part, ..*op });
            let out = out.narrow(1, op.out_columns().start - first, op.out_columns().len())?;
            yields.run("linear", || self.pace.measure(work, || out.inplace_op2(x, &InPlace(op))))?;
        }
        Ok(())
    }

    /// Work of a panel's columns for some rows, in multiplications.
    fn panel_work(&self, rows: usize) -> f64 {
        let in_features = match &self.weight {
            Weight::Packed(weight) => weight.shape().1,
            Weight::Device(_) => 0,
        };
        ((rows + READING) * in_features * PANEL) as f64
    }
}

struct LinearOp<'a> {
    linear: &'a Linear,
    columns: Range<usize>,
    epilogue: Epilogue,
}

impl LinearOp<'_> {
    /// The columns of the output.
    fn out_columns(&self) -> Range<usize> {
        match (self.epilogue, self.linear.weight.intermediate()) {
            (Epilogue::Gate(_), Some(intermediate)) => self.columns.start / 2..(self.columns.end / 2).min(intermediate),
            _ => self.columns.clone(),
        }
    }
}

impl Operation<1> for LinearOp<'_> {
    const NAME: &'static str = "linear";

    fn on_cpu(&self, out: CpuOutput<'_>, [x]: [CpuTensor<'_>; 1]) -> Result<()> {
        let Weight::Packed(weight) = &self.linear.weight else {
            candle_core::bail!("linear: the weight is on a GPU, the input on the CPU")
        };
        let (rows, in_features) = dims(x.1)?;
        if dims(out.1)? != (rows, self.out_columns().len()) || in_features != weight.shape().1 {
            candle_core::bail!("linear: input {:?}, output {:?}, columns {:?}", x.1, out.1, self.columns);
        }
        if MEASURED.get()
            && self.linear.quantization_error.get().is_none()
            && let Some(error) = weight.quantization_error(x)?
        {
            self.linear.quantization_error.get_or_init(|| error);
        }
        let (columns, epilogue) = (self.columns.clone(), self.epilogue);
        let bias = self.linear.bias.as_ref().map(|bias| &bias.host[columns.clone()]);
        weight.multiply(Product { columns, bias, epilogue }, x, out)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element, with_view};
        let Weight::Device(weight) = &self.linear.weight else {
            candle_core::bail!("linear: the weight is on the CPU, the input on a GPU")
        };
        let (rows, in_features) = dims(x.1)?;
        if dims(out.1)? != (rows, self.columns.len()) || in_features != weight.dim(1)? {
            candle_core::bail!("linear: input {:?}, output {:?}, columns {:?}", x.1, out.1, self.columns);
        }
        if let Epilogue::Gate(_) = self.epilogue {
            candle_core::bail!("linear: a GPU has no product with a gated activation");
        }
        let cuda = cuda::of(x.0)?;
        let bias = match &self.linear.bias {
            Some(bias) => Some(bias.device()?.slice(self.columns.clone())),
            None => None,
        };
        let mut store = Store::Overwrite;
        if let Epilogue::Store(given) = self.epilogue {
            store = given;
            if let Some(bias) = &bias {
                // The product is added to the bias.
                with_cuda_element!(out.0, O => {
                    let out = &mut view_mut::<O>((&mut *out.0, out.1))?;
                    cuda.kernels.bias_rows(bias, store == Store::Accumulate, out).map_err(cuda_error)?;
                });
                store = Store::Accumulate;
            }
        }
        with_cuda_element!(x.0, T => with_view::<T, _>(weight, |weight| {
            let columns = self.columns.clone();
            let gemm = prefold_kernels::cuda::Gemm { x: view::<T>(x)?, weight, in_features, columns, store };
            with_cuda_element!(out.0, O => {
                gemm.run(&cuda.kernels, &cuda.blas, &mut view_mut::<O>((&mut *out.0, out.1))?).map_err(cuda_error)
            })
        }))?;
        if let Epilogue::Activate(activation) = self.epilogue {
            let activate = prefold_kernels::cuda::Activate { activation, width: self.columns.len(), bias };
            with_cuda_element!(out.0, O => {
                activate.run_in_place(&cuda.kernels, &mut view_mut::<O>((&mut *out.0, out.1))?).map_err(cuda_error)?;
            });
        }
        Ok(())
    }
}
