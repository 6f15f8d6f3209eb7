//! A call of the engine under way.

use crate::call::Call;
use crate::errors::to_python;
use crate::process;
use crate::waiting::Place;
use numpy::{PyArray1, PyArrayMethods};
use prefold::{RankedDocument, Vectors};
use prefold_core::{Error, TokenInfo};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::OnceLock;
use std::time::Duration;

/// Answer of a call.
pub(crate) enum Answer {
    Vectors(Vectors),
    Ranked(Vec<RankedDocument>),
    Labels(Vec<Vec<(String, f32)>>),
    Tokens(Vec<Vec<TokenInfo>>),
}

/// The answer, the engine's error, or `None` if the call ended without either.
type Outcome = Result<Answer, Option<Error>>;

/// A call under way. Dropped or cancelled, it leaves the engine's queue.
#[pyclass(frozen, module = "prefold._prefold")]
pub(crate) struct Job {
    place: Place<Outcome>,
    call: Call,
    inference: OnceLock<Duration>,
}

/// Leaves a missing result when the call ends without one: dropped, or by a panic.
struct Ended(Place<Outcome>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.fill(Err(None));
    }
}

impl Job {
    /// Starts a call.
    pub(crate) fn start(call: impl Future<Output = Result<Answer, Error>> + Send + 'static) -> PyResult<Self> {
        let place = Place::new();
        let ended = Ended(place.clone());
        let call = async move {
            let answer = call.await;
            ended.0.fill(answer.map_err(Some));
        };
        Ok(Self { place, call: Call::start(call)?, inference: OnceLock::new() })
    }
}

#[pymethods]
impl Job {
    /// Waits for the answer, without the GIL, and returns it; once only. Ctrl-C ends the wait and the call.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        process::check()?;
        self.call.carry(py)?;
        match self.place.wait(py).inspect_err(|_| self.cancel())? {
            Some(Ok(answer)) => {
                if let Answer::Vectors(vectors) = &answer {
                    let _ = self.inference.set(vectors.inference);
                }
                answer.into_python(py)
            }
            Some(Err(Some(error))) => Err(to_python(&error)),
            Some(Err(None)) => Err(PyRuntimeError::new_err("the call was cancelled or lost")),
            None => Err(PyRuntimeError::new_err("the answer has been taken already")),
        }
    }

    /// Seconds of the forward pass, averaged over the texts; None until `result` has returned vectors.
    #[getter]
    fn inference_s(&self) -> Option<f64> {
        self.inference.get().map(Duration::as_secs_f64)
    }

    /// Calls `callback` without arguments, on any thread, when the answer is available.
    fn on_done(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        process::check()?;
        self.call.leave_to_runtime();
        self.place.on_filled(py, callback);
        Ok(())
    }

    /// Ends the call. Its texts leave the engine's queue.
    fn cancel(&self) {
        self.call.cancel();
    }
}

impl Answer {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            // The array takes ownership of the values: nothing is copied.
            Self::Vectors(Vectors { values, rows, dim, .. }) => {
                Ok(PyArray1::from_vec(py, values).reshape([rows, dim])?.into_any().unbind())
            }
            Self::Ranked(documents) => {
                list(py, documents.into_iter().map(|document| (document.index, document.score)).collect())
            }
            Self::Labels(labels) => list(py, labels),
            Self::Tokens(tokens) => {
                let fields = |TokenInfo { id, text, special, start, stop, .. }| (id, text, special, start, stop);
                let of_text = |tokens: Vec<TokenInfo>| tokens.into_iter().map(fields).collect::<Vec<_>>();
                list(py, tokens.into_iter().map(of_text).collect())
            }
        }
    }
}

fn list<'py, T: IntoPyObject<'py>>(py: Python<'py>, items: Vec<T>) -> PyResult<Py<PyAny>> {
    Ok(PyList::new(py, items)?.into_any().unbind())
}
