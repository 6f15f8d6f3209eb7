//! What the server runs with, checked. [`Config::try_from`] is the only way from [`Args`] to it.

use crate::args::{Args, ServerArgs, SourceArgs, TelemetryArgs};
use crate::auth::Keys;
use crate::connections::ConnectionLimits;
use crate::log_filter::{self, FilterError};
use crate::secret::Secret;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};
use prefold_backends::{HubModel, LoadOptions, ModelSource};
use prefold_core::{EngineConfig, RerankRecipe};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// More workers than this do not keep a faster device busy, and each copies the tokenizer's state.
const MAX_DEFAULT_TOKENIZATION_WORKERS: usize = 8;

/// Bytes in a request's body, unless said otherwise.
pub(crate) const PAYLOAD_LIMIT: usize = 32_000_000;

/// Bytes of request bodies at once, unless said otherwise.
pub(crate) const MAX_BUFFERED_BYTES: usize = 256_000_000;

/// Seconds for a client's part of an exchange, unless said otherwise. An idle connection lives as long: longer than the 60 s
/// after which most balancers close theirs, so that they never send a request into one that is being closed.
pub(crate) const CLIENT_TIMEOUT: u64 = 75;

/// Everything, by component.
pub(crate) struct Config {
    pub(crate) load: LoadOptions,
    pub(crate) names: ModelNames,
    /// In place of the model's own default prompt.
    pub(crate) default_prompt: Option<DefaultPrompt>,
    /// In place of the rerank recipe's own default instruction.
    pub(crate) rerank_instruction: Option<String>,
    pub(crate) engine: EngineConfig,
    pub(crate) server: ServerConfig,
    pub(crate) telemetry: TelemetryConfig,
}

/// What the served model is called.
#[derive(Debug, Clone)]
pub(crate) struct ModelNames {
    /// The hub id, the path or the built-in model's name.
    pub(crate) id: String,
    /// What clients see.
    pub(crate) served: String,
    /// What else they may call it.
    pub(crate) aliases: Vec<String>,
}

impl ModelNames {
    /// All names that clients may use, the one that answers carry first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.served).chain(&self.aliases).map(String::as_str)
    }

    /// The first of the names that were given is the served one; the model's own id is an alias then.
    fn new(id: String, given: Vec<String>) -> Self {
        let given = given.into_iter().filter(|name| !name.is_empty());
        let mut names: Vec<String> = given.chain([id.clone()]).collect();
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        let served = names.remove(0);
        Self { id, served, aliases: names }
    }
}

/// The prompt put before every text when a request names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DefaultPrompt {
    /// One of the model's own, by name.
    Named(String),
    /// A text.
    Text(String),
}

/// How clients reach the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerConfig {
    pub(crate) hostname: String,
    pub(crate) port: u16,
    /// Where `/metrics` is instead of on `port`.
    pub(crate) prometheus_port: Option<u16>,
    pub(crate) http: HttpConfig,
    pub(crate) serving: ServingConfig,
}

/// How the server serves until its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServingConfig {
    pub(crate) connections: ConnectionLimits,
    /// A forward pass that makes `/health` fail ends the process.
    pub(crate) exit_on_stuck: bool,
    /// How long it waits at its end for the requests that it accepted.
    pub(crate) shutdown_timeout: Duration,
}

/// What the HTTP layers need.
#[derive(Debug, Clone)]
pub(crate) struct HttpConfig {
    /// Bytes in a body.
    pub(crate) payload_limit: usize,
    /// Bytes in the bodies of all requests.
    pub(crate) max_buffered_bytes: usize,
    /// A body must arrive within this.
    pub(crate) client_timeout: Duration,
    pub(crate) api_keys: Keys,
    /// Any when absent.
    pub(crate) allowed_origins: Option<Vec<HeaderValue>>,
    /// Whether each request has a span.
    pub(crate) spans: bool,
    /// A forward pass that runs longer makes the server not ready.
    pub(crate) stall_timeout: Duration,
    /// Whether `/docs` and the API's description need the key too.
    pub(crate) protect_docs: bool,
    /// Whether `/metrics` needs the key too.
    pub(crate) protect_metrics: bool,
    /// Whether `/metrics` is on a port of its own and not on this one.
    pub(crate) metrics_elsewhere: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            payload_limit: PAYLOAD_LIMIT,
            max_buffered_bytes: MAX_BUFFERED_BYTES,
            client_timeout: Duration::from_secs(CLIENT_TIMEOUT),
            api_keys: Keys::default(),
            allowed_origins: None,
            spans: true,
            stall_timeout: Duration::from_secs(120),
            protect_docs: false,
            protect_metrics: false,
            metrics_elsewhere: false,
        }
    }
}

