//! The operations of the transformer on candle tensors: the one place where kernels meet tensors.
//!
//! Every operation writes into a tensor that the caller owns (candle's in-place custom ops), so a forward
//! pass allocates nothing once its [`Buffer`]s have grown. Only this module knows the device: a [`Target`] opens it and chooses
//! the types, `cpu_fwd` calls `prefold-kernels`, and `cuda_fwd` calls its CUDA launchers, which queue the
//! operation and return.
//!
//! Matrices are `[rows, width]`, row-major. GEMM inputs ("activations") are `f32`, `bf16` or (on a GPU) `f16`, the
//! residual stream is `f32`, and the values in between ("projections") are `f32` on a CPU and activations on a GPU.

mod attention;
mod device;
mod linear;
mod memory;
mod pacing;
mod rowwise;
mod tensor;

pub(crate) use attention::Attention;
pub(crate) use attention::pages::Pages;
pub(crate) use attention::positions::{PositionRows, RelativePositions};
pub(crate) use attention::score_bias::ScoreBias;
pub use device::options::check_options;
pub(crate) use device::stream::Priority;
pub use device::target::used_device_bytes;
pub(crate) use device::target::{Target, is_out_of_memory};
pub(crate) use linear::expert_rows::ExpertRows;
pub(crate) use linear::{Linear, Store, measure_quantization};
pub(crate) use memory::buffer::Buffer;
#[cfg(feature = "cuda")]
pub(crate) use memory::downloads::{Downloading, Downloads};
pub(crate) use memory::indices::{IndexPack, Indices, Slot, Uploader};
pub(crate) use memory::weights::Vector;
pub use pacing::pace::in_smallest_parts;
pub use pacing::profile::take_profile;
pub(crate) use pacing::yields::{Queue, Yields, block_rows};
pub(crate) use rowwise::activation::{activate, activate_mul};
pub(crate) use rowwise::convolution::ShortConvolution;
pub(crate) use rowwise::norm::Norm;
pub(crate) use rowwise::own_columns::own_columns;
pub(crate) use rowwise::pool::{Pool, PoolKind};
pub(crate) use rowwise::rope::{HeadSpan, Rotary};
pub(crate) use rowwise::rows::{convert, gather_rows, scale};
pub(crate) use rowwise::sums::{add, fill_rows, scatter_add};
pub(crate) use rowwise::table::Table;
pub(crate) use tensor::host::on_host;
pub(crate) use tensor::storage::candle_dtype;

#[cfg(test)]
mod tests;
