//! Checkpoints: config, weights, tokenizer and capabilities of a model, read from its files and checked.

mod capabilities;
mod metadata;
mod sentence_transformers;
mod static_embedding;
mod sub_models;
mod summary;
mod tensors;
#[cfg(test)]
mod tests;
mod tokenizer;

pub(crate) use capabilities::head::{HeadSource, RerankToken};
pub(crate) use sentence_transformers::dense::DenseModule;
pub(crate) use sub_models::joined;
pub use summary::{ModelShape, ModelSummary, model_summary};

use crate::config::TransformerConfig;
use crate::config::derived::check_derived;
use crate::error::LoadError;
use crate::formats::gguf::GgufWeights;
use crate::formats::{MappedTable, Weights};
use crate::options::LoadOptions;
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
pub(crate) struct Checkpoint {
    /// Folder of the sub-model; empty for a single model.
    pub(crate) part: String,
    pub(crate) config: TransformerConfig,
    /// Tensors in the files, converted one at a time.
    pub(crate) weights: Weights,
    /// Without padding; truncation has only a direction.
    pub(crate) tokenizer: Tokenizer,
    /// Number of token types.
    pub(crate) token_types: usize,
    /// Token excluded from pooling.
    pub(crate) unpooled: Option<u32>,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) head: HeadSource,
}

impl Checkpoint {
    /// Opens a model's files, downloading them if necessary, and reads everything except the tensors. One checkpoint per sub-model; the
    /// first serves texts without a task.
    ///
    /// # Errors
    /// Files are missing or malformed, or the checkpoint needs something that is not supported.
    pub(crate) fn open_all(options: &LoadOptions) -> Result<Vec<Self>, LoadError> {
        let files = ModelFiles::open(options, FileSet::All)?;
        let model = files.display_name();
        let parts = SubModel::all(options, files)?;
        let routes: Vec<_> = parts.iter().filter_map(|part| part.route.clone()).collect();
        let mut sums = TokenizerSums::default();
        let open = |SubModel { name, files, options, .. }| {
            Self::read(&name, &options, files, &mut sums).map_err(|error| SubModel::error(&name, error))
        };
        let parts: Vec<Self> = parts.into_iter().map(open).collect::<Result<_, _>>()?;
        sub_models::check_widths(routes.iter().zip(parts.iter().map(|part| &*part.capabilities)))?;
        check_derived(&model, parts.iter().map(|part| (&part.config, part.capabilities.max_input_length)))?;
        MappedTable::check_all(&model, parts.iter().filter_map(|part| part.weights.mapped()))?;
        Ok(parts)
    }

    /// [`open_all`](Self::open_all) for a single model.
    #[cfg(test)]
    pub(crate) fn open(options: &LoadOptions) -> Result<Self, LoadError> {
        Self::open_all(options).map(|mut parts| parts.remove(0))
    }

    /// `true` if both sub-models use the same tensors and differ only in the head.
    pub(crate) fn shares_tensors(&self, other: &Self) -> bool {
        self.part == other.part && self.config == other.config
    }

    fn read(part: &str, options: &LoadOptions, files: ModelFiles, sums: &mut TokenizerSums) -> Result<Self, LoadError> {
        let name = files.display_name();
        let Opened { metadata, weights, capabilities, head } = Opened::read(options, files, Purpose::Run, sums)?;
        let weights = weights.ok_or_else(|| LoadError::invalid(&name, "has no tensors"))?;
        let Metadata { config, tokenizer, token_types, unpooled, .. } = metadata;
        let tokenizer = tokenizer.ok_or_else(|| LoadError::invalid(&name, "has no tokenizer"))?;
        tracing::info!(
            model = name,
            part = (!part.is_empty()).then_some(part),
            model_type = config.model_type,
            layers = config.num_layers,
            hidden_size = config.hidden_size,
            stored = weights.stored_dtype(&config.typical_weight()),
            max_input_length = capabilities.max_input_length,
            "checkpoint opened"
        );
        let (part, capabilities) = (part.to_owned(), Arc::new(capabilities));
        Ok(Self { part, config, weights, tokenizer, token_types, unpooled, capabilities, head })
    }
}

