//! A result set by another thread, and waiting for it without the GIL.

use pyo3::prelude::*;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two checks of Python's signals, such as Ctrl-C.
pub(crate) const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// Place of one result. Clones share it.
pub(crate) struct Place<T>(Arc<Inner<T>>);

struct Inner<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

struct State<T> {
    /// The result until it is taken.
    result: Option<T>,
    is_filled: bool,
    /// Python function to call when the result is set.
    callback: Option<Py<PyAny>>,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send> Place<T> {
    pub(crate) fn new() -> Self {
        let state = State { result: None, is_filled: false, callback: None };
        Self(Arc::new(Inner { state: Mutex::new(state), filled: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result, unless already set, and wakes waiting threads.
    pub(crate) fn fill(&self, result: T) {
        let mut state = self.lock();
        if state.is_filled {
            return;
        }
        (state.result, state.is_filled) = (Some(result), true);
        let callback = state.callback.take();
        drop(state);
        self.0.filled.notify_all();
        if let Some(callback) = callback {
            // The interpreter may be shutting down.
            Python::try_attach(|py| call(py, &callback));
        }
    }

    /// Calls `callback` without arguments as soon as the result is set, on the thread that sets it.
    pub(crate) fn on_filled(&self, py: Python<'_>, callback: Py<PyAny>) {
        let mut state = self.lock();
        if state.is_filled {
            drop(state);
            call(py, &callback);
        } else {
            state.callback = Some(callback);
        }
    }

    /// Waits for the result and takes it; `None` if it was taken before.
    ///
    /// # Errors
    /// Any exception of Python's signal handlers, such as `KeyboardInterrupt`.
    pub(crate) fn wait(&self, py: Python<'_>) -> PyResult<Option<T>> {
        loop {
            let is_filled = py.detach(|| {
                let is_empty = |state: &mut State<T>| !state.is_filled;
                let waited = self.0.filled.wait_timeout_while(self.lock(), SIGNAL_CHECK, is_empty);
                waited.unwrap_or_else(PoisonError::into_inner).0.is_filled
            });
            if is_filled {
                return Ok(self.lock().result.take());
            }
            py.check_signals()?;
        }
    }
}

fn call(py: Python<'_>, callback: &Py<PyAny>) {
    if let Err(error) = callback.call0(py) {
        error.write_unraisable(py, None);
    }
}
