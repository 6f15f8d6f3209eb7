//! Summary of a model, read without its weights.

use super::capabilities::{Evidence, Purpose};
use super::metadata::Metadata;
use super::static_embedding::StaticEmbedding;
use super::sub_models::SubModel;
use crate::config::{AttentionConfig, FeedForwardConfig, TransformerConfig};
use crate::error::LoadError;
use crate::options::{LoadOptions, ModelSource};
use crate::source::ModelFiles;
use crate::source::hub::FileSet;
use prefold_core::{Capabilities, Folding, Task, TokenizerSums};
use tokenizers::Tokenizer;

/// Tokenizer, sizes and capabilities of a model; see [`model_summary`].
#[derive(Debug, Clone)]
pub struct ModelSummary {
    /// The family's name in `config.json`, for example `qwen3`.
    pub model_type: String,
    /// Outputs that the model can compute; embeddings by the last token if its files name none.
    pub capabilities: Capabilities,
    /// Without truncation or padding.
    pub tokenizer: Tokenizer,
    /// Number of tokens; all token ids are lower.
    pub vocab_size: usize,
    /// Sizes of the layers.
    pub shape: ModelShape,
    /// Folding that its attention allows; sub-models of a Router share no prefixes.
    pub folding: Folding,
}

/// Sizes of a transformer's layers, from which its operations are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelShape {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP, which has gate, up and down projections.
    pub intermediate_size: usize,
    /// Number of query heads.
    pub num_heads: usize,
    /// Number of key and value heads.
    pub num_kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Window of each layer in tokens, its own included; `None` attends to all. `[num_layers]`
    pub sliding_windows: Vec<Option<usize>>,
}

/// Reads a model's summary. Weights are neither read nor downloaded, except with a GGUF file, which is downloaded whole.
/// `task` overrides the files.
///
/// Blocks: a hub download runs on its own runtime, so do not call this from async code.
///
/// # Errors
/// Files are missing or malformed, or the model needs an unsupported feature: see [`LoadError`].
pub fn model_summary(source: &ModelSource, task: Option<Task>) -> Result<ModelSummary, LoadError> {
    let options = &LoadOptions { source: source.clone(), task, ..LoadOptions::default() };
    let files = ModelFiles::open(options, FileSet::WithoutWeights)?;
    let nothing = LoadError::invalid(files.display_name(), "has no modules");
    let sub_models = SubModel::all(options, files)?;
    let is_one_model = sub_models.len() == 1;
    // The sub-model for texts without a task.
    let SubModel { mut files, options, .. } = sub_models.into_iter().next().ok_or(nothing)?;
    let options = &options;
    let table = StaticEmbedding::find(&files)?;
    let gguf = files.take_gguf();
    let sums = &mut TokenizerSums::default();
    let metadata = match table {
        Some(table) => {
            let weights = if table.has_weights(&files)? { table.weights(&files)? } else { None };
            table.metadata(&files, weights.as_ref(), sums)?
        }
        None => Metadata::read(&files, gguf.as_ref(), sums)?,
    };
    let purpose = Purpose::Summary;
    let (capabilities, _) = Evidence { options, files: &files, metadata: &metadata, weights: None, purpose }.read()?;
    let Metadata { config, tokenizer, .. } = metadata;
    let tokenizer = tokenizer.ok_or_else(|| LoadError::invalid(files.display_name(), "has no tokenizer"))?;
    Ok(ModelSummary {
        model_type: config.model_type.clone(),
        capabilities,
        tokenizer,
        vocab_size: config.vocab_size,
        folding: if is_one_model { config.attention.mask.folding() } else { Folding::Whole },
        shape: ModelShape::of(config),
    })
}

impl ModelShape {
    fn of(config: TransformerConfig) -> Self {
        let TransformerConfig { hidden_size, attention, feed_forward, sliding_windows, .. } = config;
        let AttentionConfig { num_heads, num_kv_heads, head_dim, .. } = attention;
        let FeedForwardConfig { intermediate_size, .. } = feed_forward;
        Self { hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim, sliding_windows }
    }
}
