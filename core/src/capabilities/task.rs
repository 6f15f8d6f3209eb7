//! Tasks of models.

use std::fmt;
use std::str::FromStr;

/// Task of a model, which `--task` names and a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// Embeddings of texts.
    Embed,
    /// Scores of documents against a query.
    Rerank,
    /// Labels of texts and of pairs.
    Classify,
    /// Labels of the tokens of texts.
    ClassifyTokens,
}

impl Task {
    /// All tasks. The first one that a model supports is its main task.
    pub const ALL: [Self; 4] = [Self::Embed, Self::Rerank, Self::Classify, Self::ClassifyTokens];

    /// Value of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::Rerank => "rerank",
            Self::Classify => "classify",
            Self::ClassifyTokens => "classify-tokens",
        }
    }

    /// Noun for messages.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Embed => "embedding",
            Self::Rerank => "reranking",
            Self::Classify => "classification",
            Self::ClassifyTokens => "token classification",
        }
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::as_str).join(", ");
        let task = Self::ALL.into_iter().find(|task| task.as_str() == s);
        task.ok_or_else(|| format!("task `{s}` is not known ({})", names()))
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
