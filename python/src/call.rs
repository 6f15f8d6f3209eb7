//! Steps of a call, and the thread that runs them.

use crate::process;
use crate::waiting::SIGNAL_CHECK;
use pyo3::prelude::*;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// A call under way. Dropped or cancelled, it leaves the engine's queue.
pub(crate) struct Call(Arc<Mutex<Carrier>>);

type Steps = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runner of a call's next step.
enum Carrier {
    /// The thread that starts the call; `is_woken` once a further step can run.
    Starter {
        is_woken: bool,
    },
    /// No thread waits yet.
    Nobody(Steps),
    /// A thread that waits for the answer.
    Thread(Thread),
    Runtime(AbortHandle),
    /// The call is over or cancelled.
    Over,
}

impl Call {
    /// Starts a call of `texts` texts. The calling thread runs it as far as possible without waiting, so that a query is in the engine's
    /// queue before another thread has woken up. After that, the thread that waits for the answer runs a call of one text. If the call can
    /// continue before any thread waits, the runtime runs it: a longer text, which other threads tokenize, thus enters the queue without
    /// waiting for `result`. A call of several texts has more steps and is handed to the runtime at once.
    ///
    /// # Errors
    /// `OSError` if the runtime's threads cannot be started.
    pub(crate) fn start(texts: usize, mut steps: Steps) -> PyResult<Self> {
        let runtime = process::runtime()?;
        let call = Self(Arc::new(Mutex::new(Carrier::Starter { is_woken: false })));
        let waker = Waker::from(Arc::new(HandOver { call: Arc::downgrade(&call.0), runtime }));
        let is_over = Python::attach(|py| py.detach(|| step(runtime, &mut steps, &waker)));
        let mut carrier = call.carrier();
        let is_left = texts == 1 && !matches!(*carrier, Carrier::Starter { is_woken: true });
        // The next runner polls it again, whether woken or not.
        *carrier = match (is_over, is_left) {
            (true, _) => Carrier::Over,
            (false, true) => Carrier::Nobody(steps),
            (false, false) => Carrier::Runtime(runtime.spawn(steps).abort_handle()),
        };
        drop(carrier);
        Ok(call)
    }

    fn carrier(&self) -> MutexGuard<'_, Carrier> {
        lock(&self.0)
    }

    /// Runs the steps on this thread, without the GIL, until the call is over or cancelled; does nothing if the runtime runs them.
    ///
    /// # Errors
    /// Any exception of Python's signal handlers, such as `KeyboardInterrupt`, which ends the call.
    pub(crate) fn carry(&self, py: Python<'_>) -> PyResult<()> {
        let this = thread::current();
        let mut carrier = self.carrier();
        let Some(mut steps) = carrier.take() else { return Ok(()) };
        *carrier = Carrier::Thread(this.clone());
        drop(carrier);
        let (runtime, waker) = (process::runtime()?, Waker::from(Arc::new(Unpark(this))));
        let mut carry = || {
            let is_over = step(runtime, &mut steps, &waker) || !matches!(&*self.carrier(), Carrier::Thread(_));
            if !is_over {
                thread::park_timeout(SIGNAL_CHECK);
            }
            is_over
        };
        while !py.detach(&mut carry) {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Hands the steps to the runtime, for callers that do not wait.
    ///
    /// # Errors
    /// `OSError` if the runtime's threads cannot be started.
    pub(crate) fn leave_to_runtime(&self) -> PyResult<()> {
        self.carrier().leave_to(process::runtime()?);
        Ok(())
    }

    /// Ends the call. Its texts leave the engine's queue.
    pub(crate) fn cancel(&self) {
        if process::is_forked() {
            return;
        }
        let carrier = mem::replace(&mut *self.carrier(), Carrier::Over);
        match carrier {
            Carrier::Thread(thread) => thread.unpark(),
            Carrier::Runtime(task) => task.abort(),
            Carrier::Starter { .. } | Carrier::Nobody(_) | Carrier::Over => {}
        }
    }
}

impl Drop for Call {
    /// In a forked process the steps are leaked: the locks that they take to leave the queue may be held forever.
    fn drop(&mut self) {
        if process::is_forked() {
            // This value's own lock is not taken either, since another thread may have held it.
            mem::forget(Arc::clone(&self.0));
        }
        self.cancel();
    }
}

impl Carrier {
    /// The steps, if no thread runs them yet.
    fn take(&mut self) -> Option<Steps> {
        match mem::replace(self, Self::Over) {
            Self::Nobody(steps) => Some(steps),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Hands the steps to the runtime, if no thread runs them yet.
    fn leave_to(&mut self, runtime: &Runtime) {
        if let Some(steps) = self.take() {
            *self = Self::Runtime(runtime.spawn(steps).abort_handle());
        }
    }
}

fn lock(carrier: &Mutex<Carrier>) -> MutexGuard<'_, Carrier> {
    carrier.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one step of a call; true when the call is over. A panic also ends it.
fn step(runtime: &Runtime, steps: &mut Steps, waker: &Waker) -> bool {
    let _entered = runtime.enter();
    let stepped = catch_unwind(AssertUnwindSafe(|| steps.as_mut().poll(&mut Context::from_waker(waker))));
    !matches!(stepped, Ok(Poll::Pending))
}

/// Hands a call that can continue to the runtime, if no thread waits for it yet.
struct HandOver {
    call: Weak<Mutex<Carrier>>,
    runtime: &'static Runtime,
}

impl Wake for HandOver {
    fn wake(self: Arc<Self>) {
        let Some(call) = self.call.upgrade() else { return };
        let mut carrier = lock(&call);
        match &mut *carrier {
            Carrier::Starter { is_woken } => *is_woken = true,
            carrier => carrier.leave_to(self.runtime),
        }
    }
}

/// Wakes a thread that waits for a call.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
