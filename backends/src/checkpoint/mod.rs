//! Checkpoints: config, weights, tokenizer and capabilities of a model, read from its files and checked.

mod bert_normalizer;
mod capabilities;
mod catch_panic;
mod classifier;
mod dense_modules;
mod dense_places;
mod head;
mod left_out;
mod metadata;
mod module_list;
mod reranker;
mod st_dimensions;
mod st_modules;
mod st_texts;
mod st_transformer;
mod static_embedding;
mod sub_models;
mod summary;
mod tasks;
mod tensors;
#[cfg(test)]
mod tests;
mod tokenizer;
mod vocab_txt;

pub(crate) use head::{HeadSource, RerankToken};
pub(crate) use st_modules::DenseModule;
pub(crate) use sub_models::joined;
pub use summary::{ModelShape, ModelSummary, model_summary};

use crate::LoadError;
use crate::config::TransformerConfig;
use crate::config::derived::check_derived;
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

/// Content of the files of a model, or of a part of one.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// The part's folder; empty for a model of one part.
    pub(crate) part: String,
    pub(crate) config: TransformerConfig,
    /// In the files until they are converted, tensor by tensor.
    pub(crate) weights: Weights,
    /// Without padding; of truncation it has at most a direction.
    pub(crate) tokenizer: Tokenizer,
    /// Types that tokens of an input may have.
    pub(crate) token_types: usize,
    /// A token that is left out of a text's pooled state.
    pub(crate) unpooled: Option<u32>,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) head: HeadSource,
}

impl Checkpoint {
    /// Opens a model's files, downloading them if necessary, and reads everything except the tensors: of each part of the model, first
    /// that of texts without a task.
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

    /// The same of a model of one part.
    #[cfg(test)]
    pub(crate) fn open(options: &LoadOptions) -> Result<Self, LoadError> {
        Self::open_all(options).map(|mut parts| parts.remove(0))
    }

    /// `true` for a part with the tensors of another, from which it differs in the head.
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

/// The findings of a start in the files of a model, or of a part of one, without the values of its tensors.
#[derive(Debug)]
pub(crate) struct Inspection {
    /// The part's folder; empty for a model of one part.
    pub(crate) part: String,
    pub(crate) config: TransformerConfig,
    /// The headers of the tensors, where they could be read.
    pub(crate) weights: Option<Weights>,
    /// There are neither tensors nor a tokenizer.
    pub(crate) bare: bool,
    pub(crate) capabilities: Capabilities,
}

impl Inspection {
    /// Reads and checks the files as [`Checkpoint::open_all`] does, of each part of the model; none where the files of one are those of a table
    /// of vectors without itself, whose configuration does not say how wide it is.
    ///
    /// # Errors
    /// Those of a start.
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

    /// `true` for a part with the tensors of another, from which it differs in what stands behind them.
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

/// Everything that a start reads before the tensors' values, checked.
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
