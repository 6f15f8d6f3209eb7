//! Prompted rerankers: language models whose score is the logits of one or two tokens after the prompt.

use super::Evidence;
use super::head::{HeadSource, RerankToken};
use super::left_out;
use crate::checkpoint::sentence_transformers::config_of;
use crate::checkpoint::sentence_transformers::logit_score::score_tokens;
use crate::checkpoint::sentence_transformers::module_list::ModuleList;
use crate::checkpoint::tokenizer::tokenizer_json;
use crate::error::LoadError;
use crate::options::ModelSource;
use crate::source::tokenizer_files::CHAT_TEMPLATE;
use prefold_core::{Capabilities, Prompts, RerankRecipe, Task};
use tokenizers::{Tokenizer, TruncationDirection};

/// Parts of Qwen3-Reranker's prompt that its chat template has.
const QWEN3_PROMPT: [&str; 5] = [
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided",
    "<Instruct>",
    "<Query>",
    "<Document>",
    "</think>",
];

impl Evidence<'_> {
    /// Capabilities and head of a prompted reranker.
    ///
    /// # Errors
    /// The model has no language model head, the tokenizer lacks a token of the prompt, or the model was trained with another prompt.
    pub(super) fn rerank(&self) -> Result<(Capabilities, HeadSource), LoadError> {
        // Refuses the name of a default prompt: the recipe's prompt is the only one.
        self.prompts(Prompts::default())?;
        self.check_language_model()?;
        let mut recipe = self.recipe()?;
        let other_prompt = self.other_prompt(&recipe);
        let texts = recipe.negative.into_iter().chain([recipe.positive]);
        let (mut tokens, mut warning) = (Vec::new(), None);
        // A check of configuration alone has no tokens to look up.
        if let Some(tokenizer) = &self.metadata.tokenizer {
            tokens = texts.map(|text| single_token(tokenizer, text)).collect::<Result<_, _>>()?;
            warning = self.check_score_tokens(&tokens)?;
        }
        // A cross-encoder's prompt is the instruction of its chat template.
        let own = self.metadata.cross_encoder_prompts().default.filter(|text| !text.is_empty());
        let own = own.filter(|_| recipe.template.default_instruction.is_some());
        if let Some(instruction) = self.options.rerank_instruction.clone().or(own) {
            recipe.template.default_instruction = Some(instruction);
        }
        let mut capabilities = Capabilities::prompted_reranker(recipe.template, self.metadata.max_input_length);
        let other_prompt = other_prompt.or(self.other_chat_template()?);
        let warnings = warning
            .into_iter()
            .chain(other_prompt)
            .chain(self.other_truncation())
            .chain(self.metadata.ignored_prompt());
        capabilities.warnings.extend(warnings);
        Ok((capabilities, HeadSource::TokenRows(tokens)))
    }

    /// A warning if a GGUF file has another prompt than the built-in recipe in use.
    fn other_prompt(&self, recipe: &RerankRecipe) -> Option<String> {
        let prompt = self.metadata.gguf.rerank_prompt.as_ref().filter(|_| self.options.rerank_recipe.is_none())?;
        let template = &recipe.template;
        let text = [template.before.concat(), template.document.clone(), template.after.concat()].concat();
        let instruction = template.default_instruction.as_deref().unwrap_or_default();
        (text.replace("{instruction}", instruction) != *prompt).then(|| {
            "`tokenizer.chat_template.rerank` is not the prompt in use, that of Qwen3-Reranker; give --rerank-recipe with the \
             file's prompt"
                .to_owned()
        })
    }

    /// A warning if the chat template, with which sentence-transformers writes the prompts of a LogitScore model, is not Qwen3-Reranker's.
    ///
    /// # Errors
    /// A file cannot be read.
    fn other_chat_template(&self) -> Result<Option<String>, LoadError> {
        // A check of configuration alone has neither.
        let is_asked =
            self.options.rerank_recipe.is_none() && self.metadata.json.is_some() && self.metadata.tokenizer.is_some();
        let modules = ModuleList::read(self.files).unwrap_or_default();
        if !is_asked || modules.logit_score.is_none() || self.files.is_remote() {
            return Ok(None);
        }
        let template = self.chat_template()?;
        let problem = match template {
            Some(template) if is_qwen3_reranker(&template) => return Ok(None),
            Some(_) => "is another one than Qwen3-Reranker's",
            None => "is missing, without which sentence-transformers joins query and document",
        };
        Ok(Some(format!(
            "the model's chat template {problem}; pairs have Qwen3-Reranker's prompt, so scores may be wrong: give --rerank-recipe with the \
             model's own prompt"
        )))
    }

    /// The chat template in a file of its own or in the tokenizer's configuration.
    ///
    /// # Errors
    /// A file cannot be read.
    fn chat_template(&self) -> Result<Option<String>, LoadError> {
        if let Some(bytes) = self.files.read(CHAT_TEMPLATE)? {
            return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
        }
        let config = self.files.json(tokenizer_json::CONFIG)?;
        Ok(config.and_then(|config| Some(config.get("chat_template")?.as_str()?.to_owned())))
    }

    /// A warning if a LogitScore model's documents are truncated on the left: sentence-transformers truncates the whole prompt on that
    /// side.
    fn other_truncation(&self) -> Option<String> {
        let truncation = self.metadata.tokenizer.as_ref()?.get_truncation()?;
        let modules = ModuleList::read(self.files).unwrap_or_default();
        (truncation.direction == TruncationDirection::Left && modules.logit_score.is_some()).then(|| {
            "`truncation_side`: \"left\" applies to documents: where a pair is too long, the beginning of its document is dropped, in \
             sentence-transformers the beginning of the whole prompt, with instruction and query"
                .to_owned()
        })
    }

    /// Checks that the model can answer a prompt.
    ///
    /// # Errors
    /// It has no causal mask, or the files have no language model head.
    fn check_language_model(&self) -> Result<(), LoadError> {
        const HEAD: &str = "lm_head.weight";
        let config = &self.metadata.config;
        let lacks_head = !config.tie_word_embeddings && self.weights.is_some_and(|weights| !weights.contains(HEAD));
        let help = "the flag is for checkpoints saved with it";
        let problem: &str = match config.is_language_model() {
            false => "attends in both directions, so it cannot answer a prompt; the flag is for causal language models",
            true if lacks_head => &format!(
                "has no language model head (tensor `{}`) to answer a prompt; {help}",
                self.name_in_files(HEAD)
            ),
            true => return Ok(()),
        };
        let asked = if self.options.rerank_recipe.is_some() { "--rerank-recipe" } else { "--task rerank" };
        let help = "without the flag, an embedding model reranks by the cosine of query and document";
        Err(LoadError::Options(format!("{asked}: {} {problem}; {help}", self.files.display_name())))
    }

    /// Compares the recipe's tokens with a LogitScore module's; returns a warning if the options override the modules.
    ///
    /// # Errors
    /// The tokens differ: the checkpoint was trained with another prompt.
    fn check_score_tokens(&self, expected: &[RerankToken]) -> Result<Option<String>, LoadError> {
        let list = match ModuleList::read(self.files) {
            Ok(list) => list,
            Err(error) => {
                let reason = "the options say what the model is for";
                return Ok(Some(left_out::warning(self.files, reason, &error)));
            }
        };
        let Some(folder) = list.logit_score else { return Ok(None) };
        let found = score_tokens(self.files, &folder)?;
        let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
        if found == expected {
            return Ok(None);
        }
        let id = |id: u32| match self.metadata.tokenizer.as_ref().and_then(|tokenizer| tokenizer.id_to_token(id)) {
            Some(token) => format!("{id} ({token:?})"),
            None => format!("{id}, which tokenizer.json does not have,"),
        };
        let shown = |ids: &[u32]| ids.iter().rev().map(|&i| id(i)).collect::<Vec<_>>().join(" against ");
        let what = format!("a score of token {}", shown(&found));
        let supported =
            format!("the recipe in use has {}; give --rerank-recipe with the model's own prompt", shown(&expected));
        Err(LoadError::unsupported(config_of(&folder), what, supported))
    }

    /// Prompt and tokens of a yes/no reranker: those in the options, otherwise Qwen3-Reranker's.
    ///
    /// # Errors
    /// The tokenizer lacks a token of Qwen3-Reranker's prompt.
    fn recipe(&self) -> Result<RerankRecipe, LoadError> {
        match (&self.options.rerank_recipe, self.missing_token()) {
            (Some(recipe), _) => Ok(recipe.clone()),
            (None, None) => RerankRecipe::builtin(RerankRecipe::QWEN3).map_err(LoadError::Options),
            (None, Some(token)) => {
                let what = format!("Qwen3-Reranker's prompt without the token \"{token}\"");
                let supported = "give --rerank-recipe for another yes/no reranker; an embedding model reranks by the cosine \
                                 of query and document without --task";
                Err(LoadError::unsupported("tokenizer.json", what, supported))
            }
        }
    }

    /// A token of Qwen3-Reranker's prompt that the tokenizer lacks.
    pub(super) fn missing_token(&self) -> Option<&'static str> {
        let tokenizer = self.metadata.tokenizer.as_ref()?;
        let special = |token: &str| {
            let added = tokenizer.get_added_tokens_decoder();
            added.values().any(|added| added.special && added.content == token)
        };
        let words = ["yes", "no"].into_iter().find(|word| tokenizer.token_to_id(word).is_none());
        words.or_else(|| ["<|im_start|>", "<|im_end|>"].into_iter().find(|token| !special(token)))
    }

    /// A warning that scores may mean nothing, because neither files nor options state that the model was trained with the prompt in use.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn doubt(&self, task: Task, has_score_head: bool) -> Result<Option<String>, LoadError> {
        if task != Task::Rerank || has_score_head || self.options.rerank_recipe.is_some() {
            return Ok(None);
        }
        let modules = ModuleList::read(self.files).unwrap_or_default();
        if self.metadata.gguf.pooling.is_some() || modules.pooling.is_some() {
            let problem = "--task rerank applies Qwen3-Reranker's prompt to an embedding model, which may not have been trained \
                           with it; without --task, rerank requests get the cosine of query and document";
            return Ok(Some(problem.to_owned()));
        }
        let is_said = self.options.task.is_some()
            || modules.logit_score.is_some()
            || self.metadata.json.is_none()
            || names_qwen3_reranker(&self.options.source)
            || self.chat_template()?.is_some_and(|template| is_qwen3_reranker(&template));
        Ok((!is_said).then(|| {
            "a Qwen3 language model without modules is assumed to be a Qwen3-Reranker; --task rerank confirms this; for another \
             reranker, give --rerank-recipe; for embeddings, --pooling"
                .to_owned()
        }))
    }
}

