//! Ways to group tokens, and the words of a text with the labels that the logits of their tokens give them.

use crate::capabilities::softmax;
use crate::response::TokenLogits;
use std::str::FromStr;

/// The way in which tokens are grouped into entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// Not at all.
    #[default]
    None,
    /// Neighbours whose labels differ in `B-` and `I-` alone; a `B-` begins anew.
    Simple,
    /// The same of words, which have the label of their first token.
    First,
    /// The same of words, which have the label with the largest mean score over their tokens.
    Average,
    /// The same of words, which have the label of the token with the largest score.
    Max,
}

impl FromStr for Aggregation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "none" => Ok(Self::None),
            "simple" => Ok(Self::Simple),
            "first" => Ok(Self::First),
            "average" => Ok(Self::Average),
            "max" => Ok(Self::Max),
            other => Err(format!("`{other}` is not one of none, simple, first, average, max")),
        }
    }
}

impl Aggregation {
    /// Name of an entity with this label; the name of a group has no `B-` or `I-`.
    pub fn name_of(self, label: &str) -> &str {
        match self {
            Self::None => label,
            _ => label.split_once('-').map_or(label, |(_, kind)| kind),
        }
    }
}

/// A token, or the tokens of a word, as far as they have been looked at.
#[derive(Debug)]
pub(super) struct Word {
    aggregation: Aggregation,
    first: usize,
    last: usize,
    /// Token whose label the word has so far; unused for the mean.
    surest: usize,
    /// That label.
    label: usize,
    /// Its probability.
    chance: f32,
    /// Sums of the probabilities of each label, for the mean.
    sums: Vec<f32>,
}

/// A token, or the tokens of a word, with a label.
pub(super) struct Labelled {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) label: usize,
    pub(super) score: f32,
}

impl Word {
    /// A word that begins with a token, which is still to be added.
    pub(super) fn new(first: usize, aggregation: Aggregation) -> Self {
        Self { aggregation, first, last: first, surest: first, label: 0, chance: f32::NEG_INFINITY, sums: Vec::new() }
    }

    /// Adds the next token, which has these logits.
    pub(super) fn add(&mut self, token: usize, logits: &[f32]) {
        self.last = token;
        match self.aggregation {
            Aggregation::Average => {
                self.sums.resize(logits.len(), 0.0);
                self.sums.iter_mut().zip(softmax(logits)).for_each(|(sum, chance)| *sum += chance);
            }
            Aggregation::None | Aggregation::Simple | Aggregation::First if token > self.first => {}
            Aggregation::None | Aggregation::Simple | Aggregation::First | Aggregation::Max => {
                let (label, chance) = largest(&softmax(logits));
                if chance > self.chance {
                    (self.surest, self.label, self.chance) = (token, label, chance);
                }
            }
        }
    }

    /// The word with its label, and the label's logit or probability in the text.
    pub(super) fn labelled(mut self, text: &TokenLogits, raw: bool) -> Labelled {
        let Self { first, last, .. } = self;
        let logit = |token: usize, label: usize| text.row(token).get(label).copied().unwrap_or_default();
        let count = (last + 1 - first) as f32;
        let (label, score) = match self.aggregation {
            Aggregation::Average => {
                self.sums.iter_mut().for_each(|sum| *sum /= count);
                let (label, mean) = largest(&self.sums);
                let raw_mean = || (first..=last).map(|token| logit(token, label)).sum::<f32>() / count;
                (label, if raw { raw_mean() } else { mean })
            }
            _ if raw => (self.label, logit(self.surest, self.label)),
            _ => (self.label, self.chance),
        };
        Labelled { first, last, label, score }
    }
}

/// The first of the largest values, and its index.
fn largest(values: &[f32]) -> (usize, f32) {
    values.iter().copied().enumerate().fold(
        (0, f32::NEG_INFINITY),
        |best, (index, value)| {
            if value > best.1 { (index, value) } else { best }
        },
    )
}
