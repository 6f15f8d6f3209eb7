//! Entities: what a classifier of tokens finds in a text, token by token or grouped as the pipeline of Hugging Face transformers does.

use crate::response::{TextToken, TokenLogits};
use crate::{BackendError, Output, softmax};
use std::collections::HashSet;
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

/// A token with its label, or a group of tokens with theirs.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// The tokenizer's string of a token, the piece of the text that a group covers.
    pub token: String,
    /// The token's id; 0 for a group.
    pub token_id: u32,
    /// First character in the text.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
    /// The label; of a group without `B-` or `I-`.
    pub label: String,
    /// Its probability, or logit.
    pub score: f32,
    /// Scores of all labels of a token, in the model's order; empty for a group.
    pub scores: Vec<f32>,
}

/// A token, or the tokens of a word, with a label.
struct Labelled {
    first: usize,
    last: usize,
    label: usize,
    score: f32,
}

impl TokenLogits {
    /// The logits of a text's tokens, of those of a sequence whose rows are `kept`.
    pub(crate) fn new(
        text: String,
        tokens: Vec<TextToken>,
        kept: &[bool],
        labels: usize,
        output: Output,
    ) -> Result<Self, BackendError> {
        match output {
            Output::Tokens { data, dim } if dim == labels && data.len() == kept.len() * dim => {
                let rows = data.chunks_exact(dim.max(1)).zip(kept).filter(|(_, kept)| **kept);
                let logits = rows.flat_map(|(row, _)| row.iter().copied()).collect();
                Ok(Self { text, tokens, logits })
            }
            _ => Err(BackendError::Contract(format!("{labels} logits for each token were expected"))),
        }
    }

    /// The entities of the text, without those of the labels `ignored`, by the names of the `labels`. Probabilities choose them; their
    /// scores are logits if they are asked for `raw`.
    pub fn entities(
        &self,
        labels: &[String],
        aggregation: Aggregation,
        ignored: &HashSet<String>,
        raw: bool,
    ) -> Vec<Entity> {
        let rows = || self.logits.chunks_exact(labels.len().max(1));
        let chances: Vec<Vec<f32>> = rows().map(softmax).collect();
        let scores = if raw { rows().map(<[f32]>::to_vec).collect() } else { chances.clone() };
        let words = match aggregation {
            Aggregation::None | Aggregation::Simple => (0..scores.len()).map(|index| (index, index)).collect(),
            Aggregation::First | Aggregation::Average | Aggregation::Max => self.words(),
        };
        let labelled: Vec<_> = words.into_iter().map(|word| of_word(word, &chances, &scores, aggregation)).collect();
        let name = |label: usize| labels.get(label).map_or("", String::as_str);
        let entities = match aggregation {
            Aggregation::None => labelled.iter().map(|it| self.single(it, name(it.label), &scores)).collect(),
            _ => self.groups(&labelled, name),
        };
        let is_kept = |entity: &Entity| !ignored.contains(&entity.label);
        Vec::into_iter(entities).filter(is_kept).collect()
    }

    /// The words of the text: their first and last tokens.
    fn words(&self) -> Vec<(usize, usize)> {
        let mut words: Vec<(usize, usize)> = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            match words.last_mut() {
                Some((_, last)) if token.continues => *last = index,
                _ => words.push((index, index)),
            }
        }
        words
    }

    /// Neighbours of one kind as one entity each.
    fn groups<'l>(&self, labelled: &[Labelled], name: impl Fn(usize) -> &'l str) -> Vec<Entity> {
        let mut groups: Vec<(usize, usize)> = Vec::new();
        for index in 0..labelled.len() {
            let (begins, kind) = tag(name(labelled[index].label));
            match groups.last_mut() {
                Some((_, last)) if !begins && kind == tag(name(labelled[*last].label)).1 => *last = index,
                _ => groups.push((index, index)),
            }
        }
        let group = |(first, last): (usize, usize)| {
            let members = &labelled[first..=last];
            let sum: f64 = members.iter().map(|it| f64::from(it.score)).sum();
            let (start, end) = (self.tokens[members[0].first].start, self.tokens[labelled[last].last].end);
            let label = name(members[0].label);
            Entity {
                token: self.piece(start, end),
                token_id: 0,
                start,
                end,
                label: label.split_once('-').map_or(label, |(_, kind)| kind).to_owned(),
                score: (sum / members.len() as f64) as f32,
                scores: Vec::new(),
            }
        };
        groups.into_iter().map(group).collect()
    }

    fn single(&self, labelled: &Labelled, label: &str, scores: &[Vec<f32>]) -> Entity {
        let TextToken { id, ref token, start, end, .. } = self.tokens[labelled.first];
        Entity {
            token: token.clone(),
            token_id: id,
            start,
            end,
            label: label.to_owned(),
            score: labelled.score,
            scores: scores[labelled.first].clone(),
        }
    }

    /// Characters of the text.
    fn piece(&self, start: usize, end: usize) -> String {
        self.text.chars().skip(start).take(end.saturating_sub(start)).collect()
    }
}

/// A word with the label that the `chances` of its tokens give it, and its score among the `scores`.
fn of_word(
    (first, last): (usize, usize),
    chances: &[Vec<f32>],
    scores: &[Vec<f32>],
    aggregation: Aggregation,
) -> Labelled {
    let mean = |of: &[Vec<f32>], label: usize| {
        of[first..=last].iter().map(|it| it[label]).sum::<f32>() / (last + 1 - first) as f32
    };
    let (label, score) = match aggregation {
        Aggregation::Average => {
            let means: Vec<f32> = (0..chances[first].len()).map(|label| mean(chances, label)).collect();
            let label = largest(&means).0;
            (label, mean(scores, label))
        }
        Aggregation::Max => {
            let best: Vec<f32> = chances[first..=last].iter().map(|it| largest(it).1).collect();
            let surest = first + largest(&best).0;
            let label = largest(&chances[surest]).0;
            (label, scores[surest][label])
        }
        Aggregation::None | Aggregation::Simple | Aggregation::First => {
            let label = largest(&chances[first]).0;
            (label, scores[first][label])
        }
    };
    Labelled { first, last, label, score }
}

/// Whether a label begins an entity, and its kind.
fn tag(label: &str) -> (bool, &str) {
    match label.strip_prefix("B-") {
        Some(kind) => (true, kind),
        None => (false, label.strip_prefix("I-").unwrap_or(label)),
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

#[cfg(test)]
#[path = "../tests/entities.rs"]
mod tests;
