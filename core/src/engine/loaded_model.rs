//! Loaded model that an engine takes over.

use crate::backend::{Interrupting, ModelBackend, Replica};
use tokenizers::Tokenizer;

/// Result of loading a checkpoint.
pub struct LoadedModel {
    /// Runs the model.
    pub backend: ModelBackend,
    /// Run at its yield points; none where its passes are not interrupted.
    pub interrupting: Option<Interrupting>,
    /// Further replicas of the same model, each of which runs batches of its own beside the first one's.
    pub replicas: Vec<Replica>,
    /// Of its truncation only the direction counts: the end that is cut where a request does not say which. The engine decides how much
    /// is cut, and pads nothing.
    pub tokenizer: Tokenizer,
    /// The same of the model's [further parts](crate::ModelInfo::further_parts), which most models do not have.
    pub further_tokenizers: Vec<Tokenizer>,
}

impl LoadedModel {
    /// The same with all backends replaced by what `wrap` makes of them.
    #[must_use]
    pub fn map_backends(self, wrap: impl Fn(ModelBackend) -> ModelBackend) -> Self {
        let Self { backend, interrupting, replicas, tokenizer, further_tokenizers } = self;
        let Replica { backend, interrupting } = Replica { backend, interrupting }.map(&wrap);
        let replicas = replicas.into_iter().map(|replica| replica.map(&wrap)).collect();
        Self { backend, interrupting, replicas, tokenizer, further_tokenizers }
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
