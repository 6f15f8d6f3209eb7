//! Memory of tensors: reused buffers, index arrays and weights.

pub(super) mod buffer;
#[cfg(feature = "cuda")]
pub(super) mod downloads;
pub(super) mod indices;
pub(super) mod weights;
