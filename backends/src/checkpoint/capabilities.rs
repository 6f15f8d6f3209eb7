//! Capabilities of a checkpoint and its head, from options and files.

use super::head::HeadSource;
use super::left_out;
use super::metadata::Metadata;
use super::module_list::ModuleList;
use super::st_dimensions;
use super::st_modules::{self, DenseModule, PoolingConfig};
use crate::config::{HeadActivation, poolings};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::json::{Fields, shown};
use crate::options::{DefaultPrompt, LoadOptions};
use crate::source::ModelFiles;
use prefold_core::{Capabilities, Embed, Pooling, Prompts, Task};

/// Facts that determine the capabilities.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) options: &'a LoadOptions,
    pub(crate) files: &'a ModelFiles,
    pub(crate) metadata: &'a Metadata,
    /// The tensors, if they are known.
    pub(crate) weights: Option<&'a Weights>,
    pub(crate) purpose: Purpose,
}

/// Purpose of reading the capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To run the model.
    Run,
    /// To check whether it would run; values of tensors are read only for dense modules.
    Check,
    /// To summarize it. Only its tokens matter, which do not depend on pooling.
    Summary,
}

impl Evidence<'_> {
    /// Outputs that the checkpoint can compute, and the head for them. `--task` overrides the files.
    ///
    /// # Errors
    /// The checkpoint does not support the options, names no task, or needs an unsupported feature.
    pub(crate) fn read(&self) -> Result<(Capabilities, HeadSource), LoadError> {
        let unweighted = (self.purpose == Purpose::Summary).then_some(Task::Embed);
        let task = self.task()?.or(unweighted).ok_or_else(|| {
            let problem = "does not state its task: give --pooling (cls, mean, last-token, ...) for embeddings, \
                           --task, or --rerank-recipe";
            LoadError::Options(format!("{} {problem}", self.files.display_name()))
        })?;
        if self.metadata.config.is_table() && task != Task::Embed {
            let asked = match (&self.options.rerank_recipe, self.options.task) {
                (Some(_), _) => "--rerank-recipe: ",
                (None, Some(_)) => "--task: ",
                (None, None) => "",
            };
            let problem =
                "is a static embedding, which only embeds; rerank requests get the cosine of query and document";
            return Err(LoadError::Options(format!("{asked}{} {problem}", self.files.display_name())));
        }
        let has_recipe = self.options.rerank_recipe.is_some();
        if has_recipe && task != Task::Rerank {
            return Err(LoadError::Options(format!("--rerank-recipe is for reranking, the task is {task}")));
        }
        let head_weight = self.metadata.config.classifier.weight();
        let has_score_head = match self.weights {
            Some(weights) => weights.contains(&head_weight),
            None => self.is_classifier()?,
        };
        if self.options.task == Some(Task::Classify) && !has_score_head {
            let problem = format!("has no classifier head (tensor `{head_weight}`), which --task classify needs");
            return Err(LoadError::Options(format!("{} {problem}", self.files.display_name())));
        }
        if has_recipe && has_score_head {
            let problem = "is a sequence classifier, with its own head; --rerank-recipe is for language models";
            return Err(LoadError::Options(format!("{} {problem}", self.files.display_name())));
        }
        if task != Task::Embed {
            let embeds_only =
                [("--pooling", self.options.pooling.is_some()), ("--dense-path", self.options.dense_path.is_some())];
            if let Some((flag, _)) = embeds_only.iter().find(|(_, given)| *given) {
                let problem = format!("{flag} is for embeddings, the task is {task}; --task embed overrules this");
                return Err(LoadError::Options(problem));
            }
        }
        let (mut capabilities, head) = match task {
            Task::Embed => self.embed()?,
            Task::Rerank if !has_score_head => self.rerank()?,
            Task::Rerank | Task::Classify => self.classify()?,
            Task::ClassifyTokens => self.classify_tokens()?,
        };
        capabilities.warnings.extend(self.metadata.texts.warnings.iter().cloned());
        capabilities.warnings.extend(self.doubt(task, has_score_head));
        match &head {
            HeadSource::Classifier { num_labels } if task == Task::Rerank && capabilities.rerank.is_none() => {
                let problem = format!("a classifier with {num_labels} labels cannot rerank; it needs exactly 1");
                Err(LoadError::Options(problem))
            }
            HeadSource::Dense { .. } | HeadSource::Classifier { .. } if self.options.rerank_instruction.is_some() => {
                let problem = "`--rerank-instruction`: only rerankers with a prompt take an instruction";
                Err(LoadError::Options(problem.to_owned()))
            }
            _ => Ok((capabilities, head)),
        }
    }

    /// The task in the options, otherwise the one in the files; `None` if neither names one.
    ///
    /// # Errors
    /// The files are malformed or need an unsupported feature.
    fn task(&self) -> Result<Option<Task>, LoadError> {
        match (self.options.task, &self.options.rerank_recipe) {
            (Some(task), _) => Ok(Some(task)),
            (None, Some(_)) => Ok(Some(Task::Rerank)),
            (None, None) => self.detect(),
        }
    }

    fn detect(&self) -> Result<Option<Task>, LoadError> {
        if self.is_token_classifier()? {
            return Ok(Some(Task::ClassifyTokens));
        }
        if self.is_classifier()? {
            return Ok(Some(Task::Classify));
        }
        if self.options.pooling.is_some() || self.metadata.gguf_pooling.is_some() {
            return Ok(Some(Task::Embed));
        }
        let modules = ModuleList::read(self.files)?;
        if self.metadata.config.is_table()
            || modules.pooling.is_some()
            || modules.pooler
            || self.config_pooling()?.is_some()
        {
            return Ok(Some(Task::Embed));
        }
        let qwen3 = match &self.metadata.json {
            Some(_) => self.class()?.is_some_and(|name| name == "Qwen3ForCausalLM"),
            None => self.metadata.config.model_type == "qwen3",
        };
        if modules.logit_score.is_some() {
            if qwen3 {
                return Ok(Some(Task::Rerank));
            }
            let problem = "a reranker with an unknown prompt; give --rerank-recipe";
            return Err(LoadError::Options(format!("{} is {problem}", self.files.display_name())));
        }
        if !qwen3 || self.missing_token().is_some() {
            return Ok(None);
        }
        if self.metadata.json.is_none() {
            return Ok(self.metadata.gguf_ranks.then_some(Task::Rerank));
        }
        let model = self.files.display_name();
        if let Some(class) = self.custom_class()? {
            tracing::warn!("{model} has a class of its own ({class}), so its task is not guessed");
            return Ok(None);
        }
        Ok(Some(Task::Rerank))
    }

    /// The checkpoint's own Python class of the model or config, which may compute or prompt differently.
    fn custom_class(&self) -> Result<Option<String>, LoadError> {
        let Some(json) = &self.metadata.json else { return Ok(None) };
        let Some(map) = Fields::new("config.json", json)?.object("auto_map")? else { return Ok(None) };
        let class = map.entries().find(|(key, _)| *key == "AutoConfig" || key.starts_with("AutoModel"));
        Ok(class.map(|(_, class)| shown(class)))
    }

    fn embed(&self) -> Result<(Capabilities, HeadSource), LoadError> {
        let given = self.options.pooling.or(self.metadata.gguf_pooling);
        let mut warning = None;
        let mut list = match ModuleList::read(self.files) {
            // --pooling replaces the pooler.
            Ok(list) if given.is_some() => ModuleList { pooler: false, ..list },
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
        let is_table = self.metadata.config.is_table();
        // The pooling in a static embedding's config belongs to the model that it was distilled from.
        let config_pooling = if is_table { Some(Pooling::Mean) } else { self.config_pooling()? };
        let pooling = match (given, &list.pooling) {
            (Some(pooling), _) if is_table && pooling != Pooling::Mean => {
                let problem = format!("--pooling {pooling}: a static embedding supports only mean pooling");
                return Err(LoadError::Options(problem));
            }
            (Some(pooling), _) => PoolingConfig { pooling: vec![pooling], include_prompt: true },
            (None, Some(folder)) => st_modules::pooling(self.files, folder, self.metadata.config.output_size)?,
            (None, None) if config_pooling.is_some() => {
                PoolingConfig { pooling: config_pooling.into_iter().collect(), include_prompt: true }
            }
            (None, None) if list.pooler => PoolingConfig { pooling: vec![Pooling::Cls], include_prompt: true },
            (None, None) if self.purpose == Purpose::Summary => {
                PoolingConfig { pooling: vec![Pooling::LastToken], include_prompt: true }
            }
            (None, None) => {
                let problem = format!("{} names no pooling: give --pooling", self.files.display_name());
                return Err(LoadError::Options(problem));
            }
        };
        let mut prompts = self.prompts(self.metadata.prompts.clone())?;
        // Last-token pooling does not depend on the prompt's rows.
        prompts.excluded = !pooling.include_prompt && pooling.pooling != [Pooling::LastToken];
        if prompts.excluded && prompts.by_name.values().chain(&prompts.default).any(|prompt| !prompt.is_empty()) {
            let what = "`include_prompt` false with prompts";
            return Err(LoadError::unsupported("the pooling module", what, "true, or last-token pooling"));
        }
        let pooling = pooling.pooling;
        let token_dim = self.metadata.config.output_size;
        let mut dim = token_dim * pooling.len();
        let mut modules = Vec::with_capacity(list.dense.len() + 1);
        if list.pooler {
            modules.push(self.pooler()?);
        }
        for folder in &list.dense {
            let module = self.dense(folder, dim)?;
            dim = module.out_features;
            modules.push(module);
        }
        let (tasks, routes, dim) = self.tasks(&list, dim, &prompts)?;
        let embed = Embed {
            dim,
            truncate_dim: st_dimensions::truncate_dim(self.files, dim)?,
            token_dim,
            pooling: pooling.clone(),
            prompts,
            tasks,
            normalizes: list.normalizes(0),
        };
        let mut capabilities = Capabilities::embedding(embed, self.metadata.max_input_length);
        capabilities.warnings.extend(warning);
        Ok((capabilities, HeadSource::Dense { pooling, modules, routes }))
    }

    /// Pooling in `config.json`, as in NVIDIA's decoders without a causal mask.
    ///
    /// # Errors
    /// It is malformed or unknown.
    fn config_pooling(&self) -> Result<Option<Pooling>, LoadError> {
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
        Ok(DenseModule { in_features: width, out_features: width, weight, bias, activation: HeadActivation::Tanh })
    }

    /// The prompts in the files, with the default in the options.
    ///
    /// # Errors
    /// The options name another prompt.
    pub(super) fn prompts(&self, named: Prompts) -> Result<Prompts, LoadError> {
        let default = match &self.options.default_prompt {
            None => return Ok(named),
            Some(DefaultPrompt::Text(text)) => text,
            Some(DefaultPrompt::Named(name)) => named.by_name.get(name).ok_or_else(|| {
                let names: Vec<_> = named.by_name.keys().map(|name| format!("`{name}`")).collect();
                let known = match names.as_slice() {
                    [] => "no prompts".to_owned(),
                    names => format!("the prompts {}", names.join(", ")),
                };
                LoadError::Options(format!("`--default-prompt-name {name}`: the model has {known}"))
            })?,
        };
        Ok(Prompts { default: Some(default.clone()), ..named })
    }
}