/// What the server tells about itself.
#[derive(Debug, Clone)]
pub(crate) struct TelemetryConfig {
    /// Log lines as JSON.
    pub(crate) json: bool,
    /// Log lines name the request's span.
    pub(crate) spans: bool,
    /// Directives that [`log_filter::parse`] takes.
    pub(crate) filter: String,
    /// Where traces go; nowhere when absent.
    pub(crate) traces: Option<TraceConfig>,
}

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceConfig {
    /// The whole URL.
    pub(crate) endpoint: String,
    pub(crate) service_name: String,
}

/// Arguments that are each well formed and make no sense.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("`--model-id {0}`: there is no such file or directory")]
    NoSuchPath(String),
    #[error("`--model-id {0}` is neither an existing path nor a hub id of the form `organisation/name`")]
    NotAModel(String),
    #[cfg_attr(
        feature = "builtin-model",
        allow(dead_code, reason = "the built-in model takes the missing one's place")
    )]
    #[error("`--model-id` is missing, and this binary was built without the built-in model")]
    NoModel,
    #[error("`--rerank-recipe {0}`: {1}")]
    Recipe(String, String),
    #[error("an `--api-key` has several lines; give the flag once for each key, or --api-key-file")]
    KeyOfLines,
    #[error("`--api-key-file {0}`: {1}")]
    ApiKeys(String, std::io::Error),
    #[error("`--max-buffered-bytes {0}` is less than one request may bring, {1} bytes (--payload-limit)")]
    Buffered(usize, usize),
    #[error(
        "`--cors-allow-origin {0}` is not an origin: scheme and host, and a port if need be, as in https://app.example"
    )]
    Origin(String),
    #[error("`--otlp-endpoint {0}` is not a URL of the form http://host:4318")]
    Collector(String),
    #[error("`{directives}` does not say what to log (--log-level, RUST_LOG): {source}")]
    LogFilter { directives: String, source: FilterError },
}

impl TryFrom<Args> for Config {
    type Error = ConfigError;

    fn try_from(args: Args) -> Result<Self, ConfigError> {
        let Args { command: _, config: _, model, batching, server, telemetry } = args;
        let prometheus_port = telemetry.prometheus_port;
        let telemetry = telemetry_config(telemetry)?;
        let (id, source) = model_source(&model.source, !telemetry.json)?;
        Ok(Self {
            names: ModelNames::new(id, model.served_model_name),
            load: LoadOptions {
                source,
                rerank_recipe: model.rerank_recipe.map(rerank_recipe).transpose()?,
                device: model.device,
                dtype: model.dtype,
                pooling: model.pooling,
                task: model.task,
                attention: model.attention,
                dense_path: model.dense_path,
            },
            default_prompt: match (model.default_prompt_name, model.default_prompt) {
                (Some(name), _) => Some(DefaultPrompt::Named(name)),
                (None, text) => text.map(DefaultPrompt::Text),
            },
            rerank_instruction: model.rerank_instruction,
            engine: EngineConfig {
                max_batch_tokens: batching.max_batch_tokens,
                max_batch_ragged_tokens: batching.max_batch_ragged_tokens,
                max_batch_requests: batching.max_batch_requests,
                max_concurrent_requests: batching.max_concurrent_requests,
                max_queued_tokens: batching.max_queued_tokens,
                max_queued_inputs: batching.max_queued_inputs,
                max_client_batch_size: batching.max_client_batch_size,
                scheduling: batching.scheduling,
                radix_mlp_threshold: batching.radix_mlp_threshold,
                pad_to_multiple: batching.radix_mlp_pad,
                tokenization_workers: batching.tokenization_workers.unwrap_or_else(default_tokenization_workers),
                auto_truncate: batching.auto_truncate,
            },
            server: server_config(server, telemetry.spans, prometheus_port)?,
            telemetry,
        })
    }
}

