//! Parts of clap's error messages.

use clap::error::{ContextKind, ContextValue};

/// The message without the value at fault, which may be a secret at the wrong place.
pub(super) fn without_value(error: &clap::Error) -> String {
    let message = error.to_string();
    match error.get(ContextKind::InvalidValue) {
        // In quotes: a short value may be a part of the flag's name.
        Some(ContextValue::String(value)) if !value.is_empty() => {
            message.replace(&format!("'{value}'"), "'...'").replace(&format!("`{value}`"), "`...`")
        }
        _ => message,
    }
}

/// Only the sentence of a message, without usage and hints.
pub(crate) fn sentence(message: &str) -> &str {
    message.strip_prefix("error: ").unwrap_or(message).split("\n\n").next().unwrap_or_default()
}
