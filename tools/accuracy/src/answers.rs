//! Answers of a model.

use serde::{Deserialize, Serialize};

/// Answers of a pass, in the order of the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answers {
    /// A unit vector for each text.
    Vectors(Vec<Vec<f32>>),
    /// For each query the scores of its documents, or for each input those of the labels.
    Scored(Vec<Scored>),
}

/// Logits, and the scores that the model makes of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scored {
    pub(crate) logits: Vec<f32>,
    pub(crate) scores: Vec<f32>,
}
