//! Steps of a call, and the thread that takes them.

use crate::process;
use crate::waiting::SIGNAL_CHECK;
use pyo3::prelude::*;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// A call under way. Dropped or cancelled, it leaves the engine's queue.
pub(crate) struct Call(Mutex<Carrier>);

type Steps = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who takes the next step of a call when it can be taken.
enum Carrier {
    /// Who will wait for the answer.
    Nobody(Steps),
    /// A thread that waits for the answer.
    Thread(Thread),
    Runtime(AbortHandle),
    /// The call is over or cancelled.
    Over,
}

impl Call {
    /// Starts a call of so many texts: goes as far as it can without waiting on this thread, so that a query is in the engine's queue
    /// before another thread has woken up. From there a call of one text is left to the thread that waits for the answer, which wakes up
    /// once, when it is there; others have more steps, and go on with the runtime.
    ///
    /// # Errors
    /// `OSError` if the runtime's threads cannot be started.
    pub(crate) fn start(texts: usize, mut steps: Steps) -> PyResult<Self> {
        let runtime = process::runtime()?;
        // Whoever goes on with it asks it again, woken or not.
        let is_over = Python::attach(|py| py.detach(|| step(runtime, &mut steps, Waker::noop())));
        let carrier = match (is_over, texts) {
            (true, _) => Carrier::Over,
            (false, 1) => Carrier::Nobody(steps),
            (false, _) => Carrier::Runtime(runtime.spawn(steps).abort_handle()),
        };
        Ok(Self(Mutex::new(carrier)))
    }

    fn carrier(&self) -> MutexGuard<'_, Carrier> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the steps on this thread, without the GIL, until the call is over or cancelled; nothing to do where the runtime takes them.
    ///
    /// # Errors
    /// What Python's signal handlers raise meanwhile, such as `KeyboardInterrupt`; that is the end of the call.
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

    /// Lets the runtime take the steps, for callers that do not wait.
    ///
    /// # Errors
    /// `OSError` if the runtime's threads cannot be started.
    pub(crate) fn leave_to_runtime(&self) -> PyResult<()> {
        let runtime = process::runtime()?;
        let mut carrier = self.carrier();
        if let Some(steps) = carrier.take() {
            *carrier = Carrier::Runtime(runtime.spawn(steps).abort_handle());
        }
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
            Carrier::Nobody(_) | Carrier::Over => {}
        }
    }
}

impl Drop for Call {
    /// In a forked process the steps are left as they are: what they lock to leave the queue may be locked for ever.
    fn drop(&mut self) {
        if process::is_forked() {
            mem::forget(self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
        self.cancel();
    }
}

impl Carrier {
    /// The steps, where nobody takes them yet.
    fn take(&mut self) -> Option<Steps> {
        match mem::replace(self, Self::Over) {
            Self::Nobody(steps) => Some(steps),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// Takes a call one step further; true when it is over. A panic is the end of it, too.
fn step(runtime: &Runtime, steps: &mut Steps, waker: &Waker) -> bool {
    let _entered = runtime.enter();
    let stepped = catch_unwind(AssertUnwindSafe(|| steps.as_mut().poll(&mut Context::from_waker(waker))));
    !matches!(stepped, Ok(Poll::Pending))
}

/// Wakes a thread that waits for a call.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
