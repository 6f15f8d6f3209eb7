//! Static embeddings: a table of vectors and their mean, without a transformer, as Model2Vec and the module `StaticEmbedding` of
//! sentence-transformers have them.
//!
//! Texts get no special tokens. Model2Vec leaves the unknown token out of the mean, sentence-transformers does not; a checkpoint
//! whose `config.json` says `model2vec` is read as the former.

use super::catch_panic::catch_panic;
use super::metadata::Metadata;
use super::st_modules::{self, ModuleList};
use super::tokenizer;
use crate::LoadError;
use crate::config::{
    AttentionConfig, DECODER_HEAD, EmbeddingsConfig, FeedForwardConfig, MaskConfig, NormConfig, NormKind, Placement,
    PositionsConfig, TensorNames, TransformerConfig,
};
use crate::formats::{MappedTable, TensorFormat, Weights};
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_kernels::Activation;
use serde_json::{Map, Value};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{ModelWrapper, Tokenizer};

const CONFIG: &str = "config.json";
/// The `model_type` of Model2Vec's configs.
const MODEL2VEC: &str = "model2vec";
/// The table's tensor, which Model2Vec names otherwise.
const TABLE: &str = "embedding";

/// Tokens of the longest input. The mean has no limit of its own, the buffers of a text should have one.
const MAX_TOKENS: usize = 1 << 17;
/// Limits far above any model.
const MAX_ROWS: usize = 1 << 24;
const MAX_WIDTH: usize = 1 << 18;

/// The files of a table of vectors.
#[derive(Debug)]
pub(super) struct StaticEmbedding {
    /// Empty for the top.
    folder: String,
    /// `config.json`, or an empty object.
    config: Value,
    is_model2vec: bool,
}

impl StaticEmbedding {
    /// The table among the files; `None` for a model of another kind.
    ///
    /// # Errors
    /// A file is malformed.
    pub(super) fn find(files: &ModelFiles) -> Result<Option<Self>, LoadError> {
        let config = files.json(CONFIG)?;
        let model_type: Option<String> = match &config {
            Some(config) => Fields::new(CONFIG, config)?.optional("model_type")?,
            None => None,
        };
        let is_model2vec = model_type.as_deref() == Some(MODEL2VEC);
        // What else is wrong with the list is said where it is read.
        let module = ModuleList::read(files).ok().and_then(|list| list.table);
        let folder = match (module, is_model2vec) {
            (Some(folder), _) => folder.trim_end_matches('/').trim_start_matches("./").to_owned(),
            (None, true) => String::new(),
            (None, false) => return Ok(None),
        };
        let folder = if folder == "." { String::new() } else { folder };
        Ok(Some(Self { folder, config: config.unwrap_or_else(|| Value::Object(Map::new())), is_model2vec }))
    }

    fn path(&self, file: &str) -> String {
        if self.folder.is_empty() { file.to_owned() } else { format!("{}/{file}", self.folder) }
    }