/// Result of checking the files of a model or sub-model without reading values of tensors.
#[derive(Debug)]
pub(crate) struct Inspection {
    /// Folder of the sub-model; empty for a single model.
    pub(crate) part: String,
    pub(crate) config: TransformerConfig,
    /// Headers of the tensors; `None` if they cannot be read.
    pub(crate) weights: Option<Weights>,
    /// The folder has neither tensors nor a tokenizer.
    pub(crate) bare: bool,
    pub(crate) capabilities: Capabilities,
}

impl Inspection {
    /// Reads and checks the files of each sub-model as [`Checkpoint::open_all`] does. Empty if one is a static embedding without its table,
    /// whose configuration does not state the width.
    ///
    /// # Errors
    /// As for [`Checkpoint::open_all`].
    pub(crate) fn of(options: &LoadOptions, files: ModelFiles) -> Result<Vec<Self>, LoadError> {
        let model = files.display_name();
        let (mut parts, mut routes, mut sums) = (Vec::new(), Vec::new(), TokenizerSums::default());
        for SubModel { name, route, files, options } in SubModel::all(options, files)? {
            match Self::read(&name, &options, files, &mut sums).map_err(|error| SubModel::error(&name, error))? {
                Some(part) => parts.push(part),
                None => return Ok(vec![]),
            }
            routes.extend(route);
        }
        sub_models::check_widths(routes.iter().zip(parts.iter().map(|part| &part.capabilities)))?;
        check_derived(&model, parts.iter().map(|part| (&part.config, part.capabilities.max_input_length)))?;
        MappedTable::check_all(&model, parts.iter().filter_map(|part| part.weights.as_ref()?.mapped()))?;
        Ok(parts)
    }

    /// As [`Checkpoint::shares_tensors`].
    pub(crate) fn shares_tensors(&self, other: &Self) -> bool {
        self.part == other.part && self.config == other.config
    }

    fn read(
        part: &str,
        options: &LoadOptions,
        files: ModelFiles,
        sums: &mut TokenizerSums,
    ) -> Result<Option<Self>, LoadError> {
        if let Some(table) = StaticEmbedding::find(&files)?
            && table.is_unknown(&files)?
        {
            return Ok(None);
        }
        let Opened { metadata, weights, capabilities, .. } = Opened::read(options, files, Purpose::Check, sums)?;
        let (part, bare) = (part.to_owned(), metadata.tokenizer.is_none());
        Ok(Some(Self { part, bare, config: metadata.config, weights, capabilities }))
    }
}

/// Everything that a start reads and checks before the tensors' values.
struct Opened {
    metadata: Metadata,
    weights: Option<Weights>,
    capabilities: Capabilities,
    head: HeadSource,
}

impl Opened {
    fn read(
        options: &LoadOptions,
        mut files: ModelFiles,
        purpose: Purpose,
        sums: &mut TokenizerSums,
    ) -> Result<Self, LoadError> {
        let table = StaticEmbedding::find(&files)?;
        let gguf = files.take_gguf();
        let (metadata, weights, stale) = match table {
            Some(table) => {
                let weights = table.weights(&files)?;
                let metadata = table.metadata(&files, weights.as_ref(), sums)?;
                let stale = table.stale_width(metadata.config.hidden_size)?;
                (metadata, weights, stale)
            }
            None => {
                let metadata = Metadata::read(&files, gguf.as_ref(), sums)?;
                let weights = match gguf {
                    Some(gguf) => Some(Weights::Gguf(GgufWeights::new(gguf, &metadata.config)?)),
                    None => files.weights()?,
                };
                (metadata, weights, None)
            }
        };
        let evidence = Evidence { options, files: &files, metadata: &metadata, weights: weights.as_ref(), purpose };
        let (mut capabilities, head) = evidence.read()?;
        capabilities.warnings.extend(stale);
        if let Some(weights) = &weights {
            tensors::check(&metadata.config, &head, weights)?;
            capabilities.warnings.extend(tensors::unused_adapters(&metadata.config, weights));
        }
        Ok(Self { metadata, weights, capabilities, head })
    }
}
