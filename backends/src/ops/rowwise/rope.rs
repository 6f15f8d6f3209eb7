//! RoPE, with the RMSNorm of q and k that some families have before it.

use crate::error::LoadError;
use crate::ops::device::target::Target;
use crate::ops::memory::weights::Vector;
use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{dims, kernel_error, slice, slice_mut};
use candle_core::{Result, Tensor};
#[cfg(feature = "cuda")]
use prefold_kernels::cuda::cudarc::driver::CudaSlice;
use prefold_kernels::{QkNormRope, RopeTable};

/// Neighbouring heads of a row with the same treatment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadSpan<'a> {
    /// Column of the first head's first value.
    pub(crate) offset: usize,
    /// Number of heads.
    pub(crate) num_heads: usize,
    /// The weight of the RMSNorm before the rotation, `[head_dim]`; `None` for no norm.
    pub(crate) norm: Option<&'a Vector>,
}

impl<'a> HeadSpan<'a> {
    fn on_host(self) -> prefold_kernels::HeadSpan<'a> {
        let Self { offset, num_heads, norm } = self;
        prefold_kernels::HeadSpan { offset, num_heads, norm: norm.map(|norm| norm.host.as_slice()) }
    }

    #[cfg(feature = "cuda")]
    fn on_device(self) -> Result<prefold_kernels::cuda::RopeSpan<'a>> {
        let Self { offset, num_heads, norm } = self;
        let norm = norm.map(|norm| norm.device().map(CudaSlice::as_view)).transpose()?;
        Ok(prefold_kernels::cuda::RopeSpan { offset, num_heads, norm })
    }
}

/// RoPE cache. Rotates heads in place by their row's position (split halves, as in the published models).
#[derive(Debug)]
pub(crate) struct Rotary {
    table: RopeTable,
    norm_eps: f32,
    #[cfg(feature = "cuda")]
    device_table: Option<CudaSlice<f32>>,
}

impl Rotary {
    /// A RoPE cache for positions below `positions`; `inverse_frequencies` is `[head_dim / 2]`.
    ///
    /// # Errors
    /// The device has no room.
    pub(crate) fn new(
        inverse_frequencies: &[f64],
        positions: usize,
        norm_eps: f32,
        target: &Target,
    ) -> std::result::Result<Self, LoadError> {
        let table = RopeTable::new(inverse_frequencies, positions);
        #[cfg(not(feature = "cuda"))]
        let _ = target;
        Ok(Self {
            #[cfg(feature = "cuda")]
            device_table: target.cuda().map(|cuda| cuda.vector(table.values())).transpose()?,
            table,
            norm_eps,
        })
    }

    /// Normalises and rotates the given heads of each row of `x` (a projection); `position_ids` is `[rows]` of `u32`.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        position_ids: &Tensor,
        spans: &[HeadSpan<'_>],
        yields: &mut Yields<'_>,
    ) -> Result<()> {
        yields.run_rows("rotary", [x, position_ids], |[x, position_ids]| {
            x.inplace_op2(position_ids, &InPlace(RotaryOp { rotary: self, spans }))
        })
    }
}

struct RotaryOp<'a> {
    rotary: &'a Rotary,
    spans: &'a [HeadSpan<'a>],
}

impl Operation<1> for RotaryOp<'_> {
    const NAME: &'static str = "rotary";

    fn on_cpu(&self, x: CpuOutput<'_>, [positions]: [CpuTensor<'_>; 1]) -> Result<()> {
        let (_, row_width) = dims(x.1)?;
        let position_ids = slice::<u32>(positions)?;
        let Rotary { table, norm_eps, .. } = self.rotary;
        let spans: Vec<prefold_kernels::HeadSpan<'_>> = self.spans.iter().map(|span| span.on_host()).collect();
        let rotation = QkNormRope { table, position_ids, row_width, spans: &spans, eps: *norm_eps };
        rotation.run(slice_mut::<f32>(x)?).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, x: CudaOutput<'_>, [positions]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(positions.0)?;
        let Some(table) = &self.rotary.device_table else {
            candle_core::bail!("rotary: the table is on the CPU, the rows are on a GPU")
        };
        let spans = self.spans.iter().map(|span| span.on_device()).collect::<Result<Vec<_>>>()?;
        let rotation = prefold_kernels::cuda::QkNormRope {
            table: table.as_view(),
            head_dim: self.rotary.table.head_dim(),
            position_ids: view::<u32>(positions)?,
            row_width: dims(x.1)?.1,
            spans: &spans,
            eps: self.rotary.norm_eps,
        };
        with_cuda_element!(x.0, T => {
            rotation.run(&cuda.kernels, &mut view_mut::<T>(x)?).map_err(cuda_error)
        })
    }
}
