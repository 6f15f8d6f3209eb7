//! Text of the demo; `data/README.md` describes its source.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A hundred passages, and ten questions about them.
pub(crate) struct Corpus {
    pub(crate) passages: Vec<Passage>,
    pub(crate) questions: Vec<Question>,
}

/// Passage of documentation, 30 to 110 words.
#[derive(Deserialize)]
pub(crate) struct Passage {
    pub(crate) id: String,
    pub(crate) text: String,
}

/// Question from an FAQ.
#[derive(Deserialize)]
pub(crate) struct Question {
    pub(crate) query: String,
    /// Ids of the ten passages to rerank.
    pub(crate) candidates: Vec<String>,
    /// Ids of the passages that answer it in the FAQ.
    pub(crate) relevant: Vec<String>,
}

impl Corpus {
    pub(crate) fn load() -> Result<Self> {
        Ok(Self {
            passages: parse_lines(include_str!("../data/passages.jsonl"))?,
            questions: parse_lines(include_str!("../data/questions.jsonl"))?,
        })
    }

    /// Candidate passages of `question`, in its order.
    pub(crate) fn candidates(&self, question: &Question) -> Result<Vec<&Passage>> {
        let by_id = |id: &String| {
            self.passages.iter().find(|p| &p.id == id).with_context(|| format!("no passage has the id {id}"))
        };
        question.candidates.iter().map(by_id).collect()
    }
}

impl Question {
    pub(crate) fn is_answered_by(&self, passage: &Passage) -> bool {
        self.relevant.contains(&passage.id)
    }
}

fn parse_lines<T: DeserializeOwned>(lines: &str) -> Result<Vec<T>> {
    lines.lines().map(|line| serde_json::from_str(line).context("a line of the demo's data")).collect()
}
