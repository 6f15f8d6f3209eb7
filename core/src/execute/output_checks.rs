//! Checks of a backend's outputs, so that a wrong answer never looks like a right one.

use crate::error::BackendError;
use crate::outputs::{Output, Values};
use crate::schedule::entry::Entry;

/// `true` if all values are finite.
pub(super) fn is_finite(output: &Output) -> bool {
    output.all().flat_map(|values| &values.data).all(|value| value.is_finite())
}

/// `true` if a vector has no direction: all of its values are 0.
pub(crate) fn is_zero_vector(output: &Output) -> bool {
    let mut values = output.all().flat_map(|values| &values.data).peekable();
    values.peek().is_some() && values.all(|&value| value == 0.0)
}

/// One output for each sequence.
pub(super) fn check_count(outputs: Vec<Output>, expected: usize) -> Result<Vec<Output>, BackendError> {
    if outputs.len() == expected {
        return Ok(outputs);
    }
    Err(BackendError::Contract(format!("{} outputs for {expected} sequences", outputs.len())))
}

/// Checks an output for the requested form and finite values. `dtype` is the model's data type, for the message.
pub(super) fn check_output(output: &Output, entry: &Entry, dtype: &'static str) -> Result<(), BackendError> {
    if !output.answers(entry.wanted, entry.tokens.len()) {
        let (tokens, found) = (entry.tokens.len(), output.all().map(|values| values.data.len()).sum::<usize>());
        let problem = format!("{found} values do not answer {:?} for {tokens} tokens", entry.wanted);
        return Err(BackendError::Contract(problem));
    }
    for Values { data, .. } in output.all() {
        if let Some(index) = data.iter().position(|value| !value.is_finite()) {
            return Err(BackendError::not_finite(&format!("value {index} is {}", data[index]), dtype));
        }
    }
    Ok(())
}
