//! A checkpoint as the backend takes it over: config, weights, tokenizer and purpose.

use crate::LoadError;
use crate::description::Description;
use crate::files::ModelFiles;
use crate::hub::Parts;
use crate::model::config::DecoderConfig;
use crate::model::weights::Weights;
pub(crate) use crate::modules::{DenseActivation, DenseModule};
use crate::options::LoadOptions;
use crate::task::Evidence;
use prefold_core::{Pooling, Prompts, RerankTemplate};
use tokenizers::Tokenizer;

/// The tensor that a sequence classifier has.
const SCORE_HEAD: &str = "score.weight";

/// Everything that a model's files say.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) config: DecoderConfig,
    /// Still in the files; converted tensor by tensor.
    pub(crate) weights: Weights,
    /// Without truncation or padding.
    pub(crate) tokenizer: Tokenizer,
    pub(crate) purpose: Purpose,
    pub(crate) prompts: Prompts,
    /// In tokens.
    pub(crate) max_input_length: usize,
}

/// What a checkpoint is for, with what that needs besides the decoder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Purpose {
    /// Text embeddings. Scaling to unit length is the engine's business, whatever `modules.json` says.
    Embed {
        pooling: Pooling,
        /// Applied in order after pooling.
        dense: Vec<DenseModule>,
    },
    /// A causal language model whose logits after a prompt are the score.
    Rerank {
        template: RerankTemplate,
        /// The token that speaks against and the one that speaks for the document, or the latter alone.
        tokens: Vec<RerankToken>,
    },
    /// A sequence classifier (`score.weight`), pooled at the last token.
    Classify {
        /// Names by index.
        labels: Vec<String>,
    },
}

/// A token whose logit counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RerankToken {
    pub(crate) text: String,
    pub(crate) id: u32,
}

impl Checkpoint {
    /// Finds a model's files, downloading them if need be, and reads everything but the tensors.
    ///
    /// # Errors
    /// Files are missing or malformed, or the checkpoint needs something that is not supported.
    pub(crate) fn open(options: &LoadOptions) -> Result<Self, LoadError> {
        let mut files = ModelFiles::open(options, Parts::All)?;
        let gguf = files.take_gguf();
        let description = Description::read(&files, gguf.as_ref())?;
        let gguf_ranks = gguf.as_ref().map(|gguf| gguf.ranks()).transpose()?.unwrap_or(false);
        let gguf_pooling = gguf.as_ref().map(|gguf| gguf.pooling()).transpose()?.flatten();
        let weights = match gguf {
            Some(gguf) => Weights::Gguf(gguf.into_weights(&description.config)),
            None => files.weights()?,
        };
        let has_score_head = weights.contains(SCORE_HEAD);
        let evidence =
            Evidence { options, files: &files, description: &description, has_score_head, gguf_pooling, gguf_ranks };
        let purpose = evidence.purpose()?;
        let Description { config, tokenizer, prompts, max_input_length, .. } = description;
        tracing::info!(
            model = files.description(),
            model_type = config.model_type,
            layers = config.num_layers,
            hidden_size = config.hidden_size,
            stored = weights.stored_dtype(),
            max_input_length,
            "checkpoint opened"
        );
        let prompts = if matches!(purpose, Purpose::Embed { .. }) { prompts } else { Prompts::default() };
        Ok(Self { config, weights, tokenizer, purpose, prompts, max_input_length })
    }
}
