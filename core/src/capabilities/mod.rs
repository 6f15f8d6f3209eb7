//! Capabilities of a model: the answers that it can give, and the properties of each that routes need.
//!
//! They are built once, when the checkpoint is read. Routes, `/info`, errors, the log and tools all read them.

mod logit_activation;
mod recipe;
mod task;
mod template;
#[cfg(test)]
mod tests;

pub use logit_activation::{LogitActivation, sigmoid, softmax};
pub use recipe::RerankRecipe;
pub use task::Task;
pub use template::RerankTemplate;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The set of answers that a model can give.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capabilities {
    /// Vectors of texts and of their tokens.
    pub embed: Option<Embed>,
    /// Scores of documents against a query.
    pub rerank: Option<Rerank>,
    /// Labels of texts and of pairs.
    pub classify: Option<Classify>,
    /// Labels of the tokens of texts.
    pub classify_tokens: Option<ClassifyTokens>,
    /// The longest input of any answer, in tokens.
    pub max_input_length: usize,
    /// Reasons why its answers, or the device, may not be what the operator expects, as sentences.
    pub warnings: Vec<String>,
}

/// Embedding of texts. The vectors' similarity is their cosine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embed {
    /// Width of a text's vector.
    pub dim: usize,
    /// Default for a request's `dimensions`, from 1 to `dim`; all values when absent.
    pub truncate_dim: Option<usize>,
    /// Width of a token's final state; the largest of several sub-models.
    pub token_dim: usize,
    /// Pooling modes, usually one; the vectors of several are concatenated.
    pub pooling: Vec<Pooling>,
    /// Prompts for texts.
    pub prompts: Prompts,
    /// Tasks that a request may choose, in the order of their numbers; empty for most models.
    pub tasks: Vec<TaskProfile>,
    /// True if the model's own modules scale the vectors of texts without a task to unit length.
    pub normalizes: bool,
}

impl Embed {
    /// Values of a vector for a request without `dimensions`.
    pub fn default_dim(&self) -> usize {
        self.truncate_dim.unwrap_or(self.dim)
    }

    /// The tasks' names.
    pub fn task_names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(|profile| profile.task.as_str())
    }

    /// `true` if the model's own modules scale the vectors of a task to unit length.
    pub(crate) fn normalizes(&self, task: Option<&str>) -> bool {
        let profile = task.and_then(|task| self.tasks.iter().find(|profile| profile.task == task));
        profile.map_or(self.normalizes, |profile| profile.normalizes)
    }
}

/// Settings of a model for texts of one task: adapter, sub-model, length, prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskProfile {
    /// The task by which a request chooses it.
    pub task: String,
    /// Prompt that stands before a text of this task, unless the request chooses one; it may be empty.
    pub instruction: String,
    /// Maximum tokens of a text of this task; the sub-model's limit when absent.
    pub max_input_length: Option<usize>,
    /// Index of the [sub-model](crate::ModelInfo::sub_models) for texts of this task.
    pub sub_model: usize,
    /// As [`Prompts::excluded`], for texts of this task.
    pub excludes_prompts: bool,
    /// As [`Embed::normalizes`], for texts of this task.
    pub normalizes: bool,
}

/// Method of scoring a document against a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Rerank {
    /// Cosine of the two embeddings.
    Cosine,
    /// Logits after a prompt with both: the logit of one token, or the difference between the logits of two.
    Prompt(RerankTemplate),
    /// The single logit of a classifier for the pair.
    Pair,
}

impl Rerank {
    /// The meaning of a score, as `/info` names it.
    pub fn score_meaning(&self) -> &'static str {
        match self {
            Self::Cosine => "cosine_similarity",
            Self::Prompt(_) | Self::Pair => "probability",
        }
    }
}

/// Classification of texts and of pairs. A score is a label's logit or probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Classify {
    /// Names by index.
    pub labels: Vec<String>,
    /// Prompts for texts and for the first text of a pair.
    pub prompts: Prompts,
    /// Function that turns the logits of an input into its scores.
    pub activation: LogitActivation,
    /// Function that turns the single logit of a pair into the score that the model was trained for, for `/v1/score`; `/rerank`
    /// always gives a probability.
    pub pair_activation: LogitActivation,
}

impl Classify {
    /// A classifier that specifies only its labels: sigmoid for a single label, softmax for several.
    pub fn of_labels(labels: Vec<String>, prompts: Prompts) -> Self {
        let activation = if labels.len() == 1 { LogitActivation::Sigmoid } else { LogitActivation::Softmax };
        Self { labels, prompts, activation, pair_activation: LogitActivation::Sigmoid }
    }
}

/// Token classification. Scores are softmax probabilities over the labels of a token, or the logits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassifyTokens {
    /// Names by index.
    pub labels: Vec<String>,
    /// Indices in the order of the names; the last index for equal names.
    pub by_name: Vec<u32>,
}

impl ClassifyTokens {
    /// A classifier with these labels.
    fn new(labels: Vec<String>) -> Self {
        let by_name: BTreeMap<&str, u32> = labels.iter().map(String::as_str).zip(0..).collect();
        Self { by_name: by_name.into_values().collect(), labels }
    }
}

/// Prompts of a model, as its `config_sentence_transformers.json` names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts {
    /// Text by name.
    pub by_name: BTreeMap<String, String>,
    /// The prompt put before every text when a request names none.
    pub default: Option<String>,
    /// True if the model's pooling excludes the tokens of a prompt.
    pub excluded: bool,
}

