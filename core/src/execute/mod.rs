//! Execution: from the queue to the answers, on the planner's thread and one thread per backend, with slots between them.
//!
//! ```text
//! submit -> Queue -> planner -> slots -> backend loops -> answers -> each entry's reply
//! ```
//!
//! The planner fills the slot with batch t+1 while the backend runs batch t. As long as the backend is busy, the batch in
//! the slot can still grow: the planner takes it out again when entries arrive that fit. Once the backend waits, the batch
//! is left for it, so a lone request leaves at once. A backend that waits while no batch is forming plans the next one itself, so
//! that a lone request does not wait for the planner's thread to wake up.
//!
//! Short requests that may interrupt the running batches have slots of their own (`schedule/take_interrupting.rs`). Such a batch runs at
//! the next yield point of a pass, on the thread and the team of that pass but on another backend (`preemption.rs`).
//!
//! A backend on a CPU has computed a pass when it returns. A device goes on by itself: its backend submits batch t+1 while batch t runs, and
//! another thread awaits batch t and answers its entries (`answers.rs`).
//!
//! Replicas of a backend take batches from the same slot: the first free replica runs the next batch, so no batch waits while
//! one is idle. A forward pass takes no lock, so the replicas do not wait for each other.

mod answers;
mod backend_loop;
pub(crate) mod output_checks;
mod pass;
pub(crate) mod pipeline;
mod planner;
mod preemption;
mod signals;
pub(crate) mod submit;
pub(crate) mod warm_up;

use self::pipeline::{Pipeline, PipelineConfig};
use self::warm_up::{WarmUp, WarmUpAnswers};
use crate::backend::Replica;
use crate::error::{BackendError, panic_message};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// The pipeline, its threads and the results of the warm-up.
pub(crate) type Started = (Arc<Pipeline>, Vec<JoinHandle<()>>, WarmUpAnswers);

/// Starts the planner's thread and one for each backend, at least one, which are replicas of each other. Returns when all are warm, with
/// the answers of their warm-ups. The threads end after [`Pipeline::close`], when all accepted requests have been answered.
///
/// # Errors
/// A thread cannot be started, a warm-up fails, or no answer of the warm-ups is finite.
pub(crate) fn spawn(replicas: Vec<Replica>, config: PipelineConfig, warm_up: WarmUp) -> Result<Started, BackendError> {
    let info = replicas.first().map(|replica| replica.backend.info());
    let (dtype, sub_models) = info.map(|info| (info.dtype, info.sub_model_map())).unwrap_or_default();
    let pipeline = Arc::new(Pipeline::new(config, replicas.len(), sub_models));
    let for_planner = Arc::clone(&pipeline);
    let planner = start("prefold-planner", move || for_planner.plan_batches())?;
    let started = replicas.into_iter().enumerate();
    let started = started.map(|(index, replica)| spawn_backend(&pipeline, replica, index, warm_up));
    let warmed = started.collect::<Result<Vec<_>, _>>().and_then(|started| {
        let (mut threads, mut answers) = (vec![planner], WarmUpAnswers::default());
        for (runner, is_warm) in started {
            let ended = |_| BackendError::Contract("the backend's thread ended before its warm-up".to_owned());
            answers = answers.and(is_warm.recv().map_err(ended)??);
            threads.push(runner);
        }
        Ok((threads, answers.check(dtype)?))
    });
    match warmed {
        Ok((threads, answers)) => Ok((pipeline, threads, answers)),
        Err(error) => {
            pipeline.close();
            Err(error)
        }
    }
}

/// Thread of a backend, and the receiver of its warm-up's result.
type WarmingThread = (JoinHandle<()>, mpsc::Receiver<Result<WarmUpAnswers, BackendError>>);

/// Starts the thread of a backend, which warms it up, reports the result and runs batches.
fn spawn_backend(
    pipeline: &Arc<Pipeline>,
    mut replica: Replica,
    index: usize,
    warm_up: WarmUp,
) -> Result<WarmingThread, BackendError> {
    let pipeline = Arc::clone(pipeline);
    let (warm, is_warm) = mpsc::channel();
    let runner = start("prefold-backend", move || {
        let observe = |sub_model, work, time| pipeline.observe_cost([(sub_model, work, time)]);
        let warmed = catch_unwind(AssertUnwindSafe(|| warm_up.run_all(&mut replica, observe)))
            .unwrap_or_else(|panic| Err(BackendError::Panic(panic_message(&*panic))));
        // The receiver waits only for this.
        if warm.send(warmed).is_ok() {
            pipeline.run_batches(replica, index);
        }
    })?;
    Ok((runner, is_warm))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, BackendError> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(|error| BackendError::Compute(format!("could not start a thread: {error}")))
}

#[cfg(test)]
#[path = "tests/pipeline.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/sub_models.rs"]
mod part_tests;

#[cfg(test)]
#[path = "tests/preemption.rs"]
mod preemption_tests;

#[cfg(test)]
#[path = "tests/replicas.rs"]
mod replica_tests;

#[cfg(test)]
#[path = "tests/overlap.rs"]
mod overlap_tests;
