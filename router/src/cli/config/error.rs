//! Errors in a configuration.

use crate::error::flag;
use crate::telemetry::log_filter::FilterError;
use prefold_backends::LoadError;
use prefold_core::InvalidSetting;
use thiserror::Error;

/// Arguments that parse but are invalid by themselves or together.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("`--model-id {0}`: there is no such file or directory")]
    NoSuchPath(String),
    #[error("`--model-id {0}`: {1}")]
    Path(String, std::io::Error),
    #[error("`--model-id {given}` is a URL; give the model's id, `{id}`")]
    Url { given: String, id: String },
    #[error(
        "`--model-id {0}` is neither an existing path nor a hub id of the form `organisation/name`{hint}",
        hint = without_id()
    )]
    NotAModel(String),
    #[cfg_attr(feature = "builtin-model", allow(dead_code, reason = "the built-in model is the default"))]
    #[error("`--model-id` is missing, and this binary was built without the built-in model")]
    NoModel,
    #[cfg_attr(not(feature = "builtin-model"), allow(dead_code, reason = "a model is always given"))]
    #[error("`--revision` is one of a model on the hub, and `--model-id` is missing")]
    RevisionOfNoModel,
    #[error("`--revision` is one of a model on the hub, and `--model-id {0}` is a path")]
    RevisionOfPath(String),
    #[error("`--rerank-recipe {0}`: {1}")]
    Recipe(String, String),
    #[error(
        "an `--api-key` has line breaks or other control characters; repeat the flag for each key, or use --api-key-file"
    )]
    KeyOfLines,
    #[error("`--api-key-file {0}`: {1}")]
    ApiKeys(String, std::io::Error),
    #[error("--tls-cert and --tls-key: {0}")]
    Tls(std::io::Error),
    #[error("`--share-prefixes key` needs --api-key or --api-key-file: requests without keys look alike")]
    SharedByKey,
    #[error("`--{0}` needs --api-key or --api-key-file: without keys nothing is protected")]
    Protected(&'static str),
    #[error(transparent)]
    Device(#[from] LoadError),
    #[error("`{}` {}", flag(.0.setting), .0.problem)]
    Engine(#[from] InvalidSetting),
    #[error("`--max-buffered-bytes {0}` is less than --payload-limit, {1} bytes")]
    Buffered(usize, usize),
    #[error("`--port` and `--prometheus-port` are both {0}; they must differ")]
    SamePort(u16),
    #[error("`--cors-allow-origin {0}` is not an origin: scheme, host and optional port, as in https://app.example")]
    Origin(String),
    #[error("`--otlp-endpoint {0}` is not a URL of the form http://host:4318")]
    Collector(String),
    #[error("`{directives}` is not a log filter (--log-level, RUST_LOG): {source}")]
    LogFilter { directives: String, source: FilterError },
}

/// The model that is served without `--model-id`, for an error about the flag.
const fn without_id() -> &'static str {
    if cfg!(feature = "builtin-model") { "; without --model-id the built-in model is served" } else { "" }
}
