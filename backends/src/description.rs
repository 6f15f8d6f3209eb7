//! What a model's files say besides the tensors.

use crate::LoadError;
use crate::files::ModelFiles;
use crate::gguf::GgufFile;
use crate::gguf_tokenizer;
use crate::guard::refuse_panics;
use crate::json::Fields;
use crate::model::config::DecoderConfig;
use crate::modules;
use crate::tokenizer;
use prefold_core::Prompts;
use serde_json::Value;
use tokenizers::Tokenizer;

const CONFIG: &str = "config.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// Config, tokenizer, prompts and limit of a model.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) config: DecoderConfig,
    /// `config.json`; GGUF files have none.
    pub(crate) json: Option<Value>,
    /// Without truncation or padding.
    pub(crate) tokenizer: Tokenizer,
    pub(crate) prompts: Prompts,
    /// In tokens.
    pub(crate) max_input_length: usize,
}

impl Description {
    /// Reads it from the files, or from the header of the GGUF file that is among them.
    ///
    /// # Errors
    /// Files are missing or malformed, or ask for something that is not supported.
    pub(crate) fn read(files: &ModelFiles, gguf: Option<&GgufFile>) -> Result<Self, LoadError> {
        let (config, json) = match gguf {
            Some(gguf) => (gguf.config()?, None),
            None => {
                let json = files.json(CONFIG)?.ok_or_else(|| files.missing(CONFIG, ""))?;
                (DecoderConfig::from_json(&json)?, Some(json))
            }
        };
        let tokenizer = refuse_panics(tokenizer::FILE, || {
            let tokenizer = match (tokenizer::read(files)?, gguf) {
                (Some(tokenizer), _) => tokenizer,
                (None, Some(gguf)) => gguf_tokenizer::tokenizer(gguf)?,
                (None, None) => return Err(files.missing(tokenizer::FILE, "")),
            };
            tokenizer::check_ids(&tokenizer, config.vocab_size)?;
            Ok(tokenizer)
        })?;
        let max_input_length = max_input_length(files, &config)?;
        config.check_positions(gguf.map_or(CONFIG, GgufFile::name), max_input_length)?;
        Ok(Self { config, json, tokenizer, prompts: modules::prompts(files)?, max_input_length })
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
