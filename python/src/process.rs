//! Process-wide state: the command, the runtime of all calls, and fork detection.

use crate::errors::fork_error;
use prefold::CommandLine;
use pyo3::prelude::*;
use std::convert::identity;
use std::ffi::OsString;
use std::process::{self, ExitCode};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::runtime::Runtime;

/// Threads that pass calls to the engine and return its answers; the engine has its own threads for the work.
const RUNTIME_THREADS: usize = 2;

/// Id of the process that has loaded a model, or 0. Its threads do not exist in processes forked from it.
static OWNER: AtomicU32 = AtomicU32::new(0);

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Runs the command `prefold` and returns its exit status. `program` starts this command in a new process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, program: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    let line = CommandLine { program, arguments };
    let code = py.detach(|| prefold::run(&line, identity));
    // `ExitCode` does not expose its number.
    (0..=u8::MAX).find(|&status| ExitCode::from(status) == code).unwrap_or(1)
}

/// True in a process that was forked from one that had loaded a model.
pub(crate) fn is_forked() -> bool {
    let owner = OWNER.load(Ordering::SeqCst);
    owner != 0 && owner != process::id()
}

/// Makes this process the owner of the threads.
///
/// # Errors
/// `ForkError` in a forked process.
pub(crate) fn own() -> PyResult<()> {
    let _ = OWNER.compare_exchange(0, process::id(), Ordering::SeqCst, Ordering::SeqCst);
    check()
}

/// Refuses to work in a forked process.
///
/// # Errors
/// `ForkError`
pub(crate) fn check() -> PyResult<()> {
    if is_forked() { Err(fork_error(OWNER.load(Ordering::SeqCst))) } else { Ok(()) }
}

/// The runtime of all calls.
///
/// # Errors
/// `OSError` if its threads cannot be started.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(RUNTIME_THREADS).thread_name("prefold-calls").enable_time().build()?;
    Ok(RUNTIME.get_or_init(|| runtime))
}
