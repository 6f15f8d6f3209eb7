//! Metadata of a model: everything in its files except the tensors.

use super::sentence_transformers::prompts;
use super::sentence_transformers::texts::TextSettings;
use super::task_adapters;
use super::tokenizer;
use super::tokenizer::catch_panic::catch_panic;
use super::tokenizer::tokenizer_json;
use crate::config::{PositionsConfig, TransformerConfig};
use crate::error::LoadError;
use crate::formats::config_json;
use crate::formats::gguf::{GgufFacts, GgufFile};
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_core::{Prompts, TokenizerSums};
use serde_json::Value;
use tokenizers::Tokenizer;

const CONFIG: &str = "config.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// Config, tokenizer, prompts and limit of a model.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) config: TransformerConfig,
    /// `config.json`; GGUF files have none.
    pub(crate) json: Option<Value>,
    /// Without padding; truncation has only a direction. `None` for a folder with only configuration.
    pub(crate) tokenizer: Option<Tokenizer>,
    pub(crate) prompts: Prompts,
    /// The prompts are a cross-encoder's.
    pub(crate) is_cross_encoder: bool,
    pub(crate) texts: TextSettings,
    /// Tokens of the longest input.
    pub(crate) max_input_length: usize,
    /// Statements of a GGUF file.
    pub(crate) gguf: GgufFacts,
    /// Number of token types; fewer than two if all tokens have the same.
    pub(crate) token_types: usize,
    /// Token excluded from pooling.
    pub(crate) unpooled: Option<u32>,
}

impl Metadata {
    /// Reads the files, or the header of the GGUF file among them; `sums` counts all tokenizers of the model.
    ///
    /// # Errors
    /// Files are missing or malformed, or need an unsupported feature.
    pub(crate) fn read(
        files: &ModelFiles,
        gguf: Option<&GgufFile>,
        sums: &mut TokenizerSums,
    ) -> Result<Self, LoadError> {
        let (config, json) = match gguf {
            Some(gguf) => (gguf.config()?, None),
            None => {
                let json = files.json(CONFIG)?.ok_or_else(|| files.missing(CONFIG, ""))?;
                let mut config = config_json::read(&json)?;
                task_adapters::complete(files, &mut config)?;
                (config, Some(json))
            }
        };
        let mut texts = TextSettings::read(files)?;
        let checked_tokenizer = || {
            let mut read = tokenizer::read(files, gguf, (&config, json.as_ref()), sums)?;
            tokenizer_json::set_direction(&mut read.tokenizer, files)?;
            texts.apply(&mut read.tokenizer, sums)?;
            tokenizer_json::check_ids(&read.tokenizer, config.vocab_size)?;
            Ok(read)
        };
        let read = if gguf.is_none() && files.is_bare("")? {
            None
        } else {
            Some(catch_panic(tokenizer_json::FILE, checked_tokenizer)?)
        };
        let token_types = if read.as_ref().is_none_or(|read| read.token_types) {
            config.embeddings.token_types
        } else {
            config.embeddings.token_types.min(1)
        };
        let tokenizer = read.map(|read| {
            texts.warnings.extend(read.warnings);
            read.tokenizer
        });
        let length = given_length(files, (&config, json.as_ref()), &texts)?;
        let max_input_length = config.max_position_embeddings.min(length.unwrap_or(usize::MAX));
        texts.warnings.extend(tokenizer.as_ref().and_then(|it| uncounted_padding(&config, it, length)));
        texts.check_lengths(max_input_length, matches!(config.positions, PositionsConfig::Rotary(_)));
        config.check_positions(gguf.map_or(CONFIG, GgufFile::name), max_input_length)?;
        Ok(Self {
            config,
            json,
            tokenizer,
            prompts: prompts::read(files)?,
            is_cross_encoder: prompts::are_of(files, "CrossEncoder")?,
            texts,
            max_input_length,
            gguf: gguf.map(|gguf| gguf.facts(!files.exists(tokenizer_json::FILE)?)).transpose()?.unwrap_or_default(),
            token_types,
            unpooled: None,
        })
    }
}

