//! Outputs of a model: what a request asks for, and the values that answer it. Each output has a file with its shape and its cost.

mod embedding;
mod logits;
mod spec;
pub(crate) mod submitted;
mod tokens;

pub(crate) use spec::{Rows, Spec};

use crate::capabilities::Capabilities;

/// The kinds of outputs, each with the file that describes it: one entry adds a kind to the enum, its list and its
/// specs.
macro_rules! outputs {
    ($($(#[$doc:meta])+ $kind:ident: $file:ident,)+) => {
        /// An output that a model can make of a sequence. Its values are neither normalised nor activated.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum OutputKind {
            $($(#[$doc])+ $kind,)+
        }

        impl OutputKind {
            /// All outputs.
            pub(crate) const ALL: [Self; [$(Self::$kind),+].len()] = [$(Self::$kind),+];

            pub(crate) fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$kind => &$file::SPEC,)+
                }
            }
        }
    };
}

outputs! {
    /// Dense embedding: `[1, dim]`, pooled, after the model's dense layers if it has any.
    Embedding: embedding,
    /// Logits of the model's head: `[1, num_labels]` for a classifier, `[1, 2]` for a yes/no reranker, no before yes.
    Logits: logits,
    /// Final hidden states of all tokens: `[tokens, token_dim]`; for a token classifier their logits, `[tokens, num_labels]`.
    Tokens: tokens,
}

impl OutputKind {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Set of outputs that a request asks for, and the tokens that are not pooled. The engine decides it when it checks the request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outputs {
    kinds: u8,
    /// Tokens at the beginning, of a prompt, that are not pooled.
    skipped: u32,
}

impl Outputs {
    /// Only the dense embedding.
    pub const EMBEDDING: Self = Self::of(OutputKind::Embedding);
    /// Only the head's logits.
    pub const LOGITS: Self = Self::of(OutputKind::Logits);
    /// Only the states of the tokens.
    pub const TOKENS: Self = Self::of(OutputKind::Tokens);

    const fn of(kind: OutputKind) -> Self {
        Self { kinds: kind.bit(), skipped: 0 }
    }

    /// The same outputs, with embeddings that do not pool the first `skipped` tokens.
    #[must_use]
    pub const fn skipping(self, skipped: u32) -> Self {
        Self { skipped, ..self }
    }

    /// Tokens at the beginning that are not pooled.
    pub const fn skipped(self) -> u32 {
        self.skipped
    }

    /// The output of a model's head.
    pub fn of_head(capabilities: &Capabilities) -> Self {
        match (&capabilities.embed, &capabilities.classify_tokens) {
            (Some(_), _) => Self::EMBEDDING,
            (None, Some(_)) => Self::TOKENS,
            (None, None) => Self::LOGITS,
        }
    }

    /// The outputs of either set.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { kinds: self.kinds | other.kinds, ..self }
    }

    /// True for an output of the set.
    pub const fn contains(self, kind: OutputKind) -> bool {
        self.kinds & kind.bit() != 0
    }

    /// The outputs, always in the same order.
    pub fn kinds(self) -> impl Iterator<Item = OutputKind> {
        OutputKind::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }

    /// True if an output needs the final states of all tokens.
    pub fn needs_all_tokens(self) -> bool {
        self.kinds().any(|kind| kind.spec().rows == Rows::Token)
    }

    /// True if the prompts and tasks of the embedding model apply, instead of the classifier's prompts.
    pub(crate) fn embed(self) -> bool {
        self.kinds().any(|kind| kind.spec().embeds)
    }
}

impl std::fmt::Debug for Outputs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.kinds().map(|kind| format!("{kind:?}")).collect();
        formatter.write_str(&names.join(" and "))
    }
}

/// Values of an output: rows of `dim`, one after another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    /// The rows, flat.
    pub data: Vec<f32>,
    /// Values in a row.
    pub dim: usize,
}

/// Answer for one sequence: the values of each output that it asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output([Option<Values>; OutputKind::ALL.len()]);

impl Output {
    /// The answer with a single output, of rows of `dim` values.
    pub fn of(kind: OutputKind, data: Vec<f32>, dim: usize) -> Self {
        Self::from_iter([(kind, Values { data, dim })])
    }

    /// True if it has the rows of exactly the wanted outputs, for a sequence of `tokens` tokens.
    pub(crate) fn answers(&self, wanted: Outputs, tokens: usize) -> bool {
        let fits = |kind: OutputKind| match self.get(kind) {
            Some(Values { data, dim }) => {
                wanted.contains(kind) && *dim > 0 && data.len() == dim * kind.spec().rows.count(tokens)
            }
            None => !wanted.contains(kind),
        };
        OutputKind::ALL.into_iter().all(fits)
    }

    /// Values of an output.
    pub fn get(&self, kind: OutputKind) -> Option<&Values> {
        self.0[kind as usize].as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, kind: OutputKind) -> Option<&mut Values> {
        self.0[kind as usize].as_mut()
    }

    /// The same, taken out.
    pub fn take(&mut self, kind: OutputKind) -> Option<Values> {
        self.0[kind as usize].take()
    }

    /// Values of all outputs.
    pub fn all(&self) -> impl Iterator<Item = &Values> {
        self.0.iter().flatten()
    }

    /// The same, to be changed.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Values> {
        self.0.iter_mut().flatten()
    }
}

impl FromIterator<(OutputKind, Values)> for Output {
    fn from_iter<T: IntoIterator<Item = (OutputKind, Values)>>(outputs: T) -> Self {
        let mut output = Self::default();
        outputs.into_iter().for_each(|(kind, values)| output.0[kind as usize] = Some(values));
        output
    }
}

#[cfg(test)]
#[path = "../tests/outputs.rs"]
mod tests;
