//! Answers of a model.

use serde::{Deserialize, Serialize};

/// Answers of a pass, in the order of the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answers {
    /// A unit vector for each text.
    Vectors(Vec<Vec<f32>>),
    /// Scores of the documents of each query, or of the labels of each input.
    Scored(Vec<Scored>),
}

/// Logits, and the scores that the model derives from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scored {
    pub(crate) logits: Vec<f32>,
    pub(crate) scores: Vec<f32>,
}
