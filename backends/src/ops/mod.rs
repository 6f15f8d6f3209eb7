//! The operations of the transformer on candle tensors: the one place where kernels meet tensors.
//!
//! Every operation writes into a tensor that the caller owns (candle's in-place custom ops), so a forward
//! pass allocates nothing once its [`Buffer`]s have grown. Only this module knows the device: a [`Target`] opens it and chooses
//! the types, `cpu_fwd` calls `prefold-kernels`, and `cuda_fwd` calls its CUDA launchers, which queue the
//! operation and return.
//!
//! Matrices are `[rows, width]`, row-major. GEMM inputs ("activations") are `f32`, `bf16` or (on a GPU) `f16`, the
//! residual stream is `f32`, and the values in between ("projections") are `f32` on a CPU and activations on a GPU.

mod activation;
mod attention;
mod buffer;
#[cfg(feature = "cuda")]
mod cuda;
mod device_options;
mod expert_rows;
#[cfg(feature = "flash-attn")]
mod flash;
mod host;
mod indices;
mod linear;
mod norm;
mod operation;
mod own_columns;
mod pace;
mod pages;
mod pool;
mod positions;
mod profile;
#[cfg(feature = "cuda")]
mod queue_depth;
mod rope;
mod rows;
mod score_bias;
mod skip;
mod storage;
mod stream;
mod sums;
mod table;
mod target;
mod weights;
mod yields;

pub(crate) use activation::{activate, activate_mul};
pub(crate) use attention::Attention;
pub(crate) use buffer::Buffer;
pub use device_options::check_options;
pub(crate) use expert_rows::ExpertRows;
pub(crate) use host::on_host;
pub(crate) use indices::{IndexPack, Indices, Slot, Uploader};
pub(crate) use linear::{Linear, Store, measure_quantization};
pub(crate) use norm::Norm;
pub(crate) use own_columns::own_columns;
pub use pace::in_smallest_parts;
pub(crate) use pages::Pages;
pub(crate) use pool::{Pool, PoolKind};
pub(crate) use positions::{PositionRows, RelativePositions};
pub use profile::take_profile;
pub(crate) use rope::{HeadSpan, Rotary};
pub(crate) use rows::{convert, gather_rows, scale};
pub(crate) use score_bias::ScoreBias;
pub(crate) use storage::candle_dtype;
pub(crate) use stream::Priority;
pub(crate) use sums::{add, fill_rows, scatter_add};
pub(crate) use table::Table;
pub use target::used_device_bytes;
pub(crate) use target::{Target, is_out_of_memory};
pub(crate) use weights::Vector;
pub(crate) use yields::{Yields, block_rows};

#[cfg(test)]
mod tests;
