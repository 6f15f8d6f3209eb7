//! A batch on its way to a backend, and the pass that runs it.

use crate::backend::ModelBackend;
use crate::schedule::batcher::FormingBatch;
use crate::schedule::forming::BatchId;
use crate::schedule::level::Level;

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
