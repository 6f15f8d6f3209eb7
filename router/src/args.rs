//! The command line, and the only place that reads the environment.
//!
//! Names are those of text-embeddings-inference where the meaning is the same. Every flag is also an
//! environment variable, most of them the flag's name in upper case with underscores, and a key of the configuration
//! file. A flag wins over its variable, and that over the file.

mod server;

pub(crate) use self::server::ServerArgs;
use crate::command::Command;
use crate::config_file::{self, FileError};
use crate::secret::Secret;
use clap::builder::{BoolishValueParser, FalseyValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use prefold_backends::{AttentionMode, DeviceChoice, Dtype, Task};
use prefold_core::{Pooling, Scheduling};
use std::ffi::OsString;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const ANY_ADDRESS: &str = "0.0.0.0";

/// An embedding and reranking inference server that computes every shared prefix once.
#[derive(Debug, Clone, Parser)]
#[command(name = "prefold", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// What to do in place of serving.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// A TOML file with flags by their names (`max-batch-tokens = 16384`). Flags and environment variables win over it
    #[arg(long, env = "PREFOLD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) batching: BatchingArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

/// What to serve.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Where to run: cpu, cuda (the first GPU) or cuda:N. The first GPU when absent, or the CPU where there is none or
    /// this binary was built without GPUs
    #[arg(long, env, value_parser = DeviceChoice::from_str)]
    pub(crate) device: Option<DeviceChoice>,

    /// The type of the weights and of the matrix products: float32, bfloat16, or float16 on a GPU. float32 on the CPU and
    /// bfloat16 on a GPU when absent
    #[arg(long, env, value_parser = Dtype::from_str)]
    pub(crate) dtype: Option<Dtype>,

    /// The name that clients see, and after it, separated by commas, others that they may use. The model id when absent
    #[arg(long, env, value_delimiter = ',')]
    pub(crate) served_model_name: Vec<String>,

    /// How token states become one vector: last-token, mean or cls. The model's own when absent
    #[arg(long, env, value_parser = Pooling::from_str)]
    pub(crate) pooling: Option<Pooling>,

    /// What the model answers: embed, rerank or classify. Recognised from the model's files when absent
    #[arg(long, env, value_parser = parse_task)]
    pub(crate) task: Option<Task>,

    /// How a language model reranks, which is then its task: qwen3-reranker, mxbai-rerank-v2, or a JSON file with prompt
    /// and tokens. Recognised from the model's files when absent
    #[arg(long, env)]
    pub(crate) rerank_recipe: Option<String>,

    /// What relevant means, for rerankers that are told in words, where a request does not say it. The recipe's own when
    /// absent
    #[arg(long, env)]
    pub(crate) rerank_instruction: Option<String>,

    /// The directory of the dense layers inside the model, in place of those that modules.json names
    #[arg(long, env)]
    pub(crate) dense_path: Option<String>,

    /// Where attention runs on a compacted batch: compact, over distinct prefixes, or ragged, over whole sequences
    #[arg(long, env, default_value = "compact", value_parser = parse_attention)]
    pub(crate) attention: AttentionMode,

    /// The name of the model's prompt to put before every text
    #[arg(long, env, conflicts_with = "default_prompt")]
    pub(crate) default_prompt_name: Option<String>,

    /// A text to put before every text
    #[arg(long, env)]
    pub(crate) default_prompt: Option<String>,
}

/// Where the model is.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct SourceArgs {
    /// The model: a hub id (`Qwen/Qwen3-Embedding-0.6B`), a local directory or a .gguf file. The built-in model when
    /// absent
    #[arg(long, env)]
    pub(crate) model_id: Option<String>,

    /// The hub revision: a branch, a tag or a commit
    #[arg(long, env)]
    pub(crate) revision: Option<String>,

    /// The token for private and gated models on the hub
    #[arg(long, env, alias = "hf-api-token", hide_env_values = true)]
    pub(crate) hf_token: Option<Secret>,

    /// Another hub in place of https://huggingface.co
    #[arg(long, env)]
    pub(crate) hf_endpoint: Option<String>,

    /// Ask no hub: the model must be in the cache (or a local path)
    #[arg(long, env = "HF_HUB_OFFLINE", value_parser = FalseyValueParser::new())]
    pub(crate) offline: bool,

    /// Seconds for which nothing may come from the hub; then the download is given up
    #[arg(long, env = "HF_HUB_DOWNLOAD_TIMEOUT", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) download_timeout: u64,

    /// Where downloaded models are kept. The usual cache (HF_HOME) when absent
    #[arg(long, env)]
    pub(crate) huggingface_hub_cache: Option<PathBuf>,
}

