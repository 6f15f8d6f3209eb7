//! Tasks: names of the answers that a model can give.

use std::fmt;
use std::str::FromStr;

/// One of the answers that a model can give: what `--task` names and a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// Vectors of texts.
    Embed,
    /// Scores of documents against a query.
    Rerank,
    /// Labels of texts and of pairs.
    Classify,
    /// Labels of the tokens of texts.
    ClassifyTokens,
}

impl Task {
    /// All tasks, in the order in which a model prefers them as its own.
    pub const ALL: [Self; 4] = [Self::Embed, Self::Rerank, Self::Classify, Self::ClassifyTokens];

    /// The name of the flag's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::Rerank => "rerank",
            Self::Classify => "classify",
            Self::ClassifyTokens => "classify-tokens",
        }
    }

    /// The noun, for messages.
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
