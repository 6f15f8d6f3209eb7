//! The rows of each expert, listed on the device of the router's scores.

use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::host::words_on_host;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{dims, kernel_error, slice, slice_mut};
use candle_core::{Result, Tensor, bail};

/// The rows of each expert and the weights of its output in them, as listed by [`prefold_kernels::route_rows`].
#[derive(Debug)]
pub(crate) struct ExpertRows {
    /// `[3 * experts * rows]`, `u32`
    words: Tensor,
    rows: usize,
    experts: usize,
}

impl ExpertRows {
    /// Lists the rows of each expert in `words`, `[rows, 3 * experts]`. A row belongs to the `top` experts with its best router scores,
    /// `[rows, experts]`.
    pub(crate) fn route(scores: &Tensor, top: usize, words: &Tensor, yields: &mut Yields<'_>) -> Result<Self> {
        yields.run("route", || words.inplace_op2(scores, &InPlace(Route(top))))?;
        let (rows, experts) = scores.dims2()?;
        Ok(Self { words: words.flatten_all()?, rows, experts })
    }

    /// The number of rows of each expert; waits until the device has counted them.
    pub(crate) fn counts(&self) -> Result<Vec<u32>> {
        let counts = self.words.narrow(0, 2 * self.experts * self.rows, self.experts)?;
        words_on_host(&counts, <[u32]>::to_vec)
    }

    /// An expert's rows and the bits of their weights, both of `count` words.
    pub(crate) fn of(&self, expert: usize, count: u32) -> Result<[Tensor; 2]> {
        let Self { words, rows, experts } = self;
        if expert >= *experts || count as usize > *rows {
            bail!("{count} rows of expert {expert}, with {rows} rows and {experts} experts");
        }
        let list = |number: usize| words.narrow(0, number * rows, count as usize);
        Ok([list(expert)?, list(experts + expert)?])
    }
}

struct Route(usize);

impl Operation<1> for Route {
    const NAME: &'static str = "route";

    fn on_cpu(&self, words: CpuOutput<'_>, [scores]: [CpuTensor<'_>; 1]) -> Result<()> {
        let (_, experts) = dims(scores.1)?;
        let (scores, words) = (slice::<f32>(scores)?, slice_mut::<u32>(words)?);
        prefold_kernels::route_rows(scores, experts, self.0, words).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, words: CudaOutput<'_>, [scores]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut};
        let cuda = cuda::of(scores.0)?;
        let (_, experts) = dims(scores.1)?;
        let words = &mut view_mut::<u32>(words)?;
        let scores = view::<f32>(scores)?;
        cuda.kernels.route_rows(&scores, experts, self.0, words).map_err(cuda_error)
    }
}