/// How requests become batches.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Batching")]
pub(crate) struct BatchingArgs {
    /// Requests in the server at once; more are answered with status 429
    #[arg(long, env, default_value_t = 512, value_parser = positive)]
    pub(crate) max_concurrent_requests: usize,

    /// While so many tokens wait for a batch, requests are answered with status 429
    #[arg(long, env, default_value_t = 1 << 20, value_parser = positive)]
    pub(crate) max_queued_tokens: usize,

    /// While so many inputs wait for a batch, requests are answered with status 429
    #[arg(long, env, default_value_t = 1 << 15, value_parser = positive)]
    pub(crate) max_queued_inputs: usize,

    /// Tokens in a batch at most; where batches are compacted, distinct tokens
    #[arg(long, env, default_value_t = 16384, value_parser = positive)]
    pub(crate) max_batch_tokens: usize,

    /// Tokens in a batch at most, repeated ones counted each time. 8 times --max-batch-tokens when absent
    #[arg(long, env, value_parser = positive)]
    pub(crate) max_batch_ragged_tokens: Option<usize>,

    /// Which waiting inputs go into a batch together: prefix, those that share most with the oldest; fifo, the oldest
    #[arg(long, env, default_value = "prefix")]
    pub(crate) scheduling: Scheduling,

    /// Inputs in a batch at most. No limit when absent
    #[arg(long, env, value_parser = positive)]
    pub(crate) max_batch_requests: Option<usize>,

    /// Inputs of one request that are worked on at once. A larger request is done in parts of this size, up to 64 of
    /// them; more are answered with status 413
    #[arg(long, env, default_value_t = 2048, value_parser = positive)]
    pub(crate) max_client_batch_size: usize,

    /// Cut too long inputs unless a request says otherwise; false refuses them
    #[arg(long, env, default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub(crate) auto_truncate: bool,

    /// Threads that encode texts. One less than the CPU's cores, eight at most, when absent
    #[arg(long, env, value_parser = positive)]
    pub(crate) tokenization_workers: Option<usize>,

    /// Compute shared prefixes once in batches whose distinct tokens are at most this part of all their tokens: 0 is
    /// never, 1 whenever anything is shared
    #[arg(long, env, default_value_t = 0.95, value_parser = parse_threshold)]
    pub(crate) radix_mlp_threshold: f32,

    /// Pad the distinct tokens of a batch to a multiple of this, which must divide --max-batch-tokens
    #[arg(long, env, default_value_t = 1, value_parser = positive)]
    pub(crate) radix_mlp_pad: usize,
}

/// What the server tells about itself.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Telemetry")]
pub(crate) struct TelemetryArgs {
    /// Write log lines as JSON
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) json_output: bool,

    /// Serve /metrics on a port of its own, and no longer on --port
    #[arg(long, env)]
    pub(crate) prometheus_port: Option<u16>,

    /// Send traces to this OpenTelemetry collector by OTLP over HTTP, for example http://localhost:4318. Without a path
    /// /v1/traces is meant
    #[arg(long, env)]
    pub(crate) otlp_endpoint: Option<String>,

    /// The name of this service in traces
    #[arg(long, env, default_value = "prefold")]
    pub(crate) otlp_service_name: String,

    /// Leave the request's span out of log lines
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) disable_spans: bool,

    /// What to log, as `level` or `target=level` separated by commas; `info,request=off` silences the line that each
    /// request writes. RUST_LOG wins over it
    #[arg(long, env, default_value = "info")]
    pub(crate) log_level: String,

    /// The same under the name that Rust programs use
    #[arg(long, env, hide = true)]
    pub(crate) rust_log: Option<String>,
}

