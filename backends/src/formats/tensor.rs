//! Tensors in files: element types, their conversion, and the check of shapes.

use crate::error::LoadError;
use crate::memory_budget;
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
///
/// # Errors
/// There is not enough memory for the copy.
pub(super) fn in_rows<'a>(
    bytes: &'a [u8],
    dtype: Dtype,
    shape: &[usize],
    strides: Option<&[usize]>,
) -> Result<Cow<'a, [u8]>, LoadError> {
    let Some(strides) = strides else { return Ok(Cow::Borrowed(bytes)) };
    let (size, count) = (dtype.size(), shape.iter().product::<usize>());
    let mut rows = reserved(count * size)?;
    for element in 0..count {
        let (mut rest, mut offset) = (element, 0);
        for (&length, &stride) in shape.iter().zip(strides).rev() {
            offset += rest % length * stride;
            rest /= length;
        }
        rows.extend_from_slice(&bytes[offset * size..][..size]);
    }
    Ok(Cow::Owned(rows))
}

/// An empty list with room for this many values.
///
/// # Errors
/// There is not enough memory.
pub(super) fn reserved<T>(len: usize) -> Result<Vec<T>, LoadError> {
    let bytes = len.saturating_mul(size_of::<T>());
    memory_budget::check(bytes as u64).map_err(|problem| LoadError::Compute(format!("a tensor {problem}")))?;
    let mut values = Vec::new();
    values
        .try_reserve_exact(len)
        .map_err(|_| LoadError::Compute(format!("there is not enough memory for a tensor of {bytes} bytes")))?;
    Ok(values)
}

/// Memory of this many values, to be overwritten.
///
/// # Errors
/// As for [`reserved`].
pub(super) fn zeros<T: Element>(len: usize) -> Result<Vec<T>, LoadError> {
    let mut values = reserved(len)?;
    values.resize(len, T::default());
    Ok(values)
}

/// Little-endian values of a type that a file has, converted. The bytes may be unaligned.
///
/// # Errors
/// There is not enough memory.
pub(crate) fn decode<T: Element>(stored: Dtype, bytes: &[u8]) -> Result<Vec<T>, LoadError> {
    match stored {
        Dtype::Float32 => convert(bytes, |value| f32::from_le_bytes(value).convert()),
        Dtype::Float16 => convert(bytes, |value| f16::from_le_bytes(value).convert()),
        Dtype::Bfloat16 => convert(bytes, |value| bf16::from_le_bytes(value).convert()),
        // Integers without a scale.
        Dtype::Int8 => convert(bytes, |value| T::from_f32(i8::from_le_bytes(value).into())),
    }
}

/// Converts values of `N` bytes.
fn convert<T: Element, const N: usize>(
    bytes: &[u8],
    convert: impl Fn([u8; N]) -> T + Sync,
) -> Result<Vec<T>, LoadError> {
    /// Values that are converted together, so that the compiler uses vectors; and groups of one task at least.
    const GROUP: usize = 64;
    const GROUPS: usize = 1 << 10;
    let (values, _) = bytes.as_chunks::<N>();
    let (groups, rest) = values.as_chunks::<GROUP>();
    let mut out: Vec<[T; GROUP]> = reserved(values.len().div_ceil(GROUP))?;
    let converted = |group: &[[u8; N]; GROUP]| {
        let mut out = [T::default(); GROUP];
        out.iter_mut().zip(group).for_each(|(out, &value)| *out = convert(value));
        out
    };
    groups.par_iter().with_min_len(GROUPS).map(converted).collect_into_vec(&mut out);
    let mut out = out.into_flattened();
    out.extend(rest.iter().map(|&value| convert(value)));
    Ok(out)
}

/// Compares a tensor's shape with the config's.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_is_refused_for_which_there_is_no_memory() {
        memory_budget::LEFT.set(Some(20_000_000));
        assert!(reserved::<f32>(5_000_000).is_ok());
        let refused = reserved::<f32>(5_000_001).unwrap_err().to_string();
        assert!(refused.contains("a tensor would take 20000004 bytes of memory"), "{refused}");
        assert!(zeros::<f32>(5_000_001).is_err());
        assert!(decode::<f32>(Dtype::Float16, &vec![0; 10_000_002]).is_err());
        memory_budget::LEFT.set(None);
        assert!(reserved::<u64>(usize::MAX).is_err());
    }
}
