//! The one model: a causal decoder of the Llama family and its heads.

pub(crate) mod causal;
pub(crate) mod config;
mod decoder;
mod geometry;
mod head;
mod header;
mod memory;
pub(crate) mod rope;
pub(crate) mod weights;