/// A recipe by its name, or from a file.
fn rerank_recipe(name: String) -> Result<RerankRecipe, ConfigError> {
    let recipe = match Path::new(&name) {
        path if name.ends_with(".json") || path.exists() => std::fs::read_to_string(path)
            .map_err(|error| error.to_string())
            .and_then(|json| RerankRecipe::from_json(&json)),
        _ => RerankRecipe::builtin(&name),
    };
    recipe.map_err(|problem| ConfigError::Recipe(name, problem))
}

fn default_tokenization_workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores - 1).clamp(1, MAX_DEFAULT_TOKENIZATION_WORKERS)
}

fn telemetry_config(args: TelemetryArgs) -> Result<TelemetryConfig, ConfigError> {
    let filter = args.rust_log.filter(|directives| !directives.is_empty()).unwrap_or(args.log_level);
    if let Err(source) = log_filter::parse(&filter) {
        return Err(ConfigError::LogFilter { directives: filter, source });
    }
    let traces = match args.otlp_endpoint {
        Some(url) => Some(TraceConfig { endpoint: collector(url)?, service_name: args.otlp_service_name }),
        None => None,
    };
    Ok(TelemetryConfig { json: args.json_output, spans: !args.disable_spans, filter, traces })
}

/// A collector's URL with the path that takes traces.
fn collector(url: String) -> Result<String, ConfigError> {
    let parsed = url.parse::<Uri>().ok();
    match parsed.as_ref().map(|parsed| (parsed.scheme_str(), parsed.path())) {
        Some((Some("http" | "https"), "/" | "")) => Ok(format!("{}/v1/traces", url.trim_end_matches('/'))),
        Some((Some("http" | "https"), _)) => Ok(url),
        _ => Err(ConfigError::Collector(url)),
    }
}

fn server_config(args: ServerArgs, spans: bool, prometheus_port: Option<u16>) -> Result<ServerConfig, ConfigError> {
    if args.max_buffered_bytes < args.payload_limit {
        return Err(ConfigError::Buffered(args.max_buffered_bytes, args.payload_limit));
    }
    if !args.api_key.iter().all(Secret::is_one_line) {
        return Err(ConfigError::KeyOfLines);
    }
    let client_timeout = Duration::from_secs(args.client_timeout);
    let key_file = args.api_key_file.as_ref().map(|path| path.display().to_string());
    let api_keys = Keys::new(args.api_key, args.api_key_file)
        .map_err(|error| ConfigError::ApiKeys(key_file.unwrap_or_default(), error))?;
    Ok(ServerConfig {
        hostname: args.hostname,
        port: args.port,
        http: HttpConfig {
            payload_limit: args.payload_limit,
            max_buffered_bytes: args.max_buffered_bytes,
            client_timeout,
            api_keys,
            allowed_origins: allowed_origins(args.cors_allow_origin)?,
            spans,
            stall_timeout: Duration::from_secs(args.stall_timeout),
            protect_docs: args.protect_docs,
            protect_metrics: args.protect_metrics,
            metrics_elsewhere: prometheus_port.is_some(),
        },
        prometheus_port,
        serving: ServingConfig {
            connections: ConnectionLimits { connections: args.max_connections, client_timeout },
            exit_on_stuck: args.exit_on_stuck,
            shutdown_timeout: Duration::from_secs(args.shutdown_timeout),
        },
    })
}

fn allowed_origins(origins: Vec<String>) -> Result<Option<Vec<HeaderValue>>, ConfigError> {
    if origins.is_empty() || origins.iter().any(|origin| origin == "*") {
        return Ok(None);
    }
    let parse = |origin: String| match HeaderValue::from_str(&origin) {
        Ok(value) if is_origin(&origin) => Ok(value),
        _ => Err(ConfigError::Origin(origin)),
    };
    origins.into_iter().map(parse).collect::<Result<_, _>>().map(Some)
}

/// Whether browsers would send it so, in lower case and without a path: it is compared byte by byte.
fn is_origin(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let is_whole = !scheme.is_empty() && authority.parse::<Authority>().is_ok_and(|parsed| !parsed.host().is_empty());
    is_whole && !origin.contains(|c: char| c.is_ascii_uppercase() || c == '@')
}

