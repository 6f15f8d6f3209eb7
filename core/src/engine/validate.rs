//! Checks of a request's counts and of the model; errors name what is out of range.

use super::loaded_model::LoadedModel;
use crate::backend::{BatchLimits, Interrupting, ModelBackend, ModelInfo, Replica};
use crate::config::{EngineConfig, InvalidSetting};
use crate::error::Error;
use crate::request::{Input, Place, ScoreRequest};

/// Checks for at least one input and no more than the limit.
pub(crate) fn check_count(got: usize, field: &'static str, limit: usize) -> Result<(), Error> {
    if got == 0 {
        return Err(Error::Empty { field, problem: "has no items".to_owned() });
    }
    if got > limit {
        return Err(Error::BatchTooLarge { field, got, limit });
    }
    Ok(())
}

/// Checks for one query, or one for each document.
pub(crate) fn check_pairing(request: &ScoreRequest) -> Result<(), Error> {
    let ScoreRequest { queries, query_field: field, documents, encode, .. } = request;
    let (field, other) = (*field, encode.field);
    match (queries.len(), documents.len()) {
        (0, _) => Err(Error::Empty { field, problem: "has no items".to_owned() }),
        (_, 0) => Err(Error::Empty { field: other, problem: "has no items".to_owned() }),
        (1, _) => Ok(()),
        (queries, documents) if queries == documents => Ok(()),
        (queries, documents) => {
            let problem = format!("has {queries} items and `{other}` {documents}; give one, or one for each");
            Err(Error::invalid(field, problem))
        }
    }
}

/// Refuses queries that are empty texts.
pub(crate) fn check_queries(request: &ScoreRequest) -> Result<(), Error> {
    let ScoreRequest { queries, query_field: field, .. } = request;
    match queries.iter().position(String::is_empty) {
        None => Ok(()),
        Some(index) => Err(empty_text(Place { field, index: (queries.len() > 1).then_some(index) })),
    }
}

/// Refuses empty texts.
pub(crate) fn check_not_empty(inputs: &[(Place, Input)]) -> Result<(), Error> {
    let empty_part = |(place, input): &(Place, Input)| match input {
        Input::Text(text) => text.is_empty().then_some(*place),
        Input::Pair(first, second) => (first.is_empty() || second.is_empty()).then_some(*place),
        Input::Rerank { document, .. } => document.is_empty().then_some(*place),
        // An empty list of ids is refused when it is encoded.
        Input::Ids(_) => None,
    };
    match inputs.iter().find_map(empty_part) {
        None => Ok(()),
        Some(place) => Err(empty_text(place)),
    }
}

/// The same for texts in `field`.
pub(crate) fn check_not_empty_texts(texts: &[String], field: &'static str) -> Result<(), Error> {
    match texts.iter().position(String::is_empty) {
        None => Ok(()),
        Some(index) => Err(empty_text(Place { field, index: (texts.len() > 1).then_some(index) })),
    }
}

fn empty_text(place: Place) -> Error {
    Error::Empty { field: place.field, problem: place.problem("is an empty text") }
}

/// Checks the number of values kept of a vector of `dim` values.
pub(crate) fn check_dimensions(kept: usize, dim: usize) -> Result<usize, Error> {
    if (1..=dim).contains(&kept) {
        return Ok(kept);
    }
    let problem = format!("is {kept}; it must be from 1 to {dim}, the size of the served model's vectors");
    Err(Error::invalid("dimensions", problem))
}

/// Maximum tokens of an input, for a model with the limit `of_model`.
pub(crate) fn check_input_length(config: &EngineConfig, of_model: usize) -> Result<usize, InvalidSetting> {
    match config.max_input_length {
        Some(limit) if limit > of_model => {
            let problem = format!("is {limit}, the model's limit is {of_model} tokens");
            Err(InvalidSetting { setting: "max_input_length", problem })
        }
        limit => Ok(limit.unwrap_or(of_model)),
    }
}

/// Checks the memory of the largest batches of all backends.
pub(crate) fn check_memory(model: &LoadedModel, config: &EngineConfig) -> Result<(), InvalidSetting> {
    let Some(free) = model.backend.free_bytes() else { return Ok(()) };
    let needed = |max_batch_tokens| needed_bytes(model, &EngineConfig { max_batch_tokens, ..config.clone() });
    let all = needed(config.max_batch_tokens);
    tracing::info!(free_mib = free >> 20, needed_mib = all >> 20, "memory for a batch");
    if all <= free {
        return Ok(());
    }
    // The next start may have a little less.
    let hint = match largest(config.max_batch_tokens, |tokens| needed(tokens) <= free / 16 * 15) {
        tokens if tokens < config.radix_mlp_pad => "no batch fits".to_owned(),
        tokens => format!("{} fits", tokens - tokens % config.radix_mlp_pad),
    };
    let problem = format!(
        "is {}, which needs {} MiB of memory in addition to the model, and {} MiB are free; {hint}",
        config.max_batch_tokens,
        all.div_ceil(1 << 20),
        free >> 20,
    );
    Err(InvalidSetting { setting: "max_batch_tokens", problem })
}

/// Largest number from 1 to `limit` that fits; 0 if none does.
fn largest(limit: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Bytes that all backends reserve for their largest batches.
fn needed_bytes(model: &LoadedModel, config: &EngineConfig) -> usize {
    let limits = BatchLimits::interrupting(config);
    let of_replica = |backend: &ModelBackend, others: Option<&Interrupting>| {
        let of_others = others.map_or(0, |Interrupting { due, urgent }| {
            due.needed_bytes(limits[0]).saturating_add(urgent.needed_bytes(limits[1]))
        });
        backend.needed_bytes(BatchLimits::of(config)).saturating_add(of_others)
    };
    let of_further = |replica: &Replica| of_replica(&replica.backend, replica.interrupting.as_ref());
    let first = of_replica(&model.backend, model.interrupting.as_ref());
    model.replicas.iter().map(of_further).fold(first, usize::saturating_add)
}

/// Checks for a vocabulary, possible answers, and a tokenizer for each sub-model.
pub(crate) fn check_model(info: &ModelInfo, tokenizers: usize) -> Result<(), Error> {
    if info.sub_models.iter().any(|sub_model| sub_model.vocab_size == 0) {
        return Err(Error::invalid("model", "has no vocabulary"));
    }
    let mut tasks = info.capabilities.embed.iter().flat_map(|embed| &embed.tasks);
    if tokenizers != info.sub_models.len() || tasks.any(|task| task.sub_model >= tokenizers) {
        return Err(Error::invalid("model", "must have one tokenizer for each sub-model"));
    }
    if info.sub_models.iter().any(|sub_model| sub_model.max_input_length == 0) {
        return Err(Error::invalid("model", "takes no tokens"));
    }
    info.capabilities.check().map_err(|problem| Error::invalid("model", problem))
}
