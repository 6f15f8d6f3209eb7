//! Loaded model that an engine takes over.

use crate::ModelBackend;
use tokenizers::Tokenizer;

/// Result of loading a checkpoint.
pub struct LoadedModel {
    /// Runs the model.
    pub backend: ModelBackend,
    /// Without truncation or padding set; the engine decides both.
    pub tokenizer: Tokenizer,
}

impl std::fmt::Debug for LoadedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedModel").field("info", self.backend.info()).finish_non_exhaustive()
    }
}
