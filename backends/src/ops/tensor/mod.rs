//! Access to the values of candle tensors, on the host and on a GPU.

#[cfg(feature = "cuda")]
pub(super) mod cuda;
pub(super) mod host;
pub(super) mod operation;
pub(super) mod storage;
