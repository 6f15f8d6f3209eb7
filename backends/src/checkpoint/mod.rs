//! Checkpoints: config, weights, tokenizer and capabilities of a model, read from its files and checked.

mod capabilities;
mod catch_panic;
mod classifier;
mod head;
mod metadata;
mod st_modules;
mod st_transformer;
mod summary;
#[cfg(test)]
mod tests;
mod tokenizer;
mod vocab_txt;

pub(crate) use head::{HeadSource, RerankToken};
pub(crate) use st_modules::DenseModule;
pub use summary::{ModelShape, ModelSummary, model_summary};

use crate::LoadError;
use crate::config::TransformerConfig;
use crate::formats::Weights;
use crate::formats::gguf::GgufWeights;
use crate::options::LoadOptions;
use crate::source::ModelFiles;
use crate::source::hub::FileSet;
use capabilities::Evidence;
use metadata::Metadata;
use prefold_core::Capabilities;
use std::sync::Arc;
use tokenizers::Tokenizer;

/// Content of a model's files.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) config: TransformerConfig,
    /// In the files until they are converted, tensor by tensor.
    pub(crate) weights: Weights,
    /// Without truncation or padding.
    pub(crate) tokenizer: Tokenizer,
    /// Types that tokens of an input may have.
    pub(crate) token_types: usize,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) head: HeadSource,
}

impl Checkpoint {
    /// Opens a model's files, downloading them if necessary, and reads everything except the tensors.
    ///
    /// # Errors
    /// Files are missing or malformed, or the checkpoint needs something that is not supported.
    pub(crate) fn open(options: &LoadOptions) -> Result<Self, LoadError> {
        let mut files = ModelFiles::open(options, FileSet::All)?;
        let gguf = files.take_gguf();
        let metadata = Metadata::read(&files, gguf.as_ref())?;
        let weights = match gguf {
            Some(gguf) => Weights::Gguf(GgufWeights::new(gguf, &metadata.config)?),
            None => files.weights()?,
        };
        let evidence = Evidence { options, files: &files, metadata: &metadata, weights: Some(&weights) };
        let (capabilities, head) = evidence.read()?;
        let Metadata { config, tokenizer, token_types, .. } = metadata;
        tracing::info!(
            model = files.display_name(),
            model_type = config.model_type,
            layers = config.num_layers,
            hidden_size = config.hidden_size,
            stored = weights.stored_dtype(&config.names.first_projection()),
            max_input_length = capabilities.max_input_length,
            "checkpoint opened"
        );
        Ok(Self { config, weights, tokenizer, token_types, capabilities: Arc::new(capabilities), head })
    }
}
