//! The tensors of a pickled dict, and their places in storages.

use super::global::{Global, StorageType};
use super::pickle::{Node, Pickle, Value};
use crate::formats::tensor::{StoredType, TensorHeader};
use std::collections::HashMap;
use std::ops::Range;

/// Maximum dimensions of a tensor, as in PyTorch.
const MAX_DIMENSIONS: usize = 64;

/// The value of a key of a dict at the top.
pub(super) fn entry<'a>(pickle: &Pickle<'a>, key: &str) -> Option<Value<'a>> {
    let Some(Node::Dict(entries)) = pickle.node(pickle.root) else { return None };
    entries.iter().rev().find(|(name, _)| *name == Value::Text(key)).map(|&(_, value)| value)
}

/// The tensors by name; `place` gives the bytes of a storage by its key. What else a dict has, such as a number of steps, is
/// passed over.
///
/// # Errors
/// There is no tensor, or one does not fit its storage.
pub(super) fn tensors<'a>(
    pickle: &Pickle<'a>,
    place: impl Fn(&str) -> Option<Range<usize>>,
) -> Result<HashMap<String, TensorHeader>, String> {
    let Some(Node::Dict(entries)) = pickle.node(pickle.root) else {
        return Err("it holds no dict of tensors".to_owned());
    };
    let mut tensors = HashMap::new();
    for &(key, value) in entries {
        if let (Value::Text(name), Some(Node::Tensor(arguments))) = (key, pickle.node(value)) {
            let header = tensor(pickle, arguments, &place).map_err(|problem| format!("tensor `{name}` {problem}"))?;
            tensors.insert(name.to_owned(), header);
        }
    }
    if tensors.is_empty() {
        let names: Vec<&str> = entries.iter().take(3).filter_map(|(key, _)| text(*key)).collect();
        return Err(format!("its dict has no tensors at the top level, but {names:?}"));
    }
    Ok(tensors)
}

/// Bytes of an element of each storage, by key.
///
/// # Errors
/// Two tensors give a storage different types.
pub(super) fn storages<'a>(pickle: &Pickle<'a>) -> Result<HashMap<&'a str, usize>, String> {
    let Some(Node::Dict(entries)) = pickle.node(pickle.root) else {
        return Err("it holds no dict of tensors".to_owned());
    };
    let mut sizes = HashMap::new();
    for &(_, value) in entries {
        let Some(Node::Tensor(arguments)) = pickle.node(value) else { continue };
        let storage = Storage::new(pickle, arguments)?;
        if sizes.insert(storage.key, storage.element.size).is_some_and(|before| before != storage.element.size) {
            return Err(format!("storage {:?} has two types", storage.key));
        }
    }
    Ok(sizes)
}

/// A storage as a tensor names it.
struct Storage<'a> {
    element: StorageType,
    key: &'a str,
    /// Elements.
    length: usize,
}

impl<'a> Storage<'a> {
    /// The first argument of a tensor: `('storage', type, key, device, length)`, in the older format with a sixth, None.
    fn new(pickle: &Pickle<'a>, arguments: &[Value<'a>]) -> Result<Self, String> {
        let id = arguments.first().and_then(|&id| match pickle.node(id) {
            Some(Node::Persistent(id)) => Some(id.as_slice()),
            _ => None,
        });
        let (element, key, length) = match id {
            Some(
                &[
                    Value::Text("storage"),
                    Value::Global(Global::Storage(element)),
                    Value::Text(key),
                    _,
                    Value::Int(length),
                ],
            )
            | Some(
                &[
                    Value::Text("storage"),
                    Value::Global(Global::Storage(element)),
                    Value::Text(key),
                    _,
                    Value::Int(length),
                    Value::None,
                ],
            ) => (element, key, length),
            _ => return Err("has no known kind of storage".to_owned()),
        };
        let length = usize::try_from(length).map_err(|_| format!("has a storage of {length} elements"))?;
        Ok(Self { element, key, length })
    }
}

/// A tensor from the arguments of `_rebuild_tensor_v2`: storage, offset, shape, strides, and what is not needed.
fn tensor<'a>(
    pickle: &Pickle<'a>,
    arguments: &[Value<'a>],
    place: &impl Fn(&str) -> Option<Range<usize>>,
) -> Result<TensorHeader, String> {
    let storage = Storage::new(pickle, arguments)?;
    let &[_, offset, shape, strides, ..] = arguments else { return Err("lacks shape or strides".to_owned()) };
    let sizes = |value: Value<'a>| {
        let sizes = pickle.items(value).filter(|sizes| sizes.len() <= MAX_DIMENSIONS)?;
        sizes.iter().map(|&size| size_of_value(size)).collect::<Option<Vec<_>>>()
    };
    let (Some(offset), Some(shape), Some(strides)) = (size_of_value(offset), sizes(shape), sizes(strides)) else {
        return Err(format!("has a malformed shape, strides or offset, or more than {MAX_DIMENSIONS} dimensions"));
    };
    let StorageType { name, size, dtype } = storage.element;
    let bytes = place(storage.key).ok_or_else(|| format!("is in storage {:?}, which is not there", storage.key))?;
    let does_not_fit = || {
        format!(
            "of shape {shape:?}, strides {strides:?} and offset {offset} does not fit storage {:?} of {} elements in {} bytes",
            storage.key,
            storage.length,
            bytes.len()
        )
    };
    let span = span(&shape, &strides).filter(|_| shape.len() == strides.len()).ok_or_else(does_not_fit)?;
    let fits = offset.checked_add(span).is_some_and(|end| end <= storage.length);
    if !fits || storage.length.checked_mul(size).is_none_or(|needed| needed > bytes.len()) {
        return Err(does_not_fit());
    }
    let start = bytes.start + offset * size;
    let dtype = dtype.map_or_else(|| StoredType::Other(name.to_owned()), StoredType::Known);
    let strides = (!is_contiguous(&shape, &strides)).then_some(strides);
    Ok(TensorHeader { dtype, shape, strides, bytes: start..start + span * size })
}

/// Elements from a tensor's first to its last; `None` if it has more elements than places, as one that was expanded, or if they
/// cannot be counted.
fn span(shape: &[usize], strides: &[usize]) -> Option<usize> {
    let count = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size))?;
    if count == 0 {
        return Some(0);
    }
    let last = shape
        .iter()
        .zip(strides)
        .try_fold(0_usize, |last, (&size, &stride)| last.checked_add((size - 1).checked_mul(stride)?))?;
    last.checked_add(1).filter(|&span| count <= span)
}

/// `true` if the elements follow one another, row by row.
fn is_contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1_usize;
    shape.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = size == 1 || stride == expected;
        expected = expected.saturating_mul(size);
        fits
    })
}

fn size_of_value(value: Value<'_>) -> Option<usize> {
    match value {
        Value::Int(size) => usize::try_from(size).ok(),
        _ => None,
    }
}

fn text<'a>(value: Value<'a>) -> Option<&'a str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
