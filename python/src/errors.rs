//! Errors of the engine as exceptions of the package (`python/prefold/errors.py`).

use prefold::LocalModelError;
use prefold_core::Error;
use pyo3::prelude::*;

/// An exception of the package. `field` names the invalid argument.
fn exception(name: &str, message: String, field: Option<&str>) -> PyErr {
    Python::attach(|py| {
        let class = py.import("prefold.errors").and_then(|errors| errors.getattr(name));
        let made = class.and_then(|class| match field {
            Some(field) => class.call1((message, field)),
            None => class.call1((message,)),
        });
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// The exception of an engine's error.
pub(crate) fn to_python(error: &Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Empty { field, .. }
        | Error::Validation { field, .. }
        | Error::ForeignIds { field, .. }
        | Error::BatchTooLarge { field, .. } => exception("InputError", message, Some(field)),
        Error::TooLong { field, .. } => exception("TooLongError", message, Some(field)),
        Error::Tokenization { field, .. } => exception("TokenizationError", message, Some(field)),
        Error::NotCapable { .. } => exception("NotCapableError", message, None),
        Error::Overloaded { .. } => exception("OverloadedError", message, None),
        Error::Backend(_) => exception("InferenceError", message, None),
        Error::ShuttingDown => closed(),
    }
}

/// The exception of a model that cannot be loaded.
pub(crate) fn not_loaded(error: LocalModelError) -> PyErr {
    match error {
        LocalModelError::Setting(message) => setting(message),
        LocalModelError::Load(message) => exception("LoadError", message, None),
    }
}

/// The exception of a setting that is unknown or wrong.
pub(crate) fn setting(message: String) -> PyErr {
    exception("SettingError", message, None)
}

/// The exception of an invalid argument. `problem` is the rest of a sentence.
pub(crate) fn invalid_input(field: &str, problem: &str) -> PyErr {
    exception("InputError", format!("`{field}` {problem}"), Some(field))
}

/// The exception of a closed model.
pub(crate) fn closed() -> PyErr {
    exception("ClosedError", "the model is closed".to_owned(), None)
}

/// The exception of a process that was forked from `owner`.
pub(crate) fn fork_error(owner: u32) -> PyErr {
    let message = format!(
        "process {} was forked from process {owner}, which had loaded a model: the threads that compute do not exist \
         here. Load models only after the fork, or start processes with multiprocessing's `spawn` or `forkserver`",
        std::process::id()
    );
    exception("ForkError", message, None)
}
