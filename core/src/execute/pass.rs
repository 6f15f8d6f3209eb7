//! A batch on its way to a backend, the pass that runs it, and the pass once submitted.

use crate::backend::ModelBackend;
use crate::error::BackendError;
use crate::outputs::submitted::Submitted;
use crate::schedule::batcher::{FormingBatch, ReadyBatch};
use crate::schedule::forming::BatchId;
use crate::schedule::level::Level;
use std::time::{Duration, Instant};
use tracing::Span;

/// A batch that a backend has taken.
pub(super) struct Taken {
    pub(super) id: BatchId,
    pub(super) level: Level,
    pub(super) batch: FormingBatch,
}

/// A forward pass to run.
pub(super) struct Pass<'a> {
    pub(super) backend: &'a mut ModelBackend,
    /// Backends of the levels above, the most urgent last; none where nothing interrupts.
    pub(super) above: &'a mut [ModelBackend],
    pub(super) replica: usize,
    pub(super) level: Level,
    /// It runs at a yield point of another.
    pub(super) interrupts: bool,
    pub(super) id: BatchId,
}

/// A submitted pass and the batch that it answers.
pub(super) struct Submission {
    pub(super) id: BatchId,
    pub(super) replica: usize,
    pub(super) level: Level,
    /// It ran at a yield point of another.
    pub(super) interrupts: bool,
    /// Attention runs over compact rows.
    pub(super) is_compact: bool,
    /// Type of the model.
    pub(super) dtype: &'static str,
    pub(super) ready: ReadyBatch,
    pub(super) outcome: Result<Submitted, BackendError>,
    /// Time of each sub-model; empty for a model without sub-models.
    pub(super) times: Vec<Duration>,
    pub(super) spent: Spent,
    pub(super) span: Span,
    /// Spans of the pass in the traces of its requests.
    pub(super) spans: Vec<Span>,
}

impl Submission {
    /// `true` if a device still runs the pass.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.outcome, Ok(Submitted::Running(_)))
    }
}

/// Time of a pass.
pub(super) struct Spent {
    /// Time at which the backend took the batch.
    pub(super) taken: Instant,
    /// Compute time since the pass last paid back debts.
    pub(super) unpaid: Duration,
    /// Time of the batches at its yield points.
    pub(super) away: Duration,
    /// Batches that have interrupted the pass.
    pub(super) interruptions: usize,
}