/// Pooling of token states into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The last token's state.
    LastToken,
    /// The mean over all tokens.
    Mean,
    /// The first token's state.
    Cls,
    /// The largest value of each component.
    Max,
    /// The sum over all tokens divided by the root of their number.
    MeanSqrtLen,
    /// The mean over all tokens, the first with weight 1, the second with weight 2 and so on.
    WeightedMean,
}

/// The name in `/info`.
impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LastToken => "last_token",
            Self::Mean => "mean",
            Self::Cls => "cls",
            Self::Max => "max",
            Self::MeanSqrtLen => "mean_sqrt_len",
            Self::WeightedMean => "weighted_mean",
        })
    }
}

/// Parses the name that a flag or a file gives.
impl FromStr for Pooling {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "last-token" | "last_token" | "lasttoken" => Ok(Self::LastToken),
            "mean" => Ok(Self::Mean),
            "cls" => Ok(Self::Cls),
            "max" => Ok(Self::Max),
            "mean-sqrt-len" | "mean_sqrt_len" => Ok(Self::MeanSqrtLen),
            "weighted-mean" | "weighted_mean" | "weightedmean" => Ok(Self::WeightedMean),
            other => {
                let known = "cls, mean, last-token, max, mean-sqrt-len, weighted-mean";
                Err(format!("pooling `{other}` is not supported ({known})"))
            }
        }
    }
}

impl Capabilities {
    /// Capabilities of an embedding model, which also reranks by cosine.
    pub fn embedding(embed: Embed, max_input_length: usize) -> Self {
        Self { embed: Some(embed), rerank: Some(Rerank::Cosine), max_input_length, ..Self::default() }
    }

    /// Capabilities of a language model that reranks with a prompt.
    pub fn prompted_reranker(template: RerankTemplate, max_input_length: usize) -> Self {
        Self { rerank: Some(Rerank::Prompt(template)), max_input_length, ..Self::default() }
    }

    /// Capabilities of a sequence classifier, which also reranks if it has one label.
    pub fn classifier(classify: Classify, max_input_length: usize) -> Self {
        let rerank = (classify.labels.len() == 1).then_some(Rerank::Pair);
        Self { rerank, classify: Some(classify), max_input_length, ..Self::default() }
    }

    /// Capabilities of a token classifier.
    pub fn token_classifier(labels: Vec<String>, max_input_length: usize) -> Self {
        Self { classify_tokens: Some(ClassifyTokens::new(labels)), max_input_length, ..Self::default() }
    }

    /// The tasks of the model; the first is its own, which `POST /` answers.
    pub fn tasks(&self) -> impl Iterator<Item = Task> {
        let can = |task: &Task| match task {
            Task::Embed => self.embed.is_some(),
            Task::Rerank => self.rerank.is_some(),
            Task::Classify => self.classify.is_some(),
            Task::ClassifyTokens => self.classify_tokens.is_some(),
        };
        Task::ALL.into_iter().filter(can)
    }

    /// The prompt that a reranker fills in.
    pub fn rerank_template(&self) -> Option<&RerankTemplate> {
        match &self.rerank {
            Some(Rerank::Prompt(template)) => Some(template),
            Some(Rerank::Cosine | Rerank::Pair) | None => None,
        }
    }

    /// Prompts for texts that are shown token by token.
    pub fn text_prompts(&self) -> Option<&Prompts> {
        self.embed.as_ref().map(|embed| &embed.prompts).or(self.classify.as_ref().map(|classify| &classify.prompts))
    }

    /// Checks that the answers are possible and do not contradict each other.
    ///
    /// # Errors
    /// The fault, as the rest of a sentence about the model.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let labels = self.classify.as_ref().map(|classify| classify.labels.len());
        let token_labels = self.classify_tokens.as_ref().map(|classify| classify.labels.len());
        match (&self.embed, &self.rerank, labels) {
            _ if self.max_input_length == 0 => Err("takes no tokens"),
            _ if token_labels == Some(0) => Err("is a token classifier without labels"),
            (Some(_), ..) if token_labels.is_some() => Err("has two answers for each token"),
            (None, None, None) if token_labels.is_none() => Err("answers nothing"),
            (Some(Embed { dim: 0, .. } | Embed { token_dim: 0, .. }), ..) => Err("makes vectors without values"),
            (Some(embed), ..) if !(1..=embed.dim).contains(&embed.default_dim()) => {
                Err("truncates its vectors to more values than they have, or to none")
            }
            (Some(embed), ..) if embed.tasks.iter().any(|task| task.max_input_length == Some(0)) => {
                Err("takes no tokens of a task")
            }
            (.., Some(0)) => Err("is a classifier without labels"),
            (None, Some(Rerank::Cosine), _) => Err("reranks by cosine and makes no vectors"),
            (_, Some(Rerank::Pair), labels) if labels != Some(1) => Err("reranks pairs without a label for them"),
            _ => Ok(()),
        }
    }
}

/// The rest of a sentence about the model: "makes embeddings".
impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let embedder = self.embed.as_ref().map(|_| "makes embeddings".to_owned());
        let reranker = self.rerank_template().map(|_| "is a reranker".to_owned());
        let classifier = self.classify.as_ref().map(|classify| match classify.labels.len() {
            1 => "is a classifier with one label".to_owned(),
            labels => format!("is a classifier with {labels} labels"),
        });
        let tokens = self.classify_tokens.as_ref();
        let tokens = tokens.map(|tokens| format!("classifies tokens, with {} labels", tokens.labels.len()));
        let sentences: Vec<String> = [embedder, reranker, classifier, tokens].into_iter().flatten().collect();
        f.write_str(&sentences.join(" and "))
    }
}
