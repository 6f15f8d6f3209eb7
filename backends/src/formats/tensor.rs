//! Tensors in files: element types, their conversion, and the check of shapes.

use crate::LoadError;
use half::{bf16, f16};
use prefold_kernels::{Dtype, Element};
use rayon::prelude::*;

/// Little-endian values of a type that a file has, converted. The bytes may be unaligned.
pub(crate) fn decode<T: Element>(stored: Dtype, bytes: &[u8]) -> Vec<T> {
    match stored {
        Dtype::Float32 => convert(bytes, |value| f32::from_le_bytes(value).convert()),
        Dtype::Float16 => convert(bytes, |value| f16::from_le_bytes(value).convert()),
        Dtype::Bfloat16 => convert(bytes, |value| bf16::from_le_bytes(value).convert()),
    }
}

/// Converts values of `N` bytes.
fn convert<T: Element, const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> T + Sync) -> Vec<T> {
    /// Values converted by one task.
    const CHUNK: usize = 1 << 16;
    let (values, _) = bytes.as_chunks::<N>();
    let mut out = vec![T::default(); values.len()];
    out.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).for_each(|(out, values)| {
        for (out, &value) in out.iter_mut().zip(values) {
            *out = convert(value);
        }
    });
    out
}

/// Compares a tensor's shape with that of the config.
///
/// # Errors
/// They differ.
pub(crate) fn check_shape(file: &str, name: &str, expected: &[usize], found: &[usize]) -> Result<(), LoadError> {
    if expected == found {
        return Ok(());
    }
    Err(LoadError::TensorShape {
        file: file.to_owned(),
        name: name.to_owned(),
        expected: expected.to_vec(),
        found: found.to_vec(),
    })
}
