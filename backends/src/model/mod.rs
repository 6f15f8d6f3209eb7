//! The model on a device: transformer, head, and the engine's [`Backend`](prefold_core::Backend) made of both.

mod adapted;
mod attention;
pub(crate) mod backend;
mod buffers;
mod convolution;
mod cpu_only;
#[cfg(feature = "cuda")]
mod device_pass;
mod distances;
mod experts;
mod feed_forward;
pub(crate) mod footprint;
mod head;
mod head_layers;
mod layout;
mod loader;
pub(crate) mod memory;
mod parts;
mod pass;
mod pooling;
pub(crate) mod replicas;
pub(crate) mod routed;
mod sensitive;
mod taps;
mod task_adapters;
mod transformer;
mod weights;
