//! Static embeddings of Model2Vec and of the module `StaticEmbedding` of sentence-transformers: the mean of rows of a table, without a
//! transformer.
//!
//! Texts get no special tokens. Model2Vec leaves the unknown token out of the mean, sentence-transformers does not; a checkpoint
//! with `model2vec` in its `config.json` is read as Model2Vec's.

use super::metadata::Metadata;
use super::sentence_transformers::module_list::ModuleList;
use super::sentence_transformers::prompts;
use super::sentence_transformers::texts::TextSettings;
use super::tokenizer::catch_panic::catch_panic;
use super::tokenizer::tokenizer_json;
use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::families::{self, Key, Settings};
use crate::formats::gguf::GgufFacts;
use crate::formats::{MappedTable, TensorFormat, Weights};
use crate::json::Fields;
use crate::source::ModelFiles;
use crate::source::names::{inside, module_folder};
use prefold_core::TokenizerSums;
use serde_json::{Map, Value};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{ModelWrapper, Tokenizer, TruncationDirection, TruncationParams};

const CONFIG: &str = "config.json";
/// The `model_type` of Model2Vec's configs.
const MODEL2VEC: &str = "model2vec";
/// The field of Model2Vec's configs that names the width of the table.
const WIDTH: &str = "hidden_dim";
/// Name of the table's tensor; Model2Vec has another.
const TABLE: &str = families::STATIC.names.words;

/// Maximum tokens of an input. The mean needs no limit; it bounds the buffers of a text.
const MAX_TOKENS: usize = 1 << 17;
/// Limits far above any model.
const MAX_ROWS: usize = 1 << 24;
const MAX_WIDTH: usize = 1 << 18;

/// The files of a static embedding.
#[derive(Debug)]
pub(super) struct StaticEmbedding {
    /// Folder of the table; empty for the top.
    folder: String,
    /// `config.json`, or an empty object.
    config: Value,
    is_model2vec: bool,
}

impl StaticEmbedding {
    /// The static embedding in the files; `None` for a model of another kind.
    ///
    /// # Errors
    /// A file is malformed.
    pub(super) fn find(files: &ModelFiles) -> Result<Option<Self>, LoadError> {
        if files.has_gguf() {
            return Ok(None);
        }
        let config = files.json(CONFIG)?;
        let model_type: Option<String> = match &config {
            Some(config) => Fields::new(CONFIG, config)?.optional("model_type")?,
            None => None,
        };
        let is_model2vec = model_type.as_deref() == Some(MODEL2VEC);
        let module = match (ModuleList::read(files), &config) {
            // The list of a transformer is refused where it is read.
            (Err(_), Some(_)) => None,
            (list, _) => list?.table,
        };
        let folder = match (module, is_model2vec) {
            (Some(folder), _) => module_folder(&folder),
            (None, true) => String::new(),
            (None, false) => return Ok(None),
        };
        Ok(Some(Self { folder, config: config.unwrap_or_else(|| Value::Object(Map::new())), is_model2vec }))
    }

