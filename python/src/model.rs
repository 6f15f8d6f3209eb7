//! A model in this process.

use crate::errors::{closed, invalid_input, not_loaded};
use crate::job::{Answer, Job};
use crate::process;
use crate::settings::table;
use crate::texts::{texts, texts_and_pairs};
use crate::waiting::Place;
use prefold::{LocalModel, LocalModelError, TextOptions};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{mem, panic, thread};

/// A loaded model; each of its calls returns a `Job`.
#[pyclass(frozen, name = "Model", module = "prefold._prefold")]
pub(crate) struct NativeModel {
    /// `None` once closed.
    model: Mutex<Option<LocalModel>>,
    max_inputs: usize,
}

/// Options of texts, a tuple in Python.
#[derive(FromPyObject)]
struct Options(Option<String>, Option<String>, Option<String>, Option<String>, Option<bool>);

impl From<Options> for TextOptions {
    fn from(Options(prompt_name, prompt, input_type, task, truncate): Options) -> Self {
        Self { prompt_name, prompt, input_type, task, truncate, without_special_tokens: false }
    }
}

#[pymethods]
impl NativeModel {
    /// Loads a model (the built-in one without a name) and starts its engine, without the GIL. Ctrl-C ends the wait.
    #[new]
    fn load(py: Python<'_>, model: Option<String>, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        process::own()?;
        let settings = table(settings)?;
        let place = Place::new();
        let loaded = place.clone();
        let load = move || {
            let outcome = panic::catch_unwind(|| LocalModel::load(model.as_deref(), &settings));
            let panicked = |_| Err(LocalModelError::Load("loading the model panicked".to_owned()));
            loaded.fill(outcome.unwrap_or_else(panicked));
        };
        thread::Builder::new().name("prefold-loading".to_owned()).spawn(load)?;
        let lost = || PyRuntimeError::new_err("the model was lost");
        let model = place.wait(py)?.ok_or_else(lost)?.map_err(not_loaded)?;
        Ok(Self { max_inputs: model.max_inputs(), model: Mutex::new(Some(model)) })
    }

    /// Maximum texts of one call.
    #[getter]
    fn max_inputs(&self) -> usize {
        self.max_inputs
    }

    /// Another handle of the model, which stays open when this one is closed; a call of several blocks holds it until it is done.
    fn held(&self) -> PyResult<Self> {
        Ok(Self { max_inputs: self.max_inputs, model: Mutex::new(Some(self.model()?)) })
    }

    /// The answer of `/info`, in JSON.
    fn info(&self) -> PyResult<String> {
        self.model()?.info().map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Vectors of texts: a numpy array of float32, `[n, d]`. Without `normalize` they keep the length that the model's own
    /// modules give them.
    fn embed(
        &self,
        given: &Bound<'_, PyAny>,
        options: Options,
        normalize: Option<bool>,
        dimensions: Option<i64>,
    ) -> PyResult<Job> {
        let (model, texts) = (self.model()?, texts(given)?);
        let dimensions = not_negative("dimensions", dimensions)?;
        Job::start(async move { model.embed(texts, options.into(), normalize, dimensions).await.map(Answer::Vectors) })
    }

    /// Indices and scores of texts, best first.
    fn rerank(
        &self,
        query: String,
        given: &Bound<'_, PyAny>,
        options: Options,
        instruction: Option<String>,
        raw_scores: bool,
        top_n: Option<i64>,
    ) -> PyResult<Job> {
        let (model, texts) = (self.model()?, texts(given)?);
        let top_n = not_negative("top_n", top_n)?;
        Job::start(async move {
            let ranked = model.rerank(query, texts, instruction, options.into(), (raw_scores, top_n)).await;
            ranked.map(Answer::Ranked)
        })
    }

    /// Labels and scores of texts and pairs, best first.
    fn classify(&self, given: &Bound<'_, PyAny>, options: Options, raw_scores: bool) -> PyResult<Job> {
        let (model, inputs) = (self.model()?, texts_and_pairs(given)?);
        Job::start(async move { model.classify(inputs, options.into(), raw_scores).await.map(Answer::Labels) })
    }

    /// Tokens of texts.
    fn tokenize(&self, given: &Bound<'_, PyAny>, options: Options, add_special_tokens: bool) -> PyResult<Job> {
        let (model, texts) = (self.model()?, texts(given)?);
        let options = TextOptions { without_special_tokens: !add_special_tokens, ..options.into() };
        Job::start(async move { model.tokenize(texts, options).await.map(Answer::Tokens) })
    }

    /// Frees the model as soon as its running calls are done.
    fn close(&self, py: Python<'_>) {
        if !process::is_forked() {
            let model = self.lock().take();
            py.detach(|| drop(model));
        }
    }
}

impl NativeModel {
    fn lock(&self) -> MutexGuard<'_, Option<LocalModel>> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// `ForkError` in a forked process, `ClosedError` after `close`.
    fn model(&self) -> PyResult<LocalModel> {
        process::check()?;
        self.lock().clone().ok_or_else(closed)
    }
}

impl Drop for NativeModel {
    /// In a forked process the model is leaked: its threads do not exist there and cannot be joined, and may have held its locks.
    fn drop(&mut self) {
        if process::is_forked() {
            mem::forget(self.model.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// # Errors
/// `InputError` for a negative number.
fn not_negative(field: &str, number: Option<i64>) -> PyResult<Option<usize>> {
    let checked = |number: i64| {
        usize::try_from(number).map_err(|_| invalid_input(field, &format!("is {number}; it must be at least 1")))
    };
    number.map(checked).transpose()
}
