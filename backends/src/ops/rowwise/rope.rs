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
    /// The heads are queries.
    pub(crate) of_queries: bool,
    /// The weight of the RMSNorm before the rotation, `[head_dim]`; `None` for no norm.
    pub(crate) norm: Option<&'a Vector>,
}

impl<'a> HeadSpan<'a> {
    fn on_host(self) -> prefold_kernels::HeadSpan<'a> {
        let Self { offset, num_heads, norm, .. } = self;
        prefold_kernels::HeadSpan { offset, num_heads, norm: norm.map(|norm| norm.host.as_slice()) }
    }

    #[cfg(feature = "cuda")]
    fn on_device(self) -> Result<prefold_kernels::cuda::RopeSpan<'a>> {
        let Self { offset, num_heads, norm, .. } = self;
        let norm = norm.map(|norm| norm.device().map(CudaSlice::as_view)).transpose()?;
        Ok(prefold_kernels::cuda::RopeSpan { offset, num_heads, norm })
    }
}

/// RoPE. Rotates heads in place by their row's position (split halves, as in the published models).
#[derive(Debug)]
pub(crate) struct Rotary {
    cache: Cache,
    /// The cache of queries, if they have another one.
    of_queries: Option<Cache>,
    norm_eps: f32,
}

/// RoPE cache.
#[derive(Debug)]
struct Cache {
    table: RopeTable,
    #[cfg(feature = "cuda")]
    device_table: Option<CudaSlice<f32>>,
}

impl Rotary {
    /// RoPE for positions below `positions`; `inverse_frequencies` is `[head_dim / 2]`, `query_factor` a factor on queries by their
    /// position.
    ///
    /// # Errors
    /// The device has no room.
    pub(crate) fn new(
        inverse_frequencies: &[f64],
        positions: usize,
        query_factor: Option<impl Fn(usize) -> f64>,
        norm_eps: f32,
        target: &Target,
    ) -> std::result::Result<Self, LoadError> {
        let table = RopeTable::new(inverse_frequencies, positions);
        let of_queries = query_factor.map(|factor| Cache::new(table.scaled(factor), target)).transpose()?;
        Ok(Self { cache: Cache::new(table, target)?, of_queries, norm_eps })
    }

    /// Normalises and rotates the given heads of each row of `x` (a projection); `position_ids` is `[rows]` of `u32`.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        position_ids: &Tensor,
        spans: &[HeadSpan<'_>],
        yields: &mut Yields<'_>,
    ) -> Result<()> {
        let Some(of_queries) = &self.of_queries else {
            return self.rotate(&self.cache, x, position_ids, spans, yields);
        };
        let (queries, others): (Vec<_>, Vec<_>) = spans.iter().partition(|span| span.of_queries);
        for (cache, spans) in [(of_queries, queries), (&self.cache, others)] {
            if !spans.is_empty() {
                self.rotate(cache, x, position_ids, &spans, yields)?;
            }
        }
        Ok(())
    }

    fn rotate(
        &self,
        cache: &Cache,
        x: &Tensor,
        position_ids: &Tensor,
        spans: &[HeadSpan<'_>],
        yields: &mut Yields<'_>,
    ) -> Result<()> {
        yields.run_rows("rotary", [x, position_ids], |[x, position_ids]| {
            x.inplace_op2(position_ids, &InPlace(RotaryOp { cache, norm_eps: self.norm_eps, spans }))
        })
    }
}

impl Cache {
    fn new(table: RopeTable, target: &Target) -> std::result::Result<Self, LoadError> {
        #[cfg(not(feature = "cuda"))]
        let _ = target;
        Ok(Self {
            #[cfg(feature = "cuda")]
            device_table: target.cuda().map(|cuda| cuda.vector(table.values())).transpose()?,
            table,
        })
    }
}

struct RotaryOp<'a> {
    cache: &'a Cache,
    norm_eps: f32,
    spans: &'a [HeadSpan<'a>],
}

impl Operation<1> for RotaryOp<'_> {
    const NAME: &'static str = "rotary";

    fn on_cpu(&self, x: CpuOutput<'_>, [positions]: [CpuTensor<'_>; 1]) -> Result<()> {
        let (_, row_width) = dims(x.1)?;
        let position_ids = slice::<u32>(positions)?;
        let table = &self.cache.table;
        let spans: Vec<prefold_kernels::HeadSpan<'_>> = self.spans.iter().map(|span| span.on_host()).collect();
        let rotation = QkNormRope { table, position_ids, row_width, spans: &spans, eps: self.norm_eps };
        rotation.run(slice_mut::<f32>(x)?).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, x: CudaOutput<'_>, [positions]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(positions.0)?;
        let Some(table) = &self.cache.device_table else {
            candle_core::bail!("rotary: the table is on the CPU, the rows are on a GPU")
        };
        let spans = self.spans.iter().map(|span| span.on_device()).collect::<Result<Vec<_>>>()?;
        let rotation = prefold_kernels::cuda::QkNormRope {
            table: table.as_view(),
            head_dim: self.cache.table.head_dim(),
            position_ids: view::<u32>(positions)?,
            row_width: dims(x.1)?.1,
            spans: &spans,
            eps: self.norm_eps,
        };
        with_cuda_element!(x.0, T => {
            rotation.run(&cuda.kernels, &mut view_mut::<T>(x)?).map_err(cuda_error)
        })
    }
}