/// The model's name and where its files are. `show_progress`: draw a bar while they are downloaded, on a terminal.
pub(crate) fn model_source(args: &SourceArgs, show_progress: bool) -> Result<(String, ModelSource), ConfigError> {
    let Some(id) = &args.model_id else { return builtin_model() };
    if Path::new(id).exists() {
        return Ok((id.clone(), ModelSource::Path(PathBuf::from(id))));
    }
    if looks_like_a_path(id) {
        return Err(ConfigError::NoSuchPath(id.clone()));
    }
    if !is_hub_id(id) {
        return Err(ConfigError::NotAModel(id.clone()));
    }
    let hub = HubModel {
        id: id.clone(),
        revision: args.revision.clone(),
        token: args.hf_token.as_ref().map(|token| token.expose().to_owned()).filter(|token| !token.is_empty()),
        cache_dir: args.huggingface_hub_cache.clone(),
        endpoint: args.hf_endpoint.clone(),
        offline: args.offline,
        timeout: Duration::from_secs(args.download_timeout),
        user_agent: concat!("prefold/", env!("CARGO_PKG_VERSION")).to_owned(),
        show_progress: show_progress && std::io::stderr().is_terminal(),
    };
    Ok((id.clone(), ModelSource::Hub(hub)))
}

#[cfg(feature = "builtin-model")]
fn builtin_model() -> Result<(String, ModelSource), ConfigError> {
    Ok((crate::builtin::NAME.to_owned(), ModelSource::Embedded(crate::builtin::FILES)))
}

#[cfg(not(feature = "builtin-model"))]
fn builtin_model() -> Result<(String, ModelSource), ConfigError> {
    Err(ConfigError::NoModel)
}

fn looks_like_a_path(id: &str) -> bool {
    id.starts_with(['/', '.', '~']) || id.ends_with('/') || id.ends_with(".gguf") || id.matches('/').count() > 1
}

