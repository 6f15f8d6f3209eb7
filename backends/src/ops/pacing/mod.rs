//! Yield points between parts of operations, and the time of parts.

pub(super) mod pace;
pub(super) mod profile;
#[cfg(feature = "cuda")]
pub(super) mod queue_depth;
pub(super) mod yields;
