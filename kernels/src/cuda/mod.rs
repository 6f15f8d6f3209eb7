//! The operations on device memory: launchers of the kernels in `kernels/cuda`, and matrix products by cuBLAS.
//!
//! A launcher checks the lengths it is given, as the CPU's operations do, and returns as soon as the kernel is queued on
//! the stream. Indices in device memory cannot be checked on the host: an index out of range in a row gather or an
//! embedding gives a row of NaN, and [`AttentionPlan`] checks page tables while they are still on the host.

mod activation;
mod attention;
mod error;
mod experts;
mod flash;
mod gemm;
mod launch;
mod libraries;
mod modules;
mod names;
mod norm;
mod pinned;
mod positions;
mod rope;
mod rows;
mod shims;
mod stream;

pub use activation::Activate;
pub use attention::{Attention, AttentionPlan, Columns, DevicePlan, ScoreBias, plan_queries_per_tile};
pub use cudarc;
pub use error::CudaError;
pub use experts::RowFactors;
pub use gemm::Gemm;
pub use launch::{Kernels, Properties, exclusive_streams};
pub use libraries::{Unavailable, device_count};
pub use norm::{AddRmsNorm, LayerNorm};
pub use pinned::{Download, Downloads, Pinned};
pub use positions::RelativePositions;
pub use rope::{QkNormRope, RopeSpan};
pub use rows::PoolRows;
pub use stream::{Blas, StreamPriority};