/// `organisation/name` in the characters that the hub allows.
fn is_hub_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = |name: &str| (1..=96).contains(&name.len()) && name.chars().all(allowed);
    id.split_once('/').is_some_and(|(organisation, name)| is_name(organisation) && is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(line: &str) -> Result<Config, ConfigError> {
        Args::try_read(std::iter::once("prefold").chain(line.split_whitespace())).unwrap().try_into()
    }

    fn refused(line: &str) -> ConfigError {
        config(line).err().unwrap_or_else(|| panic!("`{line}` must be refused"))
    }

    #[test]
    fn a_hub_id_keeps_its_options() {
        let config =
            config("--model-id Qwen/Qwen3-Embedding-0.6B --revision main --hf-token t --hf-endpoint http://h").unwrap();
        let ModelSource::Hub(hub) = config.load.source else { panic!("not a hub model") };
        assert_eq!(hub.id, "Qwen/Qwen3-Embedding-0.6B");
        assert_eq!(hub.revision.as_deref(), Some("main"));
        assert_eq!(hub.token.as_deref(), Some("t"));
        assert_eq!(hub.endpoint.as_deref(), Some("http://h"));
        assert_eq!(config.names.served, "Qwen/Qwen3-Embedding-0.6B");
    }

    #[test]
    fn an_existing_path_is_a_path() {
        let directory = env!("CARGO_MANIFEST_DIR");
        let config = config(&format!("--model-id {directory} --served-model-name here")).unwrap();
        assert!(matches!(config.load.source, ModelSource::Path(path) if path == Path::new(directory)));
        assert_eq!(config.names.id, directory);
        assert_eq!(config.names.served, "here");
    }

    #[test]
    fn a_mistyped_model_is_refused() {
        for id in ["/no/such/model", "./model", "models/tiny/", "a/b/c", "models/tiny.gguf"] {
            assert!(matches!(refused(&format!("--model-id {id}")), ConfigError::NoSuchPath(_)), "{id}");
        }
        for id in ["qwen3", "Qwen/", "org/na!me", "org/näme"] {
            let error = refused(&format!("--model-id {id}"));
            assert!(error.to_string().contains(id), "{error}");
        }
    }

    #[cfg(feature = "builtin-model")]
    #[test]
    fn the_builtin_model_is_the_default() {
        let config = config("").unwrap();
        assert!(matches!(config.load.source, ModelSource::Embedded(files) if !files.is_empty()));
        assert_eq!(config.names.served, "prefold-mini");
    }

    #[test]
    fn prompts_and_origins() {
        assert_eq!(config("--default-prompt hi").unwrap().default_prompt, Some(DefaultPrompt::Text("hi".to_owned())));
        assert_eq!(
            config("--default-prompt-name query").unwrap().default_prompt,
            Some(DefaultPrompt::Named("query".to_owned()))
        );
        assert!(config("").unwrap().server.http.allowed_origins.is_none());
        assert!(config("--cors-allow-origin *").unwrap().server.http.allowed_origins.is_none());
        let origins = config("--cors-allow-origin https://a.example").unwrap().server.http.allowed_origins;
        assert_eq!(origins.unwrap(), ["https://a.example"]);
        for origin in
            ["a.example", "https://a.example/", "https://a.example/path", "HTTPS://A.example", "https://", "://a"]
        {
            assert!(matches!(refused(&format!("--cors-allow-origin {origin}")), ConfigError::Origin(_)), "{origin}");
        }
        assert!(config("--cors-allow-origin http://localhost:5173").is_ok());
    }

    #[test]
    fn what_cannot_be_together_is_refused() {
        let error = refused("--payload-limit 11 --max-buffered-bytes 10").to_string();
        assert!(error.contains("--max-buffered-bytes 10") && error.contains("11 bytes"), "{error}");
        let error = refused("--api-key-file /no/such/file").to_string();
        assert!(error.contains("/no/such/file"), "{error}");
        // The settings of no flags are those that `routes` serves with.
        let (flags, default) = (config("").unwrap().server.http, HttpConfig::default());
        assert_eq!(format!("{flags:?}"), format!("{default:?}"));
    }

    #[test]
    fn the_first_name_is_served_and_the_others_are_aliases() {
        let names = |line: &str| {
            let names = config(line).unwrap().names;
            (names.served, names.aliases)
        };
        let directory = env!("CARGO_MANIFEST_DIR");
        let given = format!("--model-id {directory} --served-model-name a,b --served-model-name a");
        assert_eq!(names(&given), ("a".to_owned(), vec!["b".to_owned(), directory.to_owned()]));
        assert_eq!(names(&format!("--model-id {directory}")), (directory.to_owned(), vec![]));
        assert_eq!(names(&format!("--model-id {directory} --served-model-name=")), (directory.to_owned(), vec![]));
    }

    #[test]
    fn recipes_come_by_name_and_from_files() {
        let read = |line: &str| config(line).map(|config| config.load.rerank_recipe);
        assert_eq!(read("").unwrap(), None);
        let named = read("--rerank-recipe mxbai-rerank-v2").unwrap().unwrap();
        assert_eq!(named, RerankRecipe::builtin("mxbai-rerank-v2").unwrap());
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/recipes/mxbai-rerank-v2.json");
        assert_eq!(read(&format!("--rerank-recipe {file}")).unwrap(), Some(named));
        let unknown = refused("--rerank-recipe best").to_string();
        assert!(unknown.contains("best") && unknown.contains("qwen3-reranker"), "{unknown}");
        assert!(refused("--rerank-recipe /no/such.json").to_string().contains("No such file"));
    }

    #[test]
    fn a_collector_is_a_url() {
        let endpoint =
            |url: &str| config(&format!("--otlp-endpoint {url}")).unwrap().telemetry.traces.unwrap().endpoint;
        assert_eq!(endpoint("http://localhost:4318"), "http://localhost:4318/v1/traces");
        assert_eq!(endpoint("https://localhost:4318/"), "https://localhost:4318/v1/traces");
        assert_eq!(endpoint("http://h/otlp/v1/traces"), "http://h/otlp/v1/traces");
        assert_eq!(config("").unwrap().telemetry.traces, None);
        for url in ["localhost:4318", "grpc://localhost:4317", "collector", "http://"] {
            assert!(matches!(refused(&format!("--otlp-endpoint {url}")), ConfigError::Collector(_)), "{url}");
        }
    }

    #[test]
    fn log_directives_are_checked() {
        assert_eq!(config("--log-level info,request=off").unwrap().telemetry.filter, "info,request=off");
        assert_eq!(config("--log-level info --rust-log debug").unwrap().telemetry.filter, "debug");
        assert!(matches!(refused("--log-level request=loud"), ConfigError::LogFilter { .. }));
        assert!(matches!(refused("--log-level WARNING"), ConfigError::LogFilter { .. }));
    }
}
