//! Operations on rows.

pub(super) mod activation;
pub(super) mod convolution;
pub(super) mod norm;
pub(super) mod own_columns;
pub(super) mod pool;
pub(super) mod rope;
pub(super) mod rows;
pub(super) mod sums;
pub(super) mod table;