/// `true` for a chat template that has Qwen3-Reranker's prompt.
fn is_qwen3_reranker(template: &str) -> bool {
    QWEN3_PROMPT.iter().all(|part| template.contains(part))
}

/// `true` if the id on the hub, the folder's own name, or the name of the hub's folder in a cache contains
/// `Qwen3-Reranker`.
fn names_qwen3_reranker(source: &ModelSource) -> bool {
    let has_name = |name: &str| name.to_ascii_lowercase().contains("qwen3-reranker");
    match source {
        ModelSource::Hub(model) => has_name(&model.id),
        ModelSource::Path(path) => {
            let mut names = path.iter().filter_map(|name| name.to_str()).rev().enumerate();
            names.any(|(depth, name)| (depth == 0 || name.starts_with("models--")) && has_name(name))
        }
        ModelSource::Embedded(_) => false,
    }
}

/// The token of a text that must be a single token.
fn single_token(tokenizer: &Tokenizer, text: String) -> Result<RerankToken, LoadError> {
    let encoding = tokenizer.encode_fast(text.as_str(), false);
    let encoding = encoding.map_err(|error| LoadError::invalid("tokenizer.json", error.to_string()))?;
    match encoding.get_ids() {
        &[id] => Ok(RerankToken { text, id }),
        ids => {
            let problem = format!("{text:?} of the rerank recipe is {} tokens, but must be one", ids.len());
            Err(LoadError::invalid("tokenizer.json", problem))
        }
    }
}
