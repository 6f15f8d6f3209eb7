//! Embeddings: pooling, dense layers and prompts, from options and files.

use super::head::HeadSource;
use super::left_out;
use super::{Evidence, Purpose};
use crate::checkpoint::metadata;
use crate::checkpoint::sentence_transformers::dense::{DenseModule, InputWidth, Residual, VectorModule};
use crate::checkpoint::sentence_transformers::dimensions;
use crate::checkpoint::sentence_transformers::module_list::{ModuleList, VectorFolder};
use crate::checkpoint::sentence_transformers::pooling::{self, PoolingConfig};
use crate::checkpoint::sentence_transformers::prompts;
use crate::config::{HeadActivation, poolings};
use crate::error::LoadError;
use crate::json::Fields;
use crate::source::modules::MODULES;
use prefold_core::{Capabilities, Embed, Pooling};

impl Evidence<'_> {
    /// Capabilities and head of an embedding model.
    ///
    /// # Errors
    /// The files are malformed or name no pooling, or the options do not fit them.
    pub(super) fn embed(&self) -> Result<(Capabilities, HeadSource), LoadError> {
        let given = self.options.pooling.or(self.metadata.gguf.pooling);
        let (mut warning, mut overruled) = (None, None);
        let mut list = match ModuleList::read(self.files) {
            // --pooling and the pooling of a GGUF file replace the pooler.
            Ok(list) if given.is_some() => {
                overruled = self.overruled_pooling(&list)?;
                ModuleList { pooler: false, ..list }
            }
            // With --pooling, a list of unsupported modules is ignored.
            Err(error) if self.options.pooling.is_some() => {
                warning = Some(left_out::warning(self.files, "--pooling is given", &error));
                ModuleList::default()
            }
            Err(_) if self.purpose == Purpose::Summary => ModuleList::default(),
            list => list?,
        };
        if let Some(folder) = &self.options.dense_path {
            list.replace_dense(folder)?;
        }
        let pooling = self.pooling(given, &list)?;
        let mut prompts = self.prompts(self.metadata.prompts.clone())?;
        // Last-token pooling does not depend on the prompt's rows.
        prompts.excluded = !pooling.include_prompt && pooling.pooling != [Pooling::LastToken];
        // Its weights count from the beginning of the text.
        if prompts.excluded && pooling.pooling.contains(&Pooling::WeightedMean) {
            let what = "`include_prompt` false with the pooling weightedmean";
            return Err(LoadError::unsupported("the pooling module", what, "true, or another pooling"));
        }
        let of_prompts = self.unending_texts(&pooling);
        let pooling = pooling.pooling;
        let token_dim = self.metadata.config.output_size;
        let mut dim = token_dim * pooling.len();
        let mut modules = Vec::with_capacity(list.dense.len() + 1);
        if list.pooler {
            modules.push(VectorModule::Dense(self.pooler()?));
        }
        let in_file = if list.dense.is_empty() { &*self.metadata.gguf.dense } else { &[] };
        for (name, out_features) in in_file {
            let module = self.dense_in_gguf(name, [*out_features, dim])?;
            dim = module.out_features;
            modules.push(VectorModule::Dense(module));
        }
        for folder in &list.dense {
            let reason = overruled.as_deref().filter(|_| modules.is_empty());
            let module = self.vector_module(folder, InputWidth { values: dim, reason })?;
            dim = module.out_features();
            modules.push(module);
        }
        let (tasks, routes, dim) = self.tasks(&list, dim, &prompts)?;
        let embed = Embed {
            dim,
            truncate_dim: dimensions::truncate_dim(self.files, dim)?,
            token_dim,
            pooling: pooling.clone(),
            prompts,
            tasks,
            normalizes: list.normalizes(0),
        };
        let mut capabilities = Capabilities::embedding(embed, self.metadata.max_input_length);
        let of_adapters = self.default_adapter().into_iter();
        let of_pooling = overruled.into_iter().chain(self.unlisted_pooling(&pooling, &list));
        let of_pooling = of_pooling.chain(self.gguf_doubts(&pooling, &list));
        let of_class = if list.normalized.is_empty() { None } else { prompts::of_other_class(self.files)? };
        capabilities
            .warnings
            .extend(warning.into_iter().chain(of_pooling).chain(of_prompts).chain(of_adapters).chain(of_class));
        Ok((capabilities, HeadSource::Dense { pooling, modules, routes }))
    }

    /// A warning about the adapter of texts without a task, which the published code refuses.
    fn default_adapter(&self) -> Option<String> {
        let adapters = self.metadata.config.adapters.as_ref()?;
        let name = adapters.names.get(adapters.default?)?;
        Some(format!("texts without a `task` have the adapter `{name}`"))
    }

    /// A warning about texts that may have no token behind a prompt that is not pooled.
    fn unending_texts(&self, pooling: &PoolingConfig) -> Option<String> {
        if pooling.include_prompt || pooling.pooling == [Pooling::Cls] {
            return None;
        }
        let tokenizer = self.metadata.tokenizer.as_ref()?;
        let ids = metadata::ids_of_a_text(tokenizer).ok()?;
        let added = tokenizer.get_added_tokens_decoder();
        // A special token at the end is pooled.
        if ids.last().and_then(|id| added.get(id)).is_some_and(|token| token.special) {
            return None;
        }
        Some(
            "`include_prompt` of the pooling module is false: the last token of an input that a prompt fills is pooled, where \
             sentence-transformers pools none"
                .to_owned(),
        )
    }

    /// A warning about a pooling that no `modules.json` lists.
    fn unlisted_pooling(&self, pooling: &[Pooling], list: &ModuleList) -> Option<String> {
        let folder = list.pooling.as_ref().filter(|_| list.normalized.is_empty())?;
        let (usual, name) =
            if self.was_causal() { (Pooling::LastToken, "last token") } else { (Pooling::Mean, "mean") };
        (pooling != [usual]).then(|| {
            format!(
                "{MODULES} is missing: {folder}/config.json is followed, while sentence-transformers would pool the {name}"
            )
        })
    }

    /// `true` for a `...ForCausalLM`, unless `is_causal` is false.
    fn was_causal(&self) -> bool {
        let Some(json) = &self.metadata.json else { return false };
        let class = json.get("architectures").and_then(|names| names.get(0)?.as_str());
        let is_causal = json.get("is_causal").is_none_or(|value| value.as_bool() == Some(true));
        is_causal && class.is_some_and(|class| class.ends_with("ForCausalLM"))
    }

    /// Warnings about a GGUF file's pooling, unless the options replace it, and about its end token.
    fn gguf_doubts(&self, pooling: &[Pooling], list: &ModuleList) -> impl Iterator<Item = String> {
        let gguf = &self.metadata.gguf;
        let lost = gguf.lost.clone().filter(|_| list.dense.is_empty());
        let of_pooling = gguf.doubtful_pooling.clone().filter(|_| self.options.pooling.is_none());
        let of_end = gguf.doubtful_end.clone().filter(|_| pooling == [Pooling::LastToken]);
        lost.into_iter().chain(of_pooling).chain(of_end)
    }

    /// A warning that the pooling of a GGUF file is followed instead of the pooling of the modules in the same folder.
    ///
    /// # Errors
    /// The pooling module is malformed.
    fn overruled_pooling(&self, list: &ModuleList) -> Result<Option<String>, LoadError> {
        let Some(followed) = self.metadata.gguf.pooling.filter(|_| self.options.pooling.is_none()) else {
            return Ok(None);
        };
        let modes = match &list.pooling {
            Some(folder) => pooling::read(self.files, folder, &self.metadata.config)?.pooling,
            None if list.pools_last => vec![Pooling::LastToken],
            None => vec![],
        };
        if modes == [followed] || modes.is_empty() && !list.pooler {
            return Ok(None);
        }
        let asked = match modes.as_slice() {
            [] => "the pooler's output".to_owned(),
            modes => modes.iter().map(|&mode| poolings::flag(mode)).collect::<Vec<_>>().join(", "),
        };
        let hint = if let [mode] = *modes {
            format!(", --pooling {} overrides it", poolings::flag(mode))
        } else {
            String::new()
        };
        let (key, followed) = (&self.metadata.config.model_type, poolings::flag(followed));
        Ok(Some(format!(
            "`{key}.pooling_type` of the GGUF file says {followed} pooling, the modules in its folder say {asked}; the GGUF file is followed{hint}"
        )))
    }

    /// The given pooling, otherwise the one of the modules, of `config.json` or of the pooler.
    ///
    /// # Errors
    /// The files are malformed or name no pooling, or a static embedding is given another than the mean.
    fn pooling(&self, given: Option<Pooling>, list: &ModuleList) -> Result<PoolingConfig, LoadError> {
        let is_table = self.metadata.config.is_table();
        // The pooling in a static embedding's config belongs to the model that it was distilled from.
        let config_pooling = if is_table { Some(Pooling::Mean) } else { self.config_pooling()? };
        let only = |pooling| PoolingConfig { pooling: vec![pooling], include_prompt: true };
        match (given, &list.pooling) {
            (Some(pooling), _) if is_table && pooling != Pooling::Mean => {
                let problem = format!("--pooling {pooling}: a static embedding supports only mean pooling");
                Err(LoadError::Options(problem))
            }
            (Some(pooling), Some(folder)) if self.options.pooling.is_none() => {
                // The module's pooling is overruled; a GGUF file has no field for prompts.
                let of_module = pooling::read(self.files, folder, &self.metadata.config)?;
                Ok(PoolingConfig { pooling: vec![pooling], ..of_module })
            }
            (Some(pooling), _) => Ok(only(pooling)),
            (None, Some(folder)) => pooling::read(self.files, folder, &self.metadata.config),
            (None, None) => {
                let usual = config_pooling.or(list.pooler.then_some(Pooling::Cls));
                let usual = usual.or(list.pools_last.then_some(Pooling::LastToken));
                let usual = usual.or((self.purpose == Purpose::Summary).then_some(Pooling::LastToken));
                let problem = || format!("{} names no pooling: give --pooling", self.files.display_name());
                usual.map(only).ok_or_else(|| LoadError::Options(problem()))
            }
        }
    }

    /// Pooling in `config.json`, as in NVIDIA's decoders without a causal mask.
    ///
    /// # Errors
    /// It is malformed or unknown.
    pub(super) fn config_pooling(&self) -> Result<Option<Pooling>, LoadError> {
        let Some(json) = &self.metadata.json else { return Ok(None) };
        poolings::read(&Fields::new("config.json", json)?, "pooling", poolings::OF_CONFIG)
    }

    /// The model's own pooler as the first dense layer.
    ///
    /// # Errors
    /// The family has none, or its tensors are missing or malformed.
    fn pooler(&self) -> Result<DenseModule, LoadError> {
        let (width, name) = (self.metadata.config.output_size, self.metadata.config.names.pooler);
        if name.is_empty() {
            let what = format!("`pooler_output` of {}, which has no pooler,", self.metadata.config.model_type);
            return Err(LoadError::unsupported("sentence_bert_config.json", what, "last_hidden_state, or --pooling"));
        }
        let read = |suffix: &str, shape: &[usize]| {
            let name = format!("{name}.{suffix}");
            match self.weights {
                Some(weights) if self.purpose == Purpose::Run => weights.read(&name, shape),
                Some(weights) => weights.check(&name, shape).map(|()| vec![]),
                None => Ok(vec![]),
            }
        };
        let (weight, bias) = (read("weight", &[width, width])?, Some(read("bias", &[width])?));
        let (activation, residual) = (HeadActivation::Tanh, Residual::None);
        Ok(DenseModule { in_features: width, out_features: width, weight, bias, activation, residual })
    }

    /// A dense module of a GGUF file; without weights where they are not needed.
    ///
    /// # Errors
    /// The tensor has another width.
    fn dense_in_gguf(&self, name: &str, [out_features, in_features]: [usize; 2]) -> Result<DenseModule, LoadError> {
        let (name, shape) = (format!("{name}.weight"), [out_features, in_features]);
        let weight = match self.weights {
            Some(weights) if self.purpose == Purpose::Run => weights.read(&name, &shape)?,
            Some(weights) => weights.check(&name, &shape).map(|()| vec![])?,
            None => vec![],
        };
        Ok(DenseModule {
            in_features,
            out_features,
            weight,
            bias: None,
            activation: HeadActivation::Identity,
            residual: Residual::None,
        })
    }

    /// A module after pooling with an input of `in_features` values; without weights in a summary, or if they are not on disk.
    ///
    /// # Errors
    /// As for [`VectorModule::read`].
    pub(super) fn vector_module(
        &self,
        VectorFolder { kind, path }: &VectorFolder,
        input: InputWidth<'_>,
    ) -> Result<VectorModule, LoadError> {
        let with_weights = match self.purpose {
            Purpose::Run => true,
            Purpose::Check => self.files.has_tensors()?,
            Purpose::Summary => false,
        };
        VectorModule::read(self.files, (*kind, path), input, with_weights)
    }
}
