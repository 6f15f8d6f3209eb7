//! Row-wise operations.

pub(crate) mod activation;
mod convolution;
pub(crate) mod experts;
mod layer_norm;
mod norm;
mod pool;
mod rope;
pub(crate) mod rows;

pub use activation::{Activation, activate_mul, activate_mul_with};
pub use convolution::ShortConvolution;
pub use experts::route_rows;
pub use layer_norm::LayerNorm;
pub use norm::{rms_norm, rms_norm_add, rms_norm_add_with, rms_norm_with};
pub use pool::PoolKind;
pub use rope::{HeadSpan, QkNormRope, RopeTable};
pub use rows::{
    add_rows, convert, convert_with, embed_rows, fill_rows, gather_rows, own_columns, scale_rows, scatter_add_rows,
};
