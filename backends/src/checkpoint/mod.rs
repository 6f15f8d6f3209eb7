//! Checkpoints: config, weights, tokenizer and capabilities of a model, read from its files and checked.

mod adapter;
mod capabilities;
mod metadata;
mod sentence_transformers;
mod static_embedding;
mod sub_models;
mod summary;
mod task_adapters;
mod tensors;
#[cfg(test)]
mod tests;
mod tokenizer;
mod unread;

pub(crate) use capabilities::head::{HeadSource, RerankToken};
#[cfg(test)]
pub(crate) use sentence_transformers::dense::DenseModule;
pub(crate) use sentence_transformers::dense::{LayerNormModule, Residual, VectorModule};
pub(crate) use sub_models::joined;
pub use summary::{ModelShape, ModelSummary, model_summary};

use crate::config::TransformerConfig;
use crate::config::derived::check_derived;
use crate::error::LoadError;
use crate::formats::gguf::GgufWeights;
use crate::formats::{MappedTable, Weights};
use crate::options::LoadOptions;
use crate::settings;
use crate::source::ModelFiles;
use crate::source::hub::FileSet;
use capabilities::{Evidence, Purpose};
use metadata::Metadata;
use prefold_core::{Capabilities, TokenizerSums};
use static_embedding::StaticEmbedding;
use std::sync::Arc;
use sub_models::SubModel;
use tokenizers::Tokenizer;

/// Content of the files of a model or sub-model.
#[derive(Debug)]
pub(crate) struct Checkpoint<W = Weights, T = Tokenizer> {
    /// Folder of the sub-model; empty for a single model.
    pub(crate) sub_model: String,
    /// Commit of a model on the hub.
    pub(crate) commit: Option<String>,
    pub(crate) config: TransformerConfig,
    /// Tensors in the files, converted one at a time.
    pub(crate) weights: W,
    /// Without padding; truncation has only a direction.
    pub(crate) tokenizer: T,
    /// Number of token types.
    pub(crate) token_types: usize,
    /// Token excluded from pooling.
    pub(crate) unpooled: Option<u32>,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) head: HeadSource,
}

/// A checkpoint that may lack weights, if no header of theirs can be read, and the tokenizer, if the folder has configuration alone.
pub(crate) type Inspection = Checkpoint<Option<Weights>, Option<Tokenizer>>;

impl Checkpoint {
    /// Opens a model's files, downloading them if necessary, and reads everything except the tensors. One checkpoint per sub-model; the
    /// first serves texts without a task.
    ///
    /// # Errors
    /// Files are missing or malformed, or the checkpoint needs something that is not supported.
    pub(crate) fn open_all(options: &LoadOptions) -> Result<Vec<Self>, LoadError> {
        let files = ModelFiles::open(options, FileSet::All)?;
        let model = files.display_name();
        Inspection::read_all(options, files, Purpose::Run)?.into_iter().map(|it| it.complete(&model)).collect()
    }

    /// [`open_all`](Self::open_all) for a single model.
    #[cfg(test)]
    pub(crate) fn open(options: &LoadOptions) -> Result<Self, LoadError> {
        Self::open_all(options).map(|mut checkpoints| checkpoints.remove(0))
    }
}

impl<W, T> Checkpoint<W, T> {
    /// `true` if both sub-models use the same tensors and differ only in the head.
    pub(crate) fn shares_tensors(&self, other: &Self) -> bool {
        self.sub_model == other.sub_model && self.config == other.config
    }
}

impl Inspection {
    /// Reads and checks the files of each sub-model as [`Checkpoint::open_all`] does. Empty if one is a static embedding without its table,
    /// whose configuration does not state the width.
    ///
    /// # Errors
    /// As for [`Checkpoint::open_all`].
    pub(crate) fn of(options: &LoadOptions, files: ModelFiles) -> Result<Vec<Self>, LoadError> {
        Self::read_all(options, files, Purpose::Check)
    }

