//! Execution: from the queue to the answers, on two threads and a slot between them.
//!
//! ```text
//! submit -> Queue -> planner -> slot -> backend loop -> each entry's reply
//! ```
//!
//! The planner fills the slot with batch t+1 while the backend runs batch t. As long as the backend is busy the batch in
//! the slot can still grow: the planner takes it back out when entries arrive that fit. Once the backend waits, the batch
//! is left for it, so a lone request leaves at once.

mod backend_loop;
mod output_checks;
pub(crate) mod pipeline;
mod planner;
pub(crate) mod submit;
pub(crate) mod warm_up;

use self::pipeline::{Pipeline, PipelineConfig};
use self::warm_up::WarmUp;
use crate::error::panic_message;
use crate::{BackendError, ModelBackend};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// Starts the planner's and the backend's thread and returns when the backend is warm. The threads end after
/// [`Pipeline::close`], when everything accepted has been answered.
///
/// # Errors
/// A thread cannot be started, or the warm-up fails.
pub(crate) fn spawn(
    mut backend: ModelBackend,
    config: PipelineConfig,
    warm_up: WarmUp,
) -> Result<(Arc<Pipeline>, [JoinHandle<()>; 2]), BackendError> {
    let pipeline = Arc::new(Pipeline::new(config));
    let [for_planner, for_backend] = [(); 2].map(|()| Arc::clone(&pipeline));
    let not_started = |error: std::io::Error| BackendError::Compute(format!("could not start a thread: {error}"));
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let planner = thread("prefold-planner").spawn(move || for_planner.plan_batches()).map_err(not_started)?;
    let (warm, is_warm) = mpsc::channel();
    let runner = thread("prefold-backend").spawn(move || {
        let observe = |rows, pairs, time| for_backend.observe_cost(rows, pairs, time);
        let warmed = catch_unwind(AssertUnwindSafe(|| warm_up.run(&mut backend, observe)))
            .unwrap_or_else(|panic| Err(BackendError::Panic(panic_message(&*panic))));
        // The other end waits for nothing else.
        if warm.send(warmed).is_ok() {
            for_backend.run_batches(backend);
        }
    });
    let warmed = runner.map_err(not_started).and_then(|runner| match is_warm.recv() {
        Ok(warmed) => warmed.map(|()| runner),
        Err(_) => Err(BackendError::Contract("the backend's thread ended before its warm-up".to_owned())),
    });
    match warmed {
        Ok(runner) => Ok((pipeline, [planner, runner])),
        Err(error) => {
            pipeline.close();
            Err(error)
        }
    }
}

#[cfg(test)]
#[path = "tests/pipeline.rs"]
mod tests;
