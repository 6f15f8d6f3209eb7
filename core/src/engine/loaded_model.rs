//! Loaded model that an engine takes over.

use crate::backend::{Interrupting, ModelBackend, Replica};
use crate::non_empty::NonEmpty;
use tokenizers::Tokenizer;

/// Result of loading a checkpoint.
pub struct LoadedModel {
    /// Runs the model.
    pub backend: ModelBackend,
    /// Backends that interrupt its passes; `None` if passes are not interrupted.
    pub interrupting: Option<Interrupting>,
    /// Further replicas of the same model, each of which runs its own batches.
    pub replicas: Vec<Replica>,
    /// Tokenizer of each [sub-model](crate::ModelInfo::sub_models). Of its truncation settings only the direction is used, for requests
    /// without one. The engine decides where to truncate, and does not pad.
    pub tokenizers: NonEmpty<Tokenizer>,
}

impl LoadedModel {
    /// The model with each backend wrapped.
    #[must_use]
    pub fn map_backends(self, wrap: impl Fn(ModelBackend) -> ModelBackend) -> Self {
        let Self { backend, interrupting, replicas, tokenizers } = self;
        let Replica { backend, interrupting } = Replica { backend, interrupting }.map(&wrap);
        let replicas = replicas.into_iter().map(|replica| replica.map(&wrap)).collect();
        Self { backend, interrupting, replicas, tokenizers }
    }
}

impl std::fmt::Debug for LoadedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedModel")
            .field("info", self.backend.info())
            .field("replicas", &self.replicas.len())
            .finish_non_exhaustive()
    }
}