    fn path(&self, file: &str) -> String {
        inside(&self.folder, file)
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

    /// The tensors; `None` if they are on the hub and unknown before the download.
    ///
    /// # Errors
    /// They are missing or malformed.
    pub(super) fn weights(&self, files: &ModelFiles) -> Result<Option<Weights>, LoadError> {
        let Some(tensors) = files.tensors(&self.folder)? else { return Ok(None) };
        Ok(Some(if MappedTable::is_in(&tensors) {
            Weights::Mapped(MappedTable::new(tensors, &format!("{TABLE}.weight"))?)
        } else {
            Weights::Files(tensors)
        }))
    }

    /// Everything in the files except the tensors.
    ///
    /// # Errors
    /// A file is missing or malformed, or the tokenizer does not fit the table.
    pub(super) fn metadata(
        &self,
        files: &ModelFiles,
        weights: Option<&Weights>,
        sums: &mut TokenizerSums,
    ) -> Result<Metadata, LoadError> {
        let tokenizer = if files.is_bare(&self.folder)? { None } else { Some(self.tokenizer(files, sums)?) };
        let (tokenizer, truncation) = tokenizer.unzip();
        let [rows, width] = self.shape(files, tokenizer.as_ref(), weights)?;
        if let Some(tokenizer) = &tokenizer {
            catch_panic(tokenizer_json::FILE, || tokenizer_json::check_ids(tokenizer, rows))?;
        }
        let longest = self.longest()?;
        Ok(Metadata {
            config: self.transformer([rows, width])?,
            json: Some(self.config.clone()),
            unpooled: tokenizer.as_ref().filter(|_| self.is_model2vec).and_then(unknown),
            tokenizer,
            prompts: prompts::read(files)?,
            is_cross_encoder: false,
            texts: TextSettings::default(),
            max_input_length: truncation.flatten().map_or(longest, |length| longest.min(length)),
            gguf: GgufFacts::default(),
            token_types: 0,
        })
    }

    /// The tokenizer without special tokens, and the length to which it truncates. sentence-transformers uses the tokenizer's truncation;
    /// Model2Vec has its own length.
    fn tokenizer(&self, files: &ModelFiles, sums: &mut TokenizerSums) -> Result<(Tokenizer, Option<usize>), LoadError> {
        let file = self.path(tokenizer_json::FILE);
        catch_panic(tokenizer_json::FILE, || {
            let mut tokenizer =
                tokenizer_json::read_file(files, &file, sums)?.ok_or_else(|| files.missing(&file, ""))?;
            tokenizer.with_post_processor(None::<PostProcessorWrapper>);
            let truncation = tokenizer.get_truncation().filter(|_| !self.is_model2vec);
            let (length, direction) = match truncation {
                Some(TruncationParams { max_length: 0, .. }) => {
                    return Err(LoadError::invalid(&file, "`truncation.max_length` must be above 0"));
                }
                Some(&TruncationParams { max_length, direction, .. }) => (Some(max_length), direction),
                None => (None, TruncationDirection::Right),
            };
            tokenizer_json::keep_direction(&mut tokenizer, direction)?;
            Ok((tokenizer, length))
        })
    }

    /// `true` for a folder with only configuration that does not state the width of the table.
    ///
    /// # Errors
    /// A file is malformed, or the modules are not supported.
    pub(super) fn is_unknown(&self, files: &ModelFiles) -> Result<bool, LoadError> {
        if !files.is_bare(&self.folder)? || self.width()?.is_some() {
            return Ok(false);
        }
        ModuleList::read(files).map(|_| true)
    }

    /// Width in a config of Model2Vec. In other configs the field has another meaning: DistilBERT's is the feed-forward width.
    fn width(&self) -> Result<Option<usize>, LoadError> {
        if self.is_model2vec { Fields::new(CONFIG, &self.config)?.optional(WIDTH) } else { Ok(None) }
    }

    /// A warning about a width in the config that differs from the table's. Model2Vec reads only the table, and leaves the field unchanged when
    /// it saves a table that it loaded with fewer dimensions.
    ///
    /// # Errors
    /// The field is malformed.
    pub(super) fn stale_width(&self, table: usize) -> Result<Option<String>, LoadError> {
        let stale = self.width()?.filter(|&named| named != table);
        Ok(stale.map(|named| format!("`{WIDTH}` in {CONFIG} is {named}; the width of the table, {table}, is used")))
    }

    /// Maximum tokens of an input: `max_length` of the config, to which newer versions of Model2Vec truncate, or [`MAX_TOKENS`].
    fn longest(&self) -> Result<usize, LoadError> {
        let fields = Fields::new(CONFIG, &self.config)?;
        match fields.optional::<usize>("max_length")? {
            Some(0) => Err(fields.problem("max_length", "must be above 0")),
            length => Ok(length.unwrap_or(MAX_TOKENS).min(MAX_TOKENS)),
        }
    }

    /// Rows and width of the table, from the tensor or, before the download, from tokenizer and config; 0 rows with only configuration.
    fn shape(
        &self,
        files: &ModelFiles,
        tokenizer: Option<&Tokenizer>,
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
            Some(Weights::Adapted(_) | Weights::ByTask(_) | Weights::Gguf(_)) | None => None,
        };
        let shape = match shape {
            Some(shape) => shape,
            None => {
                let largest = tokenizer.and_then(|tokenizer| tokenizer.get_vocab(true).into_values().max());
                let missing = || files.missing(&self.path("model.safetensors"), ", whose header has the width");
                [largest.map_or(0, |id| id as usize + 1), self.width()?.ok_or_else(missing)?]
            }
        };
        for (what, found, limit) in [("rows", shape[0], MAX_ROWS), ("columns", shape[1], MAX_WIDTH)] {
            if found > limit || found == 0 && tokenizer.is_some() {
                let problem = format!("`{name}` must have from 1 to {limit} {what}, it has {found}");
                return Err(LoadError::invalid(files.display_name(), problem));
            }
        }
        Ok(shape)
    }

    /// A transformer without layers.
    fn transformer(&self, shape: [usize; 2]) -> Result<TransformerConfig, LoadError> {
        let none = Value::Object(Map::new());
        let table = Table { shape, json: Fields::new(CONFIG, &none)? };
        Ok(TransformerConfig {
            model_type: if self.is_model2vec { MODEL2VEC } else { "static_embedding" }.to_owned(),
            max_position_embeddings: MAX_TOKENS,
            ..families::describe(&table, &families::STATIC)?
        })
    }
}

/// Settings of a static embedding: only rows and width of its table.
struct Table<'a> {
    shape: [usize; 2],
    json: Fields<'a>,
}

impl Settings for Table<'_> {
    fn json(&self) -> &Fields<'_> {
        &self.json
    }

    fn table_rows(&self, _name: &str) -> Result<Option<usize>, LoadError> {
        Ok(Some(self.shape[0]))
    }

    fn required(&self, key: &Key) -> Result<usize, LoadError> {
        Ok(if key.json == ["hidden_size"] { self.shape[1] } else { 0 })
    }
}

/// Id of the unknown token. Model2Vec treats a Unigram model's unknown token as an ordinary one.
fn unknown(tokenizer: &Tokenizer) -> Option<u32> {
    let token = match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => Some(&model.unk_token),
        ModelWrapper::WordLevel(model) => Some(&model.unk_token),
        ModelWrapper::BPE(model) => model.unk_token.as_ref(),
        ModelWrapper::Unigram(_) => None,
    };
    token.and_then(|token| tokenizer.token_to_id(token))
}
