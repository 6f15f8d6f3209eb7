//! The header of a safetensors file.

use super::tensor::{StoredType, TensorHeader};
use crate::error::LoadError;
use prefold_kernels::Dtype as Known;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::collections::HashMap;
use std::collections::HashSet;
use std::fmt;

/// Maximum bytes of a header. A tensor has about a hundred, and takes up to ten times as many once parsed.
const MAX_HEADER_BYTES: u64 = 8 << 20;

/// Maximum dimensions of a tensor, as in PyTorch.
const MAX_DIMENSIONS: usize = 64;

/// The entry that is not a tensor.
const METADATA: &str = "__metadata__";

/// Reads the header of a whole file.
///
/// # Errors
/// The header is malformed, or its tensors do not fill the rest of the file without gaps.
pub(super) fn read_header(file: &str, bytes: &[u8]) -> Result<HashMap<String, TensorHeader>, LoadError> {
    parse(bytes, true).map_err(|problem| LoadError::invalid(file, format!("not a whole safetensors file: {problem}")))
}

/// Reads the header of a file without its data.
///
/// # Errors
/// The header is malformed, or its tensors overlap or leave gaps.
pub(super) fn read_header_alone(file: &str, bytes: &[u8]) -> Result<HashMap<String, TensorHeader>, LoadError> {
    parse(bytes, false).map_err(|problem| LoadError::invalid(file, format!("not a safetensors file: {problem}")))
}

/// Bytes of the header and of its length, from the first eight bytes of a file.
///
/// # Errors
/// It would be above the limit.
pub(crate) fn header_end(file: &str, length: [u8; 8]) -> Result<u64, LoadError> {
    match u64::from_le_bytes(length) {
        length if length <= MAX_HEADER_BYTES => Ok(length + 8),
        length => {
            let problem = format!("its header would have {length} bytes, at most {MAX_HEADER_BYTES} are read");
            Err(LoadError::invalid(file, format!("not a safetensors file: {problem}")))
        }
    }
}

fn parse(bytes: &[u8], is_whole: bool) -> Result<HashMap<String, TensorHeader>, String> {
    let Some((&length, rest)) = bytes.split_first_chunk() else {
        return Err(format!("it has {} bytes, fewer than the 8 of the header's length", bytes.len()));
    };
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        return Err(format!("its header would have {length} bytes, at most {MAX_HEADER_BYTES} are read"));
    }
    let Some((header, data)) = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) else {
        return Err(format!("it ends within the header of {length} bytes"));
    };
    let data_start = bytes.len() - data.len();
    let mut tensors = tensors(header).map_err(|error| format!("the header: {error}"))?;
    if let Some((name, info)) = tensors.iter().find(|(_, info)| info.shape.len() > MAX_DIMENSIONS) {
        let dimensions = info.shape.len();
        return Err(format!("tensor `{name}` has {dimensions} dimensions, the limit is {MAX_DIMENSIONS}"));
    }
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let end = tensors.last().map_or(0, |(_, info)| info.data_offsets.1);
    // The library checks that tensors neither overlap nor have gaps, and that offsets fit shapes.
    if let Err(error) = Metadata::new(None, tensors.clone()) {
        return Err(match tensors.iter().find_map(own_problem) {
            Some(problem) => problem,
            None => error.to_string(),
        });
    }
    if is_whole && end != data.len() {
        return Err(format!("its tensors take {end} bytes, {} are there", data.len()));
    }
    let tensors = tensors.into_iter().map(|(name, info)| {
        let (start, end) = info.data_offsets;
        let bytes = data_start + start..data_start + end;
        (name, TensorHeader { dtype: stored_type(info.dtype), shape: info.shape, strides: None, bytes })
    });
    Ok(tensors.collect())
}

fn stored_type(dtype: Dtype) -> StoredType {
    match dtype {
        Dtype::F32 => StoredType::Known(Known::Float32),
        Dtype::F16 => StoredType::Known(Known::Float16),
        Dtype::BF16 => StoredType::Known(Known::Bfloat16),
        other => StoredType::Other(format!("{other:?}")),
    }
}

/// The fault of a tensor on its own, if any.
fn own_problem((name, info): &(String, TensorInfo)) -> Option<String> {
    let TensorInfo { dtype, shape, data_offsets: (start, end) } = info;
    let alone = end.checked_sub(*start).map(|length| {
        let info = TensorInfo { dtype: *dtype, shape: shape.clone(), data_offsets: (0, length) };
        Metadata::new(None, vec![(name.clone(), info)])
    });
    match alone {
        Some(Ok(_)) => None,
        _ => Some(format!("tensor `{name}` is {dtype:?} of shape {shape:?}, which bytes {start} to {end} do not fit")),
    }
}

/// Tensors in the order of the file.
fn tensors(header: &[u8]) -> Result<Vec<(String, TensorInfo)>, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(header);
    let tensors = json.deserialize_map(Entries)?;
    json.end()?;
    Ok(tensors)
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, TensorInfo)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut tensors, mut names) = (Vec::new(), HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("`{name}` occurs twice")));
            }
            if name == METADATA {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let info = map.next_value().map_err(|error| A::Error::custom(format!("tensor `{name}`: {error}")))?;
            tensors.push((name, info));
        }
        Ok(tensors)
    }
}
