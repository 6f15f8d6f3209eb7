//! What a model is like, without its weights.

use crate::LoadError;
use crate::description::Description;
use crate::files::ModelFiles;
use crate::hub::Parts;
use crate::model::config::DecoderConfig;
use crate::options::{LoadOptions, ModelSource, Task};
use crate::task::Evidence;
use prefold_core::{Prompts, RerankTemplate};
use tokenizers::Tokenizer;

/// How a model makes tokens of texts and how much it computes for them; see [`outline`].
#[derive(Debug, Clone)]
pub struct ModelOutline {
    /// The family's name as `config.json` has it, for example `qwen3`.
    pub model_type: String,
    /// What the model is for; embeddings, where its files do not say. A classifier that reranks is a classifier.
    pub task: Task,
    /// The prompt of a yes/no reranker; absent for other models.
    pub template: Option<RerankTemplate>,
    /// Without truncation or padding.
    pub tokenizer: Tokenizer,
    /// The model's named prompts; none unless it embeds.
    pub prompts: Prompts,
    /// Token ids are below this.
    pub vocab_size: usize,
    /// The longest sequence in tokens.
    pub max_input_length: usize,
    /// The sizes of its layers.
    pub shape: ModelShape,
}

/// The sizes of a decoder's layers; all that the number of its operations depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelShape {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP, which has a gate, an up and a down projection.
    pub intermediate_size: usize,
    /// Heads of the queries.
    pub num_heads: usize,
    /// Heads of the keys and of the values.
    pub num_kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// How many positions each layer sees back, itself included; `None` sees all. `[num_layers]`
    pub sliding_windows: Vec<Option<usize>>,
}

/// Reads what a model's files say of its tokens and its shape. Weights are neither read nor, from the hub, downloaded
/// (a GGUF file, which is one piece, is downloaded whole). `task` overrules what the files say that the model is for.
///
/// Blocks; a hub download runs on a runtime of its own, so this must not be called from async code.
///
/// # Errors
/// Files are missing or malformed, or the model needs something that is not supported: see [`LoadError`].
pub fn outline(source: &ModelSource, task: Option<Task>) -> Result<ModelOutline, LoadError> {
    let options = &LoadOptions { task, ..LoadOptions::new(source.clone()) };
    let mut files = ModelFiles::open(options, Parts::WithoutWeights)?;
    let gguf = files.take_gguf();
    let description = Description::read(&files, gguf.as_ref())?;
    let gguf_ranks = gguf.as_ref().map(|gguf| gguf.ranks()).transpose()?.unwrap_or(false);
    let gguf_pooling = gguf.as_ref().map(|gguf| gguf.pooling()).transpose()?.flatten();
    let evidence =
        Evidence { options, files: &files, description: &description, has_score_head: false, gguf_pooling, gguf_ranks };
    // A language model that must be told how to pool makes the same tokens whatever it is told.
    let task = match evidence.task()?.unwrap_or(Task::Embed) {
        Task::Rerank if evidence.is_classifier()? => Task::Classify,
        task => task,
    };
    let template = (task == Task::Rerank).then(|| evidence.recipe()).transpose()?.map(|recipe| recipe.template);
    let Description { config, tokenizer, prompts, max_input_length, .. } = description;
    let prompts = if task == Task::Embed { prompts } else { Prompts::default() };
    Ok(ModelOutline {
        model_type: config.model_type.clone(),
        task,
        template,
        tokenizer,
        prompts,
        vocab_size: config.vocab_size,
        max_input_length,
        shape: ModelShape::of(config),
    })
}

impl ModelShape {
    fn of(config: DecoderConfig) -> Self {
        let DecoderConfig { hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim, .. } = config;
        let sliding_windows = config.sliding_windows;
        Self { hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim, sliding_windows }
    }
}
