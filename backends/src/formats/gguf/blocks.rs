//! Conversion of the blocks of values in GGUF files.

use crate::error::LoadError;
use crate::formats::tensor;
use candle_core::CpuStorage;
use candle_core::quantized::GgmlDType;
use prefold_kernels::{Dtype, Element};
use rayon::prelude::*;
use std::borrow::Cow;

/// Converts whole blocks.
pub(super) fn decode<T: Element>(dtype: GgmlDType, bytes: &[u8]) -> Result<Vec<T>, LoadError> {
    match dtype {
        GgmlDType::F32 => tensor::decode(Dtype::Float32, bytes),
        GgmlDType::F16 => tensor::decode(Dtype::Float16, bytes),
        GgmlDType::BF16 => tensor::decode(Dtype::Bfloat16, bytes),
        dtype => dequantize(dtype, bytes),
    }
}

/// Dequantizes blocks in parallel.
fn dequantize<T: Element>(dtype: GgmlDType, bytes: &[u8]) -> Result<Vec<T>, LoadError> {
    /// Blocks converted by one task.
    const BLOCKS: usize = 256;
    let chunk = BLOCKS * dtype.block_size();
    let mut out = tensor::zeros(bytes.len() / dtype.type_size() * dtype.block_size())?;
    let outputs = out.par_chunks_mut(chunk);
    outputs.zip(bytes.par_chunks(BLOCKS * dtype.type_size())).try_for_each(|(out, bytes)| {
        match dtype.from_data(Cow::Borrowed(bytes)).dequantize(out.len())? {
            CpuStorage::F32(values) => out.iter_mut().zip(values).for_each(|(out, value)| *out = T::from_f32(value)),
            _ => return Err(LoadError::Compute("dequantised values are not float32".to_owned())),
        }
        Ok(())
    })?;
    Ok(out)
}

/// Names of the supported types.
pub(super) fn dtype_name(dtype: GgmlDType) -> Option<&'static str> {
    match dtype {
        GgmlDType::F32 => Some("gguf F32"),
        GgmlDType::F16 => Some("gguf F16"),
        GgmlDType::BF16 => Some("gguf BF16"),
        GgmlDType::Q8_0 => Some("gguf Q8_0"),
        GgmlDType::Q4_0 => Some("gguf Q4_0"),
        GgmlDType::Q4_1 => Some("gguf Q4_1"),
        GgmlDType::Q4K => Some("gguf Q4_K"),
        GgmlDType::Q5K => Some("gguf Q5_K"),
        GgmlDType::Q6K => Some("gguf Q6_K"),
        _ => None,
    }
}
