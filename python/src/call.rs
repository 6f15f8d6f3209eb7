//! Steps of a call, and the thread that runs them.

use crate::process;
use crate::waiting::SIGNAL_CHECK;
use futures::FutureExt;
use futures::future::{AbortHandle, abortable};
use pyo3::prelude::*;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use tokio::runtime::Runtime;
use tokio::task::block_in_place;
use tokio::time::timeout;

/// A call under way. Dropped or cancelled, it leaves the engine's queue.
pub(crate) struct Call {
    held: Arc<Held>,
    abort: AbortHandle,
}

type Steps = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Steps of a call until the thread that waits for the answer, or the runtime, takes and runs them.
struct Held {
    steps: Mutex<Option<Steps>>,
    runtime: &'static Runtime,
}

impl Call {
    /// Starts a call. The calling thread runs the first step, so that a query is in the engine's queue before another thread has woken up.
    /// The runtime runs the others if the call can continue before any thread waits: a longer text, which other threads tokenize, thus
    /// enters the queue without waiting for `result`. A panic ends the call.
    ///
    /// # Errors
    /// `OSError` if the runtime's threads cannot be started.
    pub(crate) fn start(steps: impl Future<Output = ()> + Send + 'static) -> PyResult<Self> {
        let (steps, abort) = abortable(AssertUnwindSafe(steps).catch_unwind());
        let steps: Steps = Box::pin(steps.map(drop));
        let held = Arc::new(Held { steps: Mutex::new(Some(steps)), runtime: process::runtime()? });
        Python::attach(|py| py.detach(|| held.begin()));
        Ok(Self { held, abort })
    }

    /// Runs the steps on this thread, without the GIL, until the call is over or cancelled; does nothing if the runtime runs them.
    ///
    /// # Errors
    /// Any exception of Python's signal handlers, such as `KeyboardInterrupt`, which ends the call.
    pub(crate) fn carry(&self, py: Python<'_>) -> PyResult<()> {
        let Some(mut steps) = self.held.take() else { return Ok(()) };
        let mut step = async || timeout(SIGNAL_CHECK, &mut steps).await.is_ok();
        // A callback, or a finalizer that runs in it, is on a thread of the runtime.
        while !py.detach(|| block_in_place(|| self.held.runtime.block_on(step()))) {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Hands the steps to the runtime, for callers that do not wait.
    pub(crate) fn leave_to_runtime(&self) {
        if let Some(steps) = self.held.take() {
            self.held.runtime.spawn(steps);
        }
    }

    /// Ends the call. Its texts leave the engine's queue.
    pub(crate) fn cancel(&self) {
        if process::is_forked() {
            return;
        }
        match self.held.take() {
            Some(steps) => drop(steps),
            None => self.abort.abort(),
        }
    }
}

impl Drop for Call {
    /// In a forked process the steps are leaked: the locks that they take to leave the queue may be held forever.
    fn drop(&mut self) {
        if process::is_forked() {
            // Their own lock is not taken either, since another thread may have held it.
            mem::forget(Arc::clone(&self.held));
        }
        self.cancel();
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, Option<Steps>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Steps> {
        self.lock().take()
    }

    /// Runs the first step.
    fn begin(self: &Arc<Self>) {
        let _entered = self.runtime.enter();
        let waker = Waker::from(Arc::clone(self));
        let mut held = self.lock();
        if held.as_mut().is_some_and(|steps| steps.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()) {
            *held = None;
        }
    }
}

/// Waker of the first step: the runtime takes the others, if no thread has.
impl Wake for Held {
    fn wake(self: Arc<Self>) {
        // The first step may wake itself, under the lock.
        self.runtime.spawn(async move {
            if let Some(steps) = self.take() {
                steps.await;
            }
        });
    }
}
