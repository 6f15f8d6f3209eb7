//! A checkpoint as the backend takes it over: config, weights, tokenizer and purpose.

use crate::LoadError;
use crate::files::ModelFiles;
use crate::gguf_tokenizer;
use crate::json::Fields;
use crate::model::config::DecoderConfig;
use crate::model::weights::Weights;
use crate::modules;
pub(crate) use crate::modules::{DenseActivation, DenseModule};
use crate::options::LoadOptions;
use crate::task::Evidence;
use crate::tokenizer;
use prefold_core::{Pooling, Prompts, RerankTemplate};
use tokenizers::Tokenizer;

const CONFIG: &str = "config.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

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
        token_ids: Vec<u32>,
    },
    /// A sequence classifier (`score.weight`), pooled at the last token.
    Classify {
        /// Names by index.
        labels: Vec<String>,
    },
}

impl Checkpoint {
    /// Finds a model's files, downloading them if need be, and reads everything but the tensors.
    ///
    /// # Errors
    /// Files are missing or malformed, or the checkpoint needs something that is not supported.
    pub(crate) fn open(options: &LoadOptions) -> Result<Self, LoadError> {
        let mut files = ModelFiles::open(options)?;
        let gguf = files.take_gguf();
        let (config, json) = match &gguf {
            Some(gguf) => (gguf.config()?, None),
            None => {
                let json = files.json(CONFIG)?.ok_or_else(|| files.missing(CONFIG, ""))?;
                (DecoderConfig::from_json(&json)?, Some(json))
            }
        };
        let mut tokenizer = match (tokenizer::read(&files)?, &gguf) {
            (Some(tokenizer), _) => tokenizer,
            (None, Some(gguf)) => gguf_tokenizer::tokenizer(gguf)?,
            (None, None) => return Err(files.missing("tokenizer.json", "")),
        };
        tokenizer::prepare(&mut tokenizer, config.vocab_size)?;

        let max_input_length = max_input_length(&files, &config)?;
        let prompts = modules::prompts(&files)?;
        let gguf_pooling = gguf.as_ref().map(|gguf| gguf.pooling()).transpose()?.flatten();
        let weights = match gguf {
            Some(gguf) => Weights::Gguf(gguf.into_weights(&config)),
            None => files.weights()?,
        };
        let evidence = Evidence {
            options,
            files: &files,
            json: json.as_ref(),
            config: &config,
            weights: &weights,
            tokenizer: &tokenizer,
            prompts: &prompts,
            gguf_pooling,
        };
        let purpose = evidence.purpose()?;
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

/// The shortest of the limits that the files name.
fn max_input_length(files: &ModelFiles, config: &DecoderConfig) -> Result<usize, LoadError> {
    /// Tokenizers without a limit say something around 1e30.
    const NO_LIMIT: f64 = 1e9;
    let mut limit = config.max_position_embeddings;
    if let Some(length) = modules::max_seq_length(files)? {
        limit = limit.min(length);
    }
    if let Some(tokenizer_config) = files.json(TOKENIZER_CONFIG)? {
        let fields = Fields::new(TOKENIZER_CONFIG, &tokenizer_config)?;
        match fields.optional::<f64>("model_max_length")? {
            Some(length) if length < 1.0 => {
                return Err(fields.problem("model_max_length", &format!("must be above 0, it is {length}")));
            }
            Some(length) if length < NO_LIMIT => limit = limit.min(length as usize),
            _ => {}
        }
    }
    Ok(limit)
}