impl Args {
    /// Reads the command line and the environment; prints what is wrong (or the help) and exits when it must.
    pub(crate) fn read() -> Self {
        Self::try_read(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// The same from a given command line, the program's name first.
    pub(crate) fn try_read<T: Into<OsString> + Clone>(
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let mut matches = Self::command().try_get_matches_from(&arguments)?;
        let config = matches.get_one::<PathBuf>("config").filter(|_| matches.subcommand_name().is_none());
        if let Some(path) = config {
            let from_file = Self::read_file(path, &matches)?;
            // A value that is wrong now is the file's: the rest has been read before.
            let read = Self::command().try_get_matches_from(arguments.into_iter().chain(from_file));
            matches = read.map_err(|error| file_error(path, &error))?;
        }
        let mut args = Self::from_arg_matches(&matches)?;
        let from_environment = matches.value_source("hostname") == Some(ValueSource::EnvVariable);
        if from_environment && !is_address(&args.server.hostname) {
            args.server.hostname = ANY_ADDRESS.to_owned();
        }
        Ok(args)
    }

    fn read_file(path: &Path, matches: &ArgMatches) -> Result<Vec<OsString>, clap::Error> {
        let mut command = Self::command();
        command.build();
        let text = std::fs::read_to_string(path).map_err(FileError::from);
        text.and_then(|text| config_file::arguments(&text, &command, matches)).map_err(|error| file_error(path, &error))
    }
}

fn file_error(path: &Path, problem: &dyn Display) -> clap::Error {
    let problem = problem.to_string();
    // Of clap's own errors the sentence, without usage and hints.
    let problem = problem.strip_prefix("error: ").unwrap_or(&problem).split("\n\n").next().unwrap_or_default();
    Args::command().error(ErrorKind::ValueValidation, format!("{}: {problem}", path.display()))
}

fn is_address(hostname: &str) -> bool {
    hostname.parse::<IpAddr>().is_ok()
}

pub(crate) fn positive(s: &str) -> Result<usize, String> {
    match s.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_threshold(s: &str) -> Result<f32, String> {
    let value: f32 = s.parse().map_err(|_| "must be a number between 0 and 1".to_owned())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("must be between 0 and 1".to_owned()) }
}

/// Accepts the pipeline names too that hosted containers put into TASK.
fn parse_task(s: &str) -> Result<Task, String> {
    match s {
        "feature-extraction" | "sentence-embeddings" | "sentence-similarity" => Ok(Task::Embed),
        "text-ranking" | "sentence-ranking" => Ok(Task::Rerank),
        "text-classification" => Ok(Task::Classify),
        _ => s.parse::<Task>().map_err(|error| error.to_string()),
    }
}

fn parse_attention(s: &str) -> Result<AttentionMode, String> {
    s.parse::<AttentionMode>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Args, clap::Error> {
        Args::try_read(std::iter::once("prefold").chain(line.split_whitespace()))
    }

    #[test]
    fn the_command_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_published_benchmark_line_parses() {
        let args = read(
            "--model-id Qwen/Qwen3-Embedding-0.6B --port 3000 --max-client-batch-size 512 --auto-truncate \
             --max-batch-tokens 16384 --radix-mlp-threshold 0.95",
        )
        .unwrap();
        assert_eq!(args.model.source.model_id.as_deref(), Some("Qwen/Qwen3-Embedding-0.6B"));
        assert_eq!(args.server.port, 3000);
        assert_eq!(args.batching.max_client_batch_size, 512);
        assert!(args.batching.auto_truncate);
        assert_eq!(args.batching.max_batch_tokens, 16384);
        assert_eq!(args.batching.radix_mlp_threshold, 0.95);
    }

    #[test]
    fn defaults() {
        let args = read("").unwrap();
        assert_eq!(args.model.source.model_id, None);
        assert_eq!(args.server.hostname, "0.0.0.0");
        assert_eq!(args.server.port, 3000);
        assert_eq!(args.batching.max_concurrent_requests, 512);
        assert_eq!(args.batching.max_client_batch_size, 2048);
        assert_eq!(args.batching.radix_mlp_threshold, 0.95);
        assert_eq!(args.batching.scheduling, Scheduling::Prefix);
        assert_eq!(args.batching.max_batch_ragged_tokens, None);
        assert!(args.batching.auto_truncate);
        assert!(!args.telemetry.json_output && !args.telemetry.disable_spans);
    }

    #[test]
    fn auto_truncate_takes_a_value_or_none() {
        for (line, expected) in [
            ("--auto-truncate", true),
            ("--auto-truncate true", true),
            ("--auto-truncate false", false),
            ("--auto-truncate=false -p 1", false),
            ("--auto-truncate --json-output", true),
        ] {
            assert_eq!(read(line).unwrap().batching.auto_truncate, expected, "{line}");
        }
    }

    #[test]
    fn every_flag_is_an_environment_variable() {
        let command = Args::command();
        let flags: Vec<_> =
            command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")).collect();
        assert!(flags.len() > 25);
        for flag in flags {
            let long = flag.get_long().expect("every flag has a long name");
            let expected = match long {
                // So plain a name may be anybody's.
                "config" => "PREFOLD_CONFIG".to_owned(),
                // As Hugging Face's own tools have it.
                "offline" => "HF_HUB_OFFLINE".to_owned(),
                "download-timeout" => "HF_HUB_DOWNLOAD_TIMEOUT".to_owned(),
                _ => long.to_uppercase().replace('-', "_"),
            };
            assert_eq!(flag.get_env().and_then(|name| name.to_str()), Some(expected.as_str()), "--{long}");
        }
    }

    #[test]
    fn the_names_are_those_that_people_know() {
        let command = Args::command();
        for long in [
            "model-id",
            "revision",
            "tokenization-workers",
            "dtype",
            "served-model-name",
            "pooling",
            "dense-path",
            "max-concurrent-requests",
            "max-batch-tokens",
            "max-batch-requests",
            "max-client-batch-size",
            "auto-truncate",
            "default-prompt-name",
            "default-prompt",
            "hf-token",
            "hostname",
            "port",
            "huggingface-hub-cache",
            "payload-limit",
            "api-key",
            "json-output",
            "disable-spans",
            "cors-allow-origin",
            "prometheus-port",
            "otlp-endpoint",
            "otlp-service-name",
        ] {
            assert!(command.get_arguments().any(|arg| arg.get_long() == Some(long)), "--{long} is missing");
        }
        assert_eq!(read("--hf-api-token t").unwrap().model.source.hf_token.unwrap().expose(), "t");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, words) in [
            ("--dtype int8", "dtype `int8` is not known"),
            ("--device gpu", "device `gpu` is not known"),
            ("--dtype int4", "int4"),
            ("--pooling splade", "splade"),
            ("--task paint", "paint"),
            ("--attention paged", "paged"),
            ("--scheduling lifo", "prefix, fifo"),
            ("--max-batch-ragged-tokens 0", "at least 1"),
            ("--radix-mlp-threshold 1.5", "between 0 and 1"),
            ("--radix-mlp-threshold NaN", "between 0 and 1"),
            ("--max-batch-tokens 0", "at least 1"),
            ("--port 65536", "65535"),
            ("--default-prompt a --default-prompt-name b", "cannot be used with"),
            ("--no-such-flag", "--no-such-flag"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let args = read("--api-key hunter2 --hf-token hf_hunter3").unwrap();
        let shown = format!("{args:?}");
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(Args::command().get_arguments().filter(|a| a.is_hide_env_values_set()).count() == 2);
    }

    #[test]
    fn origins_are_a_list() {
        let args = read("--cors-allow-origin https://a.example,https://b.example").unwrap();
        assert_eq!(args.server.cors_allow_origin, ["https://a.example", "https://b.example"]);
    }
}
