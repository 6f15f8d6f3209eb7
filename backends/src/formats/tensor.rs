//! Tensors in files: element types, their conversion, and the check of shapes.

use crate::LoadError;
use half::{bf16, f16};
use prefold_kernels::{Dtype, Element};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// Type, shape and place of a tensor.
#[derive(Debug)]
pub(super) struct TensorHeader {
    pub(super) dtype: StoredType,
    pub(super) shape: Vec<usize>,
    /// Elements from one to the next in each dimension, where they do not follow one another row by row.
    pub(super) strides: Option<Vec<usize>>,
    /// Offsets from the start of the file, from the first element to the last.
    pub(super) bytes: Range<usize>,
}

/// The type of a tensor in a file.
#[derive(Debug)]
pub(super) enum StoredType {
    Known(Dtype),
    /// One that weights do not have, by its name in the file.
    Other(String),
}

/// The elements of a tensor row by row, copied where they are not.
pub(super) fn in_rows<'a>(bytes: &'a [u8], dtype: Dtype, shape: &[usize], strides: Option<&[usize]>) -> Cow<'a, [u8]> {
    let Some(strides) = strides else { return Cow::Borrowed(bytes) };
    let (size, count) = (dtype.size(), shape.iter().product::<usize>());
    let mut rows = Vec::with_capacity(count * size);
    for element in 0..count {
        let (mut rest, mut offset) = (element, 0);
        for (&length, &stride) in shape.iter().zip(strides).rev() {
            offset += rest % length * stride;
            rest /= length;
        }
        rows.extend_from_slice(&bytes[offset * size..][..size]);
    }
    Cow::Owned(rows)
}

/// Little-endian values of a type that a file has, converted. The bytes may be unaligned.
pub(crate) fn decode<T: Element>(stored: Dtype, bytes: &[u8]) -> Vec<T> {
    match stored {
        Dtype::Float32 => convert(bytes, |value| f32::from_le_bytes(value).convert()),
        Dtype::Float16 => convert(bytes, |value| f16::from_le_bytes(value).convert()),
        Dtype::Bfloat16 => convert(bytes, |value| bf16::from_le_bytes(value).convert()),
        // Integers without a scale.
        Dtype::Int8 => convert(bytes, |value| T::from_f32(i8::from_le_bytes(value).into())),
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
