//! Checks of a request's counts, the configuration and the model; errors name what is out of range.

use crate::{Backend, BatchLimits, EngineConfig, Error, ModelInfo, ScoreRequest, TooLarge};

/// At least one input, and no more than the limit.
pub(crate) fn check_count(got: usize, field: &'static str, limit: usize) -> Result<(), Error> {
    if got == 0 {
        return Err(Error::Empty { field, problem: "has no items".to_owned() });
    }
    if got > limit {
        return Err(Error::BatchTooLarge { field, got, limit });
    }
    Ok(())
}

/// A query for every document.
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

/// Values of a vector that are kept.
pub(crate) fn check_dimensions(dimensions: Option<usize>, dim: usize) -> Result<usize, Error> {
    match dimensions {
        None => Ok(dim),
        Some(kept) if (1..=dim).contains(&kept) => Ok(kept),
        Some(kept) => {
            let problem = format!("is {kept}; the served model has 1 to {dim} dimensions");
            Err(Error::invalid("dimensions", problem))
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
        ("radix_mlp_pad", config.radix_mlp_pad),
        ("tokenization_workers", config.tokenization_workers),
    ];
    if let Some((field, _)) = at_least_one.into_iter().find(|(_, value)| *value == 0) {
        return Err(Error::invalid(field, "must be at least 1"));
    }
    // Row indices are 32 bits wide.
    let limits = [
        ("max_batch_tokens", config.max_batch_tokens, i32::MAX as usize),
        ("max_batch_ragged_tokens", config.ragged_tokens_limit(), i32::MAX as usize),
    ];
    if let Some((field, value, limit)) = limits.into_iter().find(|(_, value, limit)| value > limit) {
        return Err(Error::invalid(field, format!("is {value}, the limit is {limit}")));
    }
    if config.ragged_tokens_limit() < config.max_batch_tokens {
        let (got, least) = (config.ragged_tokens_limit(), config.max_batch_tokens);
        let problem = format!("is {got}, it must be at least max_batch_tokens, which is {least}");
        return Err(Error::invalid("max_batch_ragged_tokens", problem));
    }
    // Then the rows of a batch are within the budget with their padding too.
    if !config.max_batch_tokens.is_multiple_of(config.radix_mlp_pad) {
        let (got, tokens) = (config.radix_mlp_pad, config.max_batch_tokens);
        let problem = format!("is {got}, it must divide max_batch_tokens, which is {tokens}");
        return Err(Error::invalid("radix_mlp_pad", problem));
    }
    let threshold = config.radix_mlp_threshold;
    if !(0.0..=1.0).contains(&threshold) {
        let problem =
            format!("is {threshold}, it must be between 0 (never compact) and 1 (whenever anything is shared)");
        return Err(Error::invalid("radix_mlp_threshold", problem));
    }
    Ok(())
}

/// Memory of the device for the largest batch.
pub(crate) fn check_memory(backend: &dyn Backend, limits: BatchLimits) -> Result<(), Error> {
    let Err(TooLarge { largest_max_tokens, needed_bytes, free_bytes }) = backend.check_limits(limits) else {
        return Ok(());
    };
    let problem = format!(
        "is {}, for which the device needs {} MiB beside the model and has {} MiB free; {}",
        limits.max_tokens,
        needed_bytes >> 20,
        free_bytes >> 20,
        match largest_max_tokens {
            0 => "no batch fits".to_owned(),
            largest => format!("the largest that fits is {largest}"),
        }
    );
    Err(Error::invalid("max_batch_tokens", problem))
}

pub(crate) fn check_model(info: &ModelInfo) -> Result<(), Error> {
    if info.vocab_size == 0 {
        return Err(Error::invalid("model", "has no vocabulary"));
    }
    info.capabilities.check().map_err(|problem| Error::invalid("model", problem))
}
