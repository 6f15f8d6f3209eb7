//! Threads of connections that never come back.

use std::num::NonZero;
use std::sync::OnceLock;
use std::thread::{available_parallelism, park};
use tokio::runtime::Handle;

/// Tasks for each thread of connections: one that is busy gets another later.
const TASKS_OF_THREAD: usize = 4;

/// The runtime of the server's connections.
static RUNTIME: OnceLock<Handle> = OnceLock::new();

/// Remembers the runtime; called on one of its threads.
pub(crate) fn learn_runtime() {
    if let Ok(runtime) = Handle::try_current() {
        RUNTIME.get_or_init(|| runtime);
    }
}

/// Gives each thread of connections a task that never ends and never pauses.
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
