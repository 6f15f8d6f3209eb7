//! Texts from Python: strings, and the buffers of Arrow arrays.

use crate::errors::invalid_input;
use numpy::{Element, PyReadonlyArray1};
use prefold_core::Input;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

/// Texts of a list of `str`, or of an Arrow array as the tuple `(offsets, bytes)` of numpy arrays.
///
/// # Errors
/// `InputError` that names the item at fault.
pub(crate) fn texts(given: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let Ok(buffers) = given.cast::<PyTuple>() else {
        let texts = given.try_iter()?.enumerate();
        return texts.map(|(index, item)| text(&item?, index)).collect();
    };
    let (offsets, bytes): (Bound<'_, PyAny>, PyReadonlyArray1<'_, u8>) = buffers.extract()?;
    match offsets.extract::<PyReadonlyArray1<'_, i32>>() {
        Ok(offsets) => of_arrow(&offsets, &bytes),
        Err(_) => of_arrow(&offsets.extract::<PyReadonlyArray1<'_, i64>>()?, &bytes),
    }
}

/// Texts and pairs of texts.
///
/// # Errors
/// `InputError` that names the item at fault.
pub(crate) fn texts_and_pairs(given: &Bound<'_, PyAny>) -> PyResult<Vec<Input>> {
    given.try_iter()?.enumerate().map(|(index, item)| text_or_pair(&item?, index)).collect()
}

fn text_or_pair(item: &Bound<'_, PyAny>, index: usize) -> PyResult<Input> {
    if !item.is_instance_of::<PyTuple>() && !item.is_instance_of::<PyList>() {
        return Ok(Input::Text(text(item, index)?));
    }
    match item.len()? {
        2 => Ok(Input::Pair(text(&item.get_item(0)?, index)?.into(), text(&item.get_item(1)?, index)?)),
        len => Err(invalid_input("texts", &format!("item {index} has {len} texts; it must be a text or a pair"))),
    }
}

fn text(item: &Bound<'_, PyAny>, index: usize) -> PyResult<String> {
    let Ok(text) = item.cast::<PyString>() else {
        let kind = item.get_type().name()?;
        return Err(invalid_input("texts", &format!("item {index} is {kind}; it must be str")));
    };
    let text = text
        .to_str()
        .map_err(|error| invalid_input("texts", &format!("item {index} is not valid Unicode: {error}")))?;
    Ok(text.to_owned())
}

/// Concatenated texts in `bytes`; text `i` is `bytes[offsets[i]..offsets[i + 1]]`.
fn of_arrow<T: Element + Copy + TryInto<usize>>(
    offsets: &PyReadonlyArray1<'_, T>,
    bytes: &PyReadonlyArray1<'_, u8>,
) -> PyResult<Vec<String>> {
    let (offsets, bytes) = (offsets.as_slice()?, bytes.as_slice()?);
    let text = |begin: T, end: T| {
        let range = begin.try_into().ok()?..end.try_into().ok()?;
        bytes.get(range)
    };
    let texts = offsets.windows(2).enumerate().map(|(index, pair)| {
        let Some(bytes) = text(pair[0], pair[1]) else {
            return Err(invalid_input("texts", &format!("item {index} lies outside of the array's bytes")));
        };
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned)
            .map_err(|error| invalid_input("texts", &format!("item {index} is not valid UTF-8: {error}")))
    });
    texts.collect()
}
