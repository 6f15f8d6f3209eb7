//! What a checkpoint is for.

use crate::LoadError;
use crate::checkpoint::{Purpose, RerankToken};
use crate::description::Description;
use crate::files::ModelFiles;
use crate::json::{Fields, shown};
use crate::modules::{self, ModuleList, PoolingConfig};
use crate::options::{LoadOptions, Task};
use prefold_core::{Pooling, RerankRecipe};

/// More labels than any classifier has.
const MAX_LABELS: usize = 1 << 16;

/// What there is to decide by.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) options: &'a LoadOptions,
    pub(crate) files: &'a ModelFiles,
    pub(crate) description: &'a Description,
    /// The weights have a sequence classifier's.
    pub(crate) has_score_head: bool,
    /// The pooling that a GGUF file asks for.
    pub(crate) gguf_pooling: Option<Pooling>,
    /// A GGUF file says that it is a reranker's.
    pub(crate) gguf_ranks: bool,
}

impl Evidence<'_> {
    /// Decides. `--task` overrules the checkpoint.
    ///
    /// # Errors
    /// The checkpoint cannot do what the options ask, does not say what it is for, or needs something
    /// that is not supported.
    pub(crate) fn purpose(&self) -> Result<Purpose, LoadError> {
        let task = self.task()?.ok_or_else(|| {
            let problem = "does not say what it is for: give --pooling (cls, mean, last-token) for embeddings, \
                           --task, or --rerank-recipe";
            LoadError::Options(format!("{} {problem}", self.files.description()))
        })?;
        let has_recipe = self.options.rerank_recipe.is_some();
        if has_recipe && task != Task::Rerank {
            return Err(LoadError::Options(format!("--rerank-recipe is for reranking, the task is {task}")));
        }
        if has_recipe && self.has_score_head {
            let problem = "is a sequence classifier, whose own head scores; --rerank-recipe is for language models";
            return Err(LoadError::Options(format!("{} {problem}", self.files.description())));
        }
        if task != Task::Embed {
            let embeds_only =
                [("--pooling", self.options.pooling.is_some()), ("--dense-path", self.options.dense_path.is_some())];
            if let Some((flag, _)) = embeds_only.iter().find(|(_, given)| *given) {
                let problem = format!("{flag} is for embeddings, the task is {task}; --task embed overrules this");
                return Err(LoadError::Options(problem));
            }
        }
        match task {
            Task::Embed => self.embed(),
            Task::Classify => self.classify(),
            Task::Rerank if self.has_score_head => match self.classify()? {
                Purpose::Classify { labels } if labels.len() != 1 => {
                    let problem = format!("a classifier with {} labels cannot rerank, only one with 1", labels.len());
                    Err(LoadError::Options(problem))
                }
                classifier => Ok(classifier),
            },
            Task::Rerank => self.rerank(),
        }
    }

    /// What the options say that the checkpoint is for, or else the files; `None` when neither does.
    ///
    /// # Errors
    /// The files are malformed or need something that is not supported.
    pub(crate) fn task(&self) -> Result<Option<Task>, LoadError> {
        match (self.options.task, &self.options.rerank_recipe) {
            (Some(task), _) => Ok(Some(task)),
            (None, Some(_)) => Ok(Some(Task::Rerank)),
            (None, None) => self.detect(),
        }
    }

    /// Whether the config names a sequence classifier.
    ///
    /// # Errors
    /// The config is malformed.
    pub(crate) fn is_classifier(&self) -> Result<bool, LoadError> {
        Ok(self.architectures()?.iter().any(|name| name.ends_with("ForSequenceClassification")))
    }

    /// None in a GGUF file.
    fn architectures(&self) -> Result<Vec<String>, LoadError> {
        match &self.description.json {
            Some(json) => Fields::new("config.json", json)?.or("architectures", vec![]),
            None => Ok(vec![]),
        }
    }

    fn detect(&self) -> Result<Option<Task>, LoadError> {
        if self.is_classifier()? {
            return Ok(Some(Task::Classify));
        }
        if self.options.pooling.is_some() || self.gguf_pooling.is_some() {
            return Ok(Some(Task::Embed));
        }
        let modules = ModuleList::read(self.files)?;
        if modules.pooling.is_some() {
            return Ok(Some(Task::Embed));
        }
        let qwen3 = match &self.description.json {
            Some(_) => self.architectures()?.iter().any(|name| name == "Qwen3ForCausalLM"),
            None => self.description.config.model_type == "qwen3",
        };
        if modules.logit_score.is_some() {
            return match qwen3 {
                true => Ok(Some(Task::Rerank)),
                false => {
                    let problem = "a reranker whose prompt is not known; give --rerank-recipe";
                    Err(LoadError::Options(format!("{} is {problem}", self.files.description())))
                }
            };
        }
        if !qwen3 || self.missing_token().is_some() {
            return Ok(None);
        }
        if self.description.json.is_none() {
            return Ok(self.gguf_ranks.then_some(Task::Rerank));
        }
        let model = self.files.description();
        if let Some(class) = self.custom_class()? {
            tracing::warn!("{model} has a class of its own ({class}), so what it is for is not guessed");
            return Ok(None);
        }
        tracing::warn!(
            "{model} is a Qwen3 language model without modules and is taken for a Qwen3-Reranker; to say so, give \
             --task rerank; for another reranker, --rerank-recipe; for embeddings, --pooling"
        );
        Ok(Some(Task::Rerank))
    }

    /// The checkpoint's own class of a model or config, which may compute or prompt in its own way.
    fn custom_class(&self) -> Result<Option<String>, LoadError> {
        let Some(json) = &self.description.json else { return Ok(None) };
        let Some(map) = Fields::new("config.json", json)?.object("auto_map")? else { return Ok(None) };
        let class = map.entries().find(|(key, _)| *key == "AutoConfig" || key.starts_with("AutoModel"));
        Ok(class.map(|(_, class)| shown(class)))
    }

    fn embed(&self) -> Result<Purpose, LoadError> {
        let given = self.options.pooling.or(self.gguf_pooling);
        // With --pooling, a file that lists modules which are not supported does not stand in the way.
        let mut list = match (ModuleList::read(self.files), self.options.pooling) {
            (Err(error), Some(_)) => {
                tracing::warn!("modules are left out because --pooling is given: {error}");
                ModuleList::default()
            }
            (list, _) => list?,
        };
        if let Some(folder) = &self.options.dense_path {
            list.replace_dense(folder)?;
        }
        let pooling = match (given, &list.pooling) {
            (Some(pooling), _) => PoolingConfig { pooling, include_prompt: true },
            (None, Some(folder)) => modules::pooling(self.files, folder, self.description.config.hidden_size)?,
            (None, None) => {
                let problem = format!("{} does not say how to pool: give --pooling", self.files.description());
                return Err(LoadError::Options(problem));
            }
        };
        // The last token's state is the same whether or not the prompt's own rows count.
        let prompted = self.description.prompts.by_name.values().any(|prompt| !prompt.is_empty());
        if !pooling.include_prompt && prompted && pooling.pooling != Pooling::LastToken {
            let what = "`include_prompt` false with prompts";
            return Err(LoadError::unsupported("the pooling module", what, "true, or last-token pooling"));
        }
        let mut width = self.description.config.hidden_size;
        let mut dense = Vec::with_capacity(list.dense.len());
        for folder in &list.dense {
            let module = modules::dense(self.files, folder, width)?;
            width = module.out_features;
            dense.push(module);
        }
        Ok(Purpose::Embed { pooling: pooling.pooling, dense })
    }

    fn rerank(&self) -> Result<Purpose, LoadError> {
        let recipe = self.recipe()?;
        let texts = recipe.negative.into_iter().chain([recipe.positive]);
        let tokens = texts.map(|text| self.single_token(text)).collect::<Result<Vec<_>, _>>()?;
        self.check_score_tokens(&tokens)?;
        Ok(Purpose::Rerank { template: recipe.template, tokens })
    }

    /// Compares the recipe's tokens with those that a LogitScore module has.
    ///
    /// # Errors
    /// They differ: the checkpoint was trained with another prompt.
    fn check_score_tokens(&self, expected: &[RerankToken]) -> Result<(), LoadError> {
        let list = ModuleList::read(self.files).unwrap_or_else(|error| {
            tracing::warn!("modules are left out because the options say what the model is for: {error}");
            ModuleList::default()
        });
        let Some(folder) = list.logit_score else { return Ok(()) };
        let tokens = modules::score_tokens(self.files, &folder)?;
        let found: Vec<u32> = tokens.negative.into_iter().chain([tokens.positive]).collect();
        let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
        if found == expected {
            return Ok(());
        }
        let id = |id: u32| match self.description.tokenizer.id_to_token(id) {
            Some(token) => format!("{id} ({token:?})"),
            None => format!("{id}, which tokenizer.json does not have,"),
        };
        let shown = |ids: &[u32]| ids.iter().rev().map(|&i| id(i)).collect::<Vec<_>>().join(" against ");
        let what = format!("a score of token {}", shown(&found));
        let supported =
            format!("the recipe in use has {}; give --rerank-recipe with the model's own prompt", shown(&expected));
        Err(LoadError::unsupported(modules::config_of(&folder), what, supported))
    }

    /// The prompt and the tokens of a yes/no reranker: what the options give, or else Qwen3-Reranker's.
    ///
    /// # Errors
    /// The tokenizer lacks what Qwen3-Reranker's prompt needs.
    pub(crate) fn recipe(&self) -> Result<RerankRecipe, LoadError> {
        match (&self.options.rerank_recipe, self.missing_token()) {
            (Some(recipe), _) => Ok(recipe.clone()),
            (None, None) => RerankRecipe::builtin(RerankRecipe::QWEN3).map_err(LoadError::Options),
            (None, Some(token)) => {
                let what = format!("Qwen3-Reranker's prompt without the token \"{token}\"");
                let supported = "give --rerank-recipe for another yes/no reranker";
                Err(LoadError::unsupported("tokenizer.json", what, supported))
            }
        }
    }

    /// The one token that a text is.
    fn single_token(&self, text: String) -> Result<RerankToken, LoadError> {
        let encoding = self.description.tokenizer.encode_fast(text.as_str(), false);
        let encoding = encoding.map_err(|error| LoadError::invalid("tokenizer.json", error.to_string()))?;
        match encoding.get_ids() {
            &[id] => Ok(RerankToken { text, id }),
            ids => {
                let problem = format!("{text:?} of the rerank recipe is {} tokens, it must be one", ids.len());
                Err(LoadError::invalid("tokenizer.json", problem))
            }
        }
    }

    /// A token that Qwen3-Reranker's prompt needs and the tokenizer lacks.
    fn missing_token(&self) -> Option<&'static str> {
        let special = |token: &str| {
            let added = self.description.tokenizer.get_added_tokens_decoder();
            added.values().any(|added| added.special && added.content == token)
        };
        let words = ["yes", "no"].into_iter().find(|word| self.description.tokenizer.token_to_id(word).is_none());
        words.or_else(|| ["<|im_start|>", "<|im_end|>"].into_iter().find(|token| !special(token)))
    }

    fn classify(&self) -> Result<Purpose, LoadError> {
        let Some(json) = &self.description.json else {
            return Err(LoadError::unsupported(self.files.description(), "a classifier in a GGUF file", "safetensors"));
        };
        Ok(Purpose::Classify { labels: labels(&Fields::new("config.json", json)?)? })
    }
}

/// The labels of a classifier by index.
fn labels(fields: &Fields<'_>) -> Result<Vec<String>, LoadError> {
    let num_labels = fields.optional::<usize>("num_labels")?;
    let Some(names) = fields.object("id2label")? else {
        // Hugging Face leaves `id2label` out when it is the default: two labels.
        return match num_labels.unwrap_or(2) {
            n @ 1..=MAX_LABELS => Ok((0..n).map(|i| format!("LABEL_{i}")).collect()),
            n => Err(fields.problem("num_labels", &format!("must be from 1 to {MAX_LABELS}, it is {n}"))),
        };
    };
    let count = names.entries().count();
    if count == 0 || num_labels.is_some_and(|n| n != count) {
        let problem = format!("has {count} labels, `num_labels` is {}", num_labels.map_or(0, |n| n));
        return Err(fields.problem("id2label", &problem));
    }
    (0..count).map(|i| names.required(&i.to_string())).collect()
}
