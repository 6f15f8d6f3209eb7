//! Checks of a backend's outputs, so that a wrong answer never looks like a right one.

use crate::backend::{Output, Wanted};
use crate::error::BackendError;
use crate::schedule::entry::Entry;

/// `true` if all values are finite.
pub(super) fn is_finite(output: &Output) -> bool {
    let (Output::Embedding(values) | Output::Logits(values) | Output::Tokens { data: values, .. }) = output;
    values.iter().all(|value| value.is_finite())
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
    let (values, fits) = match (output, entry.wanted) {
        (Output::Embedding(values), Wanted::Embedding) | (Output::Logits(values), Wanted::Logits) => {
            (values, !values.is_empty())
        }
        (Output::Tokens { data, dim }, Wanted::Tokens) => (data, *dim > 0 && data.len() == dim * entry.tokens.len()),
        (Output::Embedding(values) | Output::Logits(values) | Output::Tokens { data: values, .. }, _) => {
            (values, false)
        }
    };
    if !fits {
        let tokens = entry.tokens.len();
        let problem = format!("{} values do not answer {:?} for {tokens} tokens", values.len(), entry.wanted);
        return Err(BackendError::Contract(problem));
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(BackendError::not_finite(&format!("value {index} is {}", values[index]), dtype)),
    }
}
