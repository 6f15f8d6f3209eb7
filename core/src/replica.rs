//! Backends over the same weights.

use crate::ModelBackend;

/// A backend of a model, and those that run at the yield points of its passes, on the same threads.
pub struct Replica {
    /// Runs batches.
    pub backend: ModelBackend,
    /// None where passes are not interrupted.
    pub interrupting: Option<Interrupting>,
}

/// Backends with buffers of their own for small batches, over the weights of one that they interrupt.
pub struct Interrupting {
    /// Interrupts batches of larger requests.
    pub due: ModelBackend,
    /// Interrupts both.
    pub urgent: ModelBackend,
}

impl Replica {
    /// The same with all backends replaced by what `wrap` makes of them.
    #[must_use]
    pub fn map(self, wrap: impl Fn(ModelBackend) -> ModelBackend) -> Self {
        let interrupting =
            self.interrupting.map(|Interrupting { due, urgent }| Interrupting { due: wrap(due), urgent: wrap(urgent) });
        Self { backend: wrap(self.backend), interrupting }
    }
}

impl From<ModelBackend> for Replica {
    fn from(backend: ModelBackend) -> Self {
        Self { backend, interrupting: None }
    }
}
