//! What is out of range, said by name: a request's counts, the server's settings, the model's figures.

use crate::{Backend, BatchLimits, EngineConfig, Error, LoadedModel, ModelInfo, ModelKind, ScoreRequest, TooLarge};
use tokio::sync::Semaphore;

/// That there are inputs, and not too many.
pub(crate) fn check_count(got: usize, field: &'static str, limit: usize) -> Result<(), Error> {
    if got == 0 {
        return Err(Error::Empty { field, problem: "has no items".to_owned() });
    }
    if got > limit {
        return Err(Error::BatchTooLarge { field, got, limit });
    }
    Ok(())
}

/// That every document has a query.
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
            Err(Error::Validation { field, problem })
        }
    }
}

/// How many values of a vector to keep.
pub(crate) fn check_dimensions(dimensions: Option<usize>, dim: usize) -> Result<usize, Error> {
    match dimensions {
        None => Ok(dim),
        Some(kept) if (1..=dim).contains(&kept) => Ok(kept),
        Some(kept) => {
            let problem = format!("is {kept}; the served model has 1 to {dim} dimensions");
            Err(Error::Validation { field: "dimensions", problem })
        }
    }
}

pub(crate) fn check_config(config: &EngineConfig) -> Result<(), Error> {
    let at_least_one = [
        ("max_batch_tokens", config.max_batch_tokens),
        ("max_batch_ragged_tokens", config.ragged_tokens_limit()),
        ("max_batch_requests", config.max_batch_requests.unwrap_or(1)),
        ("max_concurrent_requests", config.max_concurrent_requests),
        ("max_queued_tokens", config.max_queued_tokens),
        ("max_queued_inputs", config.max_queued_inputs),
        ("max_client_batch_size", config.max_client_batch_size),
        ("pad_to_multiple", config.pad_to_multiple),
        ("tokenization_workers", config.tokenization_workers),
    ];
    if let Some((field, _)) = at_least_one.into_iter().find(|(_, value)| *value == 0) {
        return Err(Error::Validation { field, problem: "must be at least 1".to_owned() });
    }
    // Row indices, and permits taken all at once, are 32 bits wide.
    let limits = [
        ("max_batch_tokens", config.max_batch_tokens, i32::MAX as usize),
        ("max_batch_ragged_tokens", config.ragged_tokens_limit(), i32::MAX as usize),
        ("max_concurrent_requests", config.max_concurrent_requests, (u32::MAX as usize).min(Semaphore::MAX_PERMITS)),
    ];
    if let Some((field, value, limit)) = limits.into_iter().find(|(_, value, limit)| value > limit) {
        return Err(Error::Validation { field, problem: format!("is {value}, the limit is {limit}") });
    }
    if config.ragged_tokens_limit() < config.max_batch_tokens {
        let (got, least) = (config.ragged_tokens_limit(), config.max_batch_tokens);
        let problem = format!("is {got}, it must be at least max_batch_tokens, which is {least}");
        return Err(Error::Validation { field: "max_batch_ragged_tokens", problem });
    }
    // So the rows of a batch with its padding are within the budget as those without are.
    if !config.max_batch_tokens.is_multiple_of(config.pad_to_multiple) {
        let (got, tokens) = (config.pad_to_multiple, config.max_batch_tokens);
        let problem = format!("is {got} (--radix-mlp-pad), it must divide max_batch_tokens, which is {tokens}");
        return Err(Error::Validation { field: "pad_to_multiple", problem });
    }
    let threshold = config.radix_mlp_threshold;
    if !(0.0..=1.0).contains(&threshold) {
        let problem =
            format!("is {threshold}, it must be between 0 (never compact) and 1 (whenever anything is shared)");
        return Err(Error::Validation { field: "radix_mlp_threshold", problem });
    }
    Ok(())
}

/// That the device has memory for the largest batch.
pub(crate) fn check_memory(backend: &dyn Backend, config: &EngineConfig) -> Result<(), Error> {
    let limits = BatchLimits { max_tokens: config.max_batch_tokens, max_ragged_tokens: config.ragged_tokens_limit() };
    let Err(TooLarge { largest_max_tokens, needed_bytes, free_bytes }) = backend.check_limits(limits) else {
        return Ok(());
    };
    let problem = format!(
        "is {}, for which the device needs {} MiB beside the model and has {} MiB free; {}",
        config.max_batch_tokens,
        needed_bytes >> 20,
        free_bytes >> 20,
        match largest_max_tokens {
            0 => "no batch fits".to_owned(),
            largest => format!("the largest that fits is {largest}"),
        }
    );
    Err(Error::Validation { field: "max_batch_tokens", problem })
}

pub(crate) fn check_model(info: &ModelInfo, model: &LoadedModel) -> Result<(), Error> {
    let invalid = |field, problem: &str| Err(Error::Validation { field, problem: problem.to_owned() });
    if info.vocab_size == 0 || info.max_input_length == 0 {
        return invalid("model", "has no vocabulary or takes no tokens");
    }
    match &info.kind {
        ModelKind::Embedding { dim: 0, .. } => invalid("model", "makes vectors without values"),
        ModelKind::Classifier { labels } if labels.is_empty() => invalid("model", "is a classifier without labels"),
        ModelKind::Reranker if model.template.is_none() => invalid("template", "is needed for a reranker"),
        _ => Ok(()),
    }
}
