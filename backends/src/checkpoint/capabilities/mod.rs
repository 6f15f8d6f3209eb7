//! Capabilities of a checkpoint and its head, from options and files.

pub(crate) mod head;
pub(crate) mod tasks;

mod classifier;
mod embedding;
mod left_out;
mod reranker;

use crate::checkpoint::metadata::Metadata;
use crate::checkpoint::sentence_transformers::module_list::ModuleList;
use crate::error::LoadError;
use crate::formats::{Weights, config_json};
use crate::json::{Fields, shown};
use crate::options::{DefaultPrompt, LoadOptions};
use crate::source::ModelFiles;
use head::HeadSource;
use prefold_core::{Capabilities, Prompts, Task, listed};

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
            let reason = self.metadata.gguf.no_task.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
            let problem = "does not state its task";
            let help = "give --pooling (cls, mean, last-token, ...) for embeddings, --task, or --rerank-recipe";
            LoadError::Options(format!("{} {problem}{reason}: {help}", self.files.display_name()))
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
            let name = self.name_in_files(&head_weight);
            let problem = format!("has no classifier head (tensor `{name}`), which --task classify needs");
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
        capabilities.warnings.extend(self.doubt(task, has_score_head)?);
        capabilities.warnings.extend(self.unused_modules(task)?);
        capabilities.warnings.extend(self.metadata.json.iter().flat_map(config_json::followed_alone));
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

    /// The name that a tensor has in the files, for messages.
    fn name_in_files(&self, name: &str) -> String {
        self.weights.map_or_else(|| name.to_owned(), |weights| weights.name_in_files(name))
    }

    /// A warning that a classifier is served without the modules of its folder.
    ///
    /// # Errors
    /// The config is malformed.
    fn unused_modules(&self, task: Task) -> Result<Option<String>, LoadError> {
        if self.options.task.is_some() || !matches!(task, Task::Classify | Task::ClassifyTokens) {
            return Ok(None);
        }
        let class = self.class()?.map_or_else(|| "of the GGUF file".to_owned(), |class| shown(&class.into()));
        Ok(left_out::of_classifier(self.files, &class))
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
        if self.options.pooling.is_some() || self.metadata.gguf.pooling.is_some() {
            return Ok(Some(Task::Embed));
        }
        let modules = ModuleList::read(self.files)?;
        if self.metadata.config.is_table()
            || modules.pooling.is_some()
            || modules.pooler
            || modules.pools_last
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
            return Ok(self.metadata.gguf.ranks.then_some(Task::Rerank));
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

    /// The prompts in the files, with the default in the options.
    ///
    /// # Errors
    /// The options name another prompt.
    fn prompts(&self, named: Prompts) -> Result<Prompts, LoadError> {
        let default = match &self.options.default_prompt {
            None => return Ok(named),
            Some(DefaultPrompt::Text(text)) => text,
            Some(DefaultPrompt::Named(name)) => named.by_name.get(name).ok_or_else(|| {
                let known = listed(named.by_name.keys().map(String::as_str));
                LoadError::Options(format!(
                    "`--default-prompt-name {name}` is not a prompt of the model; it has: {known}"
                ))
            })?,
        };
        Ok(Prompts { default: Some(default.clone()), ..named })
    }
}
