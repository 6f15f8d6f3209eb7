//! Memory of tensors: reused buffers, index arrays and weights.

pub(super) mod buffer;
pub(super) mod indices;
pub(super) mod weights;
