//! Keyword arguments as settings.

use crate::errors::setting;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};

/// Settings by name, without those that are `None`.
///
/// # Errors
/// `SettingError` for a value that is not a string, number, boolean, path or list of them.
pub(crate) fn table(settings: &Bound<'_, PyDict>) -> PyResult<Table> {
    let mut table = Table::new();
    for (name, given) in settings {
        if !given.is_none() {
            let name: String = name.extract()?;
            let given = value(&name, &given)?;
            table.insert(name, given);
        }
    }
    Ok(table)
}

fn value(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    // A bool is an int in Python.
    if given.is_instance_of::<PyBool>() {
        Ok(Value::Boolean(given.extract()?))
    } else if given.is_instance_of::<PyInt>() {
        Ok(Value::Integer(given.extract()?))
    } else if given.is_instance_of::<PyFloat>() {
        Ok(Value::Float(given.extract()?))
    } else if given.is_instance_of::<PyString>() {
        Ok(Value::String(given.extract()?))
    } else if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let items = given.try_iter()?.map(|item| value(name, &item?));
        Ok(Value::Array(items.collect::<PyResult<_>>()?))
    } else if given.hasattr("__fspath__")? {
        Ok(Value::String(given.call_method0("__fspath__")?.extract()?))
    } else {
        let kind = given.get_type().name()?;
        Err(setting(format!("`{name}` is {kind}; it must be a text, a number, True, False or a list of them")))
    }
}
