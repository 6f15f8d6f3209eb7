//! Parsers of flag values.

use prefold_backends::AttentionMode;
use prefold_core::Task;

pub(super) fn positive(s: &str) -> Result<usize, String> {
    match s.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn threshold(s: &str) -> Result<f32, String> {
    let value: f32 = s.parse().map_err(|_| "must be a number between 0 and 1".to_owned())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("must be between 0 and 1".to_owned()) }
}

/// Also accepts the pipeline names that hosted containers set in TASK.
pub(super) fn task(s: &str) -> Result<Task, String> {
    match s {
        "feature-extraction" | "sentence-embeddings" | "sentence-similarity" => Ok(Task::Embed),
        "text-ranking" | "sentence-ranking" => Ok(Task::Rerank),
        "text-classification" => Ok(Task::Classify),
        _ => s.parse::<Task>().map_err(|error| error.to_string()),
    }
}

pub(super) fn attention(s: &str) -> Result<AttentionMode, String> {
    s.parse::<AttentionMode>().map_err(|error| error.to_string())
}
