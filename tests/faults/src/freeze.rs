//! Hanging of all threads that serve connections.

use std::num::NonZero;
use std::sync::OnceLock;
use std::thread::{available_parallelism, park};
use tokio::runtime::Handle;

/// Tasks for each thread that serves connections: a busy thread gets its task later.
const TASKS_OF_THREAD: usize = 4;

/// The runtime that serves connections.
static RUNTIME: OnceLock<Handle> = OnceLock::new();

/// Stores the runtime; called on one of its threads.
pub(crate) fn learn_runtime() {
    if let Ok(runtime) = Handle::try_current() {
        RUNTIME.get_or_init(|| runtime);
    }
}

/// Gives each thread that serves connections a task that never ends and never yields.
pub(crate) fn freeze() {
    let Some(runtime) = RUNTIME.get() else { return };
    for _ in 0..TASKS_OF_THREAD * available_parallelism().map_or(1, NonZero::get) {
        drop(runtime.spawn(async {
            loop {
                park();
            }
        }));
    }
}
