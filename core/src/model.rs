//! A loaded model as the engine takes it over.

use crate::{Backend, Prompts, RerankTemplate};
use tokenizers::Tokenizer;

/// What loading a checkpoint yields.
pub struct LoadedModel {
    /// Runs the model.
    pub backend: Box<dyn Backend>,
    /// Without truncation or padding set; both are the engine's business.
    pub tokenizer: Tokenizer,
    /// The model's named prompts.
    pub prompts: Prompts,
    /// Present when the model is [`ModelKind::Reranker`](crate::ModelKind::Reranker).
    pub template: Option<RerankTemplate>,
}

impl std::fmt::Debug for LoadedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedModel").field("info", self.backend.info()).finish_non_exhaustive()
    }
}
