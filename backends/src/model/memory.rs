//! Memory of a model, from its description alone.

use super::buffers::RowBytes;
use crate::config::TransformerConfig;
use crate::ops::Target;
use prefold_core::InputMemory;
use prefold_kernels::Dtype;
use std::convert::Infallible;

/// Bytes of the weights on a CPU in a type, and of the tables for inputs of up to `positions` tokens. Matrices have this type, with a
/// scale for each row in int8; vectors, RoPE caches and biases by distance are float32.
pub(crate) fn weights(config: &TransformerConfig, dtype: Dtype, positions: usize) -> u64 {
    let mut bytes = 0_u64;
    let row_overhead = if dtype == Dtype::Int8 { size_of::<f32>() } else { 0 };
    let count = |(_, shape): (String, Vec<usize>)| {
        bytes += match shape.as_slice() {
            [rows, columns] => rows * (columns * dtype.size() + row_overhead),
            shape => shape.iter().product::<usize>() * size_of::<f32>(),
        } as u64;
        Ok::<(), Infallible>(())
    };
    let Ok(()) = config.try_each_tensor(count);
    bytes + config.derived_values(positions) * size_of::<f32>() as u64
}

/// Memory of the buffers that an input needs in the layers of a model on a device.
pub(crate) fn of_inputs(config: &TransformerConfig, target: &Target) -> InputMemory {
    let RowBytes { computed, block, .. } = RowBytes::new(config, target);
    InputMemory { token: computed as u64, block_token: block as u64, block_tokens: target.row_block() as u64 }
}
