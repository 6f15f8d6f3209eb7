//! Parts of clap's error messages.

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// The message without the invalid value, which is a secret.
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

/// The message, without the invalid value if its flag in `command` is secret or unknown.
pub(super) fn without_secret(error: &clap::Error, command: &mut Command) -> String {
    command.build();
    let is_secret = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(shown)) => command
            .get_arguments()
            .find(|flag| flag.to_string() == *shown)
            .is_none_or(|flag| flag.is_hide_env_values_set()),
        _ => true,
    };
    if is_secret { without_value(error) } else { error.to_string() }
}

/// Only the sentence of a message, without usage and hints.
pub(crate) fn sentence(message: &str) -> &str {
    message.strip_prefix("error: ").unwrap_or(message).split("\n\n").next().unwrap_or_default()
}
