//! Functions that turn logits into scores.

use serde::Serialize;

/// Function of logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogitActivation {
    /// Of each logit alone.
    Sigmoid,
    /// Of all logits together.
    Softmax,
    /// None.
    Identity,
}

impl LogitActivation {
    /// The scores of logits.
    pub fn apply(self, logits: &[f32]) -> Vec<f32> {
        match self {
            Self::Sigmoid => logits.iter().map(|&logit| sigmoid(logit)).collect(),
            Self::Softmax => softmax(logits),
            Self::Identity => logits.to_vec(),
        }
    }
}

/// `1 / (1 + e^-x)`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Exponentials divided by their sum; the largest logit is subtracted first, so nothing overflows.
pub fn softmax(logits: &[f32]) -> Vec<f32> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut values: Vec<f32> = logits.iter().map(|logit| (logit - max).exp()).collect();
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
    values
}
