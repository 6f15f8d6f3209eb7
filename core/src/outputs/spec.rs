//! Description of an output.

use crate::capabilities::Capabilities;

/// Description of an output: all that the engine needs to know to admit, run and check it.
#[derive(Debug)]
pub(crate) struct Spec {
    /// Owner of a row.
    pub(crate) rows: Rows,
    /// Values in a row.
    pub(crate) dim: fn(&Capabilities) -> usize,
    /// Labels that are written for a row; 0 if the values themselves are.
    pub(crate) labels: fn(&Capabilities) -> usize,
    /// True if the prompts and tasks of the embedding model apply, instead of the classifier's prompts.
    pub(crate) embeds: bool,
}

/// Owner of a row of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// One row for a sequence.
    Sequence,
    /// A row for each token.
    Token,
}

impl Rows {
    /// Number of rows for a sequence.
    pub(crate) fn count(self, tokens: usize) -> usize {
        match self {
            Self::Sequence => 1,
            Self::Token => tokens,
        }
    }

    /// Owner's name in messages.
    pub(crate) fn owner(self) -> &'static str {
        match self {
            Self::Sequence => "input",
            Self::Token => "token",
        }
    }
}
