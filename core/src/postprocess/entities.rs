//! Entities that a token classifier finds in a text, token by token or grouped as in the pipeline of Hugging Face transformers.
//!
//! They are found one at a time, and each step reads one token's logits: a single text may have as many logits as a
//! whole answer.

use super::aggregation::{Aggregation, Labelled, Word};
use super::char_index::CharIndex;
use crate::response::TokenLogits;

/// A token or a group of tokens, with its label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entity {
    /// The first token.
    first: usize,
    /// The last token; the first, where tokens are not grouped.
    last: usize,
    /// Index of the label.
    pub label: usize,
    /// Its probability, or logit.
    pub score: f32,
}

/// Result of one step of the search for entities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// An entity.
    Found(Entity),
    /// The search goes on.
    Working,
    /// There are no more entities.
    Done,
}

/// Search for the entities of a text.
#[derive(Debug)]
pub struct Entities {
    text: TokenLogits,
    aggregation: Aggregation,
    /// Scores are logits. Probabilities choose the labels either way.
    raw: bool,
    /// The next token.
    next: usize,
    word: Option<Word>,
    group: Option<Group>,
    /// The characters of the text, once a piece of it is asked for.
    characters: Option<CharIndex>,
}

/// A group of words of one kind.
#[derive(Debug)]
struct Group {
    first: usize,
    last: usize,
    /// The label of the first word, which names the group.
    label: usize,
    /// The label of the last word, with which the next one is compared.
    last_label: usize,
    /// Sum of the words' scores.
    sum: f64,
    words: usize,
}

impl TokenLogits {
    /// Search for the entities of the text. Probabilities choose them; their scores are logits if `raw`.
    pub fn entities(self, aggregation: Aggregation, raw: bool) -> Entities {
        Entities { text: self, aggregation, raw, next: 0, word: None, group: None, characters: None }
    }
}

impl Entities {
    /// Continues to the next token or entity, at the work of a few values per label. `labels` are the labels' names.
    pub fn step(&mut self, labels: &[String]) -> Step {
        let Some(token) = self.text.tokens.get(self.next) else {
            return match self.word.take() {
                Some(word) => self.close(word, labels),
                None => self.group.take().map_or(Step::Done, |group| Step::Found(group.entity())),
            };
        };
        let begins = match self.aggregation {
            Aggregation::None | Aggregation::Simple => true,
            Aggregation::First | Aggregation::Average | Aggregation::Max => !token.continues,
        };
        // The word before ends first, in a step of its own.
        if begins && let Some(word) = self.word.take() {
            return self.close(word, labels);
        }
        let word = self.word.get_or_insert_with(|| Word::new(self.next, self.aggregation));
        word.add(self.next, self.text.row(self.next));
        self.next += 1;
        Step::Working
    }

    /// The label of a word that is over, which is an entity or belongs to a group.
    fn close(&mut self, word: Word, labels: &[String]) -> Step {
        let Labelled { first, last, label, score } = word.labelled(&self.text, self.raw);
        if self.aggregation == Aggregation::None {
            return Step::Found(Entity { first, last, label, score });
        }
        let name = |label: usize| labels.get(label).map_or("", String::as_str);
        let (begins, kind) = tag(name(label));
        match &mut self.group {
            Some(group) if !begins && kind == tag(name(group.last_label)).1 => {
                group.last = last;
                group.last_label = label;
                group.sum += f64::from(score);
                group.words += 1;
                Step::Working
            }
            group => {
                let next = Group { first, last, label, last_label: label, sum: f64::from(score), words: 1 };
                group.replace(next).map_or(Step::Working, |before| Step::Found(before.entity()))
            }
        }
    }

    /// The tokenizer's string of a token, or the piece of the text that a group covers.
    pub fn token(&mut self, entity: &Entity) -> &str {
        if self.aggregation == Aggregation::None {
            return self.text.tokens.get(entity.first).map_or("", |token| &token.token);
        }
        let (start, end) = self.range(entity);
        let text = &self.text.text;
        self.characters.get_or_insert_with(|| CharIndex::of(text)).between(text, start, end)
    }

    /// The token's id; 0 for a group.
    pub fn token_id(&self, entity: &Entity) -> u32 {
        match self.aggregation {
            Aggregation::None => self.text.tokens.get(entity.first).map_or(0, |token| token.id),
            _ => 0,
        }
    }

    /// First character in the text, and one past the last.
    pub fn range(&self, entity: &Entity) -> (usize, usize) {
        let token = |index: usize| self.text.tokens.get(index);
        (token(entity.first).map_or(0, |token| token.start), token(entity.last).map_or(0, |token| token.end))
    }

    /// Logits of all labels of a token, in the model's order; `None` for a group.
    pub fn logits(&self, entity: &Entity) -> Option<&[f32]> {
        (self.aggregation == Aggregation::None).then(|| self.text.row(entity.first))
    }
}

impl Group {
    fn entity(&self) -> Entity {
        let &Self { first, last, label, sum, words, .. } = self;
        Entity { first, last, label, score: (sum / words as f64) as f32 }
    }
}

/// Parts of a label: true if it begins an entity, and the kind of entity.
fn tag(label: &str) -> (bool, &str) {
    match label.strip_prefix("B-") {
        Some(kind) => (true, kind),
        None => (false, label.strip_prefix("I-").unwrap_or(label)),
    }
}

#[cfg(test)]
#[path = "../tests/entities.rs"]
mod tests;
