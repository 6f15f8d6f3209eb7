//! The operations of the decoder on candle tensors: the one place where kernels meet tensors.
//!
//! Every operation writes into a tensor that the caller owns (candle's in-place custom ops), so a forward
//! pass allocates nothing once its [`Buffer`]s have grown. The device is chosen in here: `cpu_fwd` calls
//! `prefold-kernels`; `cuda_fwd` is where the CUDA launchers go.
//!
//! Matrices are `[rows, width]`, row-major. GEMM inputs ("activations") are `f32` or `bf16`, GEMM outputs
//! and the residual stream are `f32`.

mod activation;
mod attention;
mod buffer;
mod linear;
mod norm;
mod profile;
mod rope;
mod rows;
mod storage;

pub(crate) use activation::silu_mul;
pub(crate) use attention::{Attention, Pages};
pub(crate) use buffer::Buffer;
pub(crate) use linear::{Linear, Store};
pub(crate) use norm::RmsNorm;
#[cfg(feature = "profile")]
pub use profile::take_profile;
pub(crate) use rope::{HeadSpan, Rotary};
pub(crate) use rows::{embed, gather_rows};

use profile::timed;

fn kernel_error(error: prefold_kernels::KernelError) -> candle_core::Error {
    candle_core::Error::wrap(error)
}

#[cfg(test)]
mod tests;
