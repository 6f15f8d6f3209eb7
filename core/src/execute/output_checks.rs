//! Checks of a backend's outputs: a wrong answer must never look like a right one.

use crate::schedule::entry::Entry;
use crate::{BackendError, Output, Wanted};

/// One output for each sequence.
pub(super) fn check_count(outputs: Vec<Output>, expected: usize) -> Result<Vec<Output>, BackendError> {
    if outputs.len() == expected {
        return Ok(outputs);
    }
    Err(BackendError::Contract(format!("{} outputs for {expected} sequences", outputs.len())))
}

/// The form that was asked for, and finite values.
pub(super) fn check_output(output: &Output, entry: &Entry) -> Result<(), BackendError> {
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
        Some(index) => Err(BackendError::NotFinite(format!(
            "value {index} is {}; a weight that is not finite is a cause, and in bfloat16, float16 and int8 an overflow, which float32 avoids",
            values[index]
        ))),
    }
}