    /// `true` if the files have the tensors.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn has_weights(&self, files: &ModelFiles) -> Result<bool, LoadError> {
        for format in TensorFormat::ALL {
            if files.exists(&self.path(format.single()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The tensors; `None` where those of a model on the hub are not known before the download.
    ///
    /// # Errors
    /// They are missing or malformed.
    pub(super) fn weights(&self, files: &mut ModelFiles) -> Result<Option<Weights>, LoadError> {
        let Some(tensors) = files.tensors(&self.folder)? else { return Ok(None) };
        Ok(Some(match MappedTable::is_in(&tensors) {
            true => Weights::Mapped(MappedTable::new(tensors, &format!("{TABLE}.weight"))?),
            false => Weights::Files(tensors),
        }))
    }

    /// Everything in the files except the tensors.
    ///
    /// # Errors
    /// A file is missing or malformed, or the tokenizer does not fit the table.
    pub(super) fn metadata(&self, files: &ModelFiles, weights: Option<&Weights>) -> Result<Metadata, LoadError> {
        let file = self.path(tokenizer::FILE);
        let tokenizer = catch_panic(tokenizer::FILE, || {
            let mut tokenizer = tokenizer::read_file(files, &file)?.ok_or_else(|| files.missing(&file, ""))?;
            tokenizer.with_post_processor(None::<PostProcessorWrapper>);
            Ok(tokenizer)
        })?;
        let [rows, width] = self.shape(files, &tokenizer, weights)?;
        catch_panic(tokenizer::FILE, || tokenizer::check_ids(&tokenizer, rows))?;
        Ok(Metadata {
            config: self.transformer(rows, width),
            json: Some(self.config.clone()),
            unpooled: if self.is_model2vec { unknown(&tokenizer) } else { None },
            tokenizer,
            prompts: st_modules::prompts(files)?,
            max_input_length: self.longest()?,
            gguf_pooling: None,
            gguf_ranks: false,
            gguf_labels: None,
            token_types: 0,
        })
    }

    /// Tokens of the longest input: the length from which on newer versions of Model2Vec truncate, where the config has it.
    fn longest(&self) -> Result<usize, LoadError> {
        let fields = Fields::new(CONFIG, &self.config)?;
        match fields.optional::<usize>("max_length")? {
            Some(0) => Err(fields.problem("max_length", "must be above 0")),
            length => Ok(length.unwrap_or(MAX_TOKENS).min(MAX_TOKENS)),
        }
    }

    /// Rows and width of the table: those of the tensor, or what is known before the download.
    fn shape(
        &self,
        files: &ModelFiles,
        tokenizer: &Tokenizer,
        weights: Option<&Weights>,
    ) -> Result<[usize; 2], LoadError> {
        let name = format!("{TABLE}.weight");
        let shape = match weights {
            Some(Weights::Mapped(table)) => Some(table.shape()),
            Some(Weights::Files(files)) => match files.shape(&name) {
                Some(&[rows, width]) => Some([rows, width]),
                Some(_) => {
                    return Err(LoadError::invalid(files.description(), format!("tensor `{name}` must be a matrix")));
                }
                None => return Err(LoadError::MissingTensor { file: files.description().to_owned(), name }),
            },
            Some(Weights::Gguf(_)) | None => None,
        };
        let shape = match shape {
            Some(shape) => shape,
            None => {
                let rows = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
                let width = Fields::new(CONFIG, &self.config)?.optional("hidden_dim")?;
                [
                    rows,
                    width.ok_or_else(|| {
                        files.missing(&self.path("model.safetensors"), ", whose header has the width")
                    })?,
                ]
            }
        };
        for (what, found, limit) in [("rows", shape[0], MAX_ROWS), ("columns", shape[1], MAX_WIDTH)] {
            if found == 0 || found > limit {
                let problem = format!("`{name}` must have from 1 to {limit} {what}, it has {found}");
                return Err(LoadError::invalid(files.display_name(), problem));
            }
        }
        Ok(shape)
    }

    /// A transformer without layers.
    fn transformer(&self, rows: usize, width: usize) -> TransformerConfig {
        TransformerConfig {
            model_type: if self.is_model2vec { MODEL2VEC } else { "static_embedding" }.to_owned(),
            vocab_size: rows,
            hidden_size: width,
            output_size: width,
            num_layers: 0,
            norm: NormConfig {
                kind: NormKind::Layer,
                placement: Placement::After,
                first_attention: true,
                eps: f32::EPSILON,
            },
            embeddings: EmbeddingsConfig { size: width, token_types: 0, norm: false, scale: 1.0 },
            attention: AttentionConfig {
                num_heads: 0,
                num_kv_heads: 0,
                head_dim: 0,
                qkv_bias: false,
                output_bias: false,
                qk_norm: false,
                scale: None,
                mask: MaskConfig::Full,
                distance_bias: None,
            },
            feed_forward: FeedForwardConfig {
                intermediate_size: 0,
                input_bias: false,
                output_bias: false,
                gated: false,
                activation: Activation::Gelu,
                experts: None,
            },
            positions: PositionsConfig::Biases,
            sliding_windows: vec![],
            tie_word_embeddings: true,
            max_position_embeddings: MAX_TOKENS,
            names: TensorNames::table(TABLE),
            classifier: DECODER_HEAD,
        }
    }
}

/// The id of the token for what the tokenizer does not know. That of a Unigram model is an ordinary token to Model2Vec.
fn unknown(tokenizer: &Tokenizer) -> Option<u32> {
    let token = match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => Some(&model.unk_token),
        ModelWrapper::WordLevel(model) => Some(&model.unk_token),
        ModelWrapper::BPE(model) => model.unk_token.as_ref(),
        ModelWrapper::Unigram(_) => None,
    };
    token.and_then(|token| tokenizer.token_to_id(token))
}