    fn read_all(options: &LoadOptions, files: ModelFiles, purpose: Purpose) -> Result<Vec<Self>, LoadError> {
        let model = files.display_name();
        let (mut read, mut routes, mut sums) = (Vec::new(), Vec::new(), TokenizerSums::default());
        for SubModel { name, route, files, options } in SubModel::all(options, files)? {
            let checkpoint = Self::read(&name, &options, files, purpose, &mut sums);
            match checkpoint.map_err(|error| SubModel::error(&name, error))? {
                Some(checkpoint) => read.push(checkpoint),
                None => return Ok(vec![]),
            }
            routes.extend(route);
        }
        sub_models::check_widths(routes.iter().zip(read.iter().map(|it| &*it.capabilities)))?;
        check_derived(&model, read.iter().map(|it| (&it.config, it.capabilities.max_input_length)))?;
        MappedTable::check_all(&model, read.iter().filter_map(|it| it.weights.as_ref()?.mapped()))?;
        Ok(read)
    }

    /// Reads and checks the files of a sub-model, but not the tensors' values.
    fn read(
        sub_model: &str,
        options: &LoadOptions,
        mut files: ModelFiles,
        purpose: Purpose,
        sums: &mut TokenizerSums,
    ) -> Result<Option<Self>, LoadError> {
        let table = StaticEmbedding::find(&files)?;
        let gguf = files.take_gguf();
        let (mut metadata, weights, warnings) = match table {
            Some(table) if table.is_unknown(&files)? => return Ok(None),
            Some(table) => {
                let weights = table.weights(&files)?;
                let metadata = table.metadata(&files, weights.as_ref(), sums)?;
                let stale = table.stale_width(metadata.config.hidden_size)?;
                (metadata, weights, stale.into_iter().collect())
            }
            None => {
                let metadata = Metadata::read(&files, gguf.as_ref(), sums)?;
                let (weights, warnings) = match gguf {
                    Some(gguf) => {
                        let ignored =
                            settings::named_metadata(&gguf)?.into_iter().chain(gguf.other_epsilon()?).collect();
                        (Some(Weights::Gguf(GgufWeights::new(gguf, &metadata.config)?)), ignored)
                    }
                    None => adapter::weights(&files, &metadata.config)?,
                };
                (metadata, weights, warnings)
            }
        };
        let was_tied = metadata.config.tie_word_embeddings;
        metadata.config.tie_word_embeddings = tensors::is_tied(&metadata.config, weights.as_ref());
        let evidence = Evidence { options, files: &files, metadata: &metadata, weights: weights.as_ref(), purpose };
        let (mut capabilities, head) = evidence.read()?;
        capabilities.warnings.extend(warnings);
        capabilities.warnings.extend(settings::named(&files, matches!(weights, Some(Weights::Gguf(_))))?);
        adapter::check_head(&head, was_tied, weights.as_ref())?;
        if let Some(weights) = &weights {
            tensors::check(&metadata.config, &head, weights)?;
            capabilities.warnings.extend(tensors::unused_adapters(&metadata.config, weights));
            capabilities.warnings.extend(adapter::other_task(&head, weights));
            capabilities.warnings.extend(unread::warning(&metadata.config, &head, weights));
            let class = evidence.class()?;
            capabilities.warnings.extend(unread::classifier_without_class(class.as_deref(), &head, weights));
        }
        let Metadata { config, tokenizer, token_types, unpooled, .. } = metadata;
        let (sub_model, capabilities) = (sub_model.to_owned(), Arc::new(capabilities));
        let commit = files.commit();
        Ok(Some(Self { sub_model, commit, config, weights, tokenizer, token_types, unpooled, capabilities, head }))
    }

    /// The checkpoint, if it lacks nothing.
    fn complete(self, model: &str) -> Result<Checkpoint, LoadError> {
        let Self { sub_model, commit, config, weights, tokenizer, token_types, unpooled, capabilities, head } = self;
        let lacks = |problem| SubModel::error(&sub_model, LoadError::invalid(model, problem));
        let weights = weights.ok_or_else(|| lacks("has no tensors"))?;
        let tokenizer = tokenizer.ok_or_else(|| lacks("has no tokenizer"))?;
        tracing::info!(
            model,
            part = (!sub_model.is_empty()).then_some(&sub_model),
            model_type = config.model_type,
            layers = config.num_layers,
            hidden_size = config.hidden_size,
            stored = weights.stored_dtype(&config.typical_weight()),
            max_input_length = capabilities.max_input_length,
            "checkpoint opened"
        );
        Ok(Checkpoint { sub_model, commit, config, weights, tokenizer, token_types, unpooled, capabilities, head })
    }
}