impl Metadata {
    /// The prompts, if sentence-transformers' CrossEncoder saved them: it does not read prompts that other classes
    /// saved.
    pub(crate) fn cross_encoder_prompts(&self) -> Prompts {
        if self.is_cross_encoder { self.prompts.clone() } else { Prompts::default() }
    }

    /// A warning about a default prompt that is not a cross-encoder's, for models that take pairs.
    pub(crate) fn ignored_prompt(&self) -> Option<String> {
        let prompt = self.prompts.default.as_ref().filter(|prompt| !self.is_cross_encoder && !prompt.is_empty());
        prompt.map(|_| {
            "config_sentence_transformers.json: the default prompt is ignored: its `model_type` is not CrossEncoder, which alone puts a \
             prompt before pairs"
                .to_owned()
        })
    }
}

/// A warning about inputs that the libraries truncate at more tokens, `length` at most: the padding token of the config, which has
/// a fixed position, is a token around each text. Inputs without it need all positions.
fn uncounted_padding(config: &TransformerConfig, tokenizer: &Tokenizer, length: Option<usize>) -> Option<String> {
    let PositionsConfig::Learned(positions) = &config.positions else { return None };
    let padding_id = positions.padding_id?;
    let uncounted = ids_of_a_text(tokenizer).ok()?.iter().filter(|&&id| id == padding_id).count();
    let longest = config.max_position_embeddings;
    let of_libraries = length.unwrap_or(positions.rows).min(longest + uncounted);
    (of_libraries > longest).then(|| {
        format!(
            "{CONFIG}: `pad_token_id` {padding_id} is a token around each text: inputs have at most {longest} tokens, where \
             sentence-transformers takes {of_libraries}"
        )
    })
}

/// Ids of a short text with its special tokens.
pub(super) fn ids_of_a_text(tokenizer: &Tokenizer) -> tokenizers::Result<Vec<u32>> {
    Ok(tokenizer.encode_fast("a", true)?.get_ids().to_vec())
}

/// The length in sentence-transformers' files, otherwise the smaller one of tokenizer and `config.json`.
fn given_length(
    files: &ModelFiles,
    (config, json): (&TransformerConfig, Option<&Value>),
    texts: &TextSettings,
) -> Result<Option<usize>, LoadError> {
    let of_files = tokenizer_length(files)?.into_iter().chain(length_of_biases(config, json)?).min();
    Ok(texts.max_length.or(of_files))
}

/// The length in `config.json` of models whose positions allow any, if they have one: sentence-transformers follows it.
fn length_of_biases(config: &TransformerConfig, json: Option<&Value>) -> Result<Option<usize>, LoadError> {
    const FIELD: &str = "max_position_embeddings";
    let Some(json) = json.filter(|_| config.positions == PositionsConfig::Biases) else { return Ok(None) };
    let fields = Fields::new(CONFIG, json)?;
    match fields.optional::<i64>(FIELD)? {
        None | Some(-1) => Ok(None),
        Some(length) if length < 1 => {
            Err(fields.problem(FIELD, &format!("must be above 0, or -1 for no limit, it is {length}")))
        }
        Some(length) => Ok(usize::try_from(length).ok()),
    }
}

/// The length in `tokenizer_config.json`, if any.
fn tokenizer_length(files: &ModelFiles) -> Result<Option<usize>, LoadError> {
    /// Tokenizers without a limit have values around 1e30.
    const NO_LIMIT: f64 = 1e9;
    let Some(tokenizer_config) = files.json(TOKENIZER_CONFIG)? else { return Ok(None) };
    let fields = Fields::new(TOKENIZER_CONFIG, &tokenizer_config)?;
    // The second is the older name.
    let name = if fields.mentions("model_max_length") { "model_max_length" } else { "max_len" };
    match fields.optional::<f64>(name)? {
        Some(length) if length < 1.0 => Err(fields.problem(name, &format!("must be above 0, it is {length}"))),
        length => Ok(length.filter(|&length| length < NO_LIMIT).map(|length| length as usize)),
    }
}
