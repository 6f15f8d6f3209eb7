//! Command lines as configurations.

use super::*;
use crate::cli::parsing::Cli;
use crate::error::flag;
use crate::state::HttpConfig;
use clap::CommandFactory;
use prefold_backends::{DefaultPrompt, ModelSource};
use prefold_core::RerankRecipe;
use std::path::Path;

fn config(line: &str) -> Result<Config, ConfigError> {
    Cli::try_read(std::iter::once("prefold").chain(line.split_whitespace())).unwrap().serve.try_into()
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
fn nothing_is_protected_without_keys() {
    for flag in ["protect-docs", "protect-metrics"] {
        assert!(refused(&format!("--{flag}")).to_string().starts_with(&format!("`--{flag}` needs --api-key")));
        assert!(config(&format!("--{flag} --api-key k")).is_ok());
    }
}

#[test]
fn a_revision_is_one_of_a_model() {
    assert!(refused("--revision main").to_string().contains("`--model-id` is missing"));
    assert!(refused("--model-id /tmp --revision main").to_string().contains("`--model-id /tmp` is a path"));
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
    for url in ["https://huggingface.co/org/name", "http://hub/org/name/tree/main", "https://hf.co/org/name?a=b"] {
        let error = refused(&format!("--model-id {url}")).to_string();
        assert_eq!(error, format!("`--model-id {url}` is a URL; give the model's id, `org/name`"));
    }
    assert!(matches!(refused("--model-id https://huggingface.co/org"), ConfigError::NoSuchPath(_)));
    let named = config("--model-id prefold-mini").unwrap();
    assert!(matches!(named.load.source, ModelSource::Embedded(_)) && named.names.id == "prefold-mini");
    for id in ["qwen3", "Qwen/", "org/na!me", "org/näme"] {
        let error = refused(&format!("--model-id {id}"));
        assert!(error.to_string().contains(id), "{error}");
    }
}

#[test]
fn what_no_device_has_is_refused_before_the_model_is_opened() {
    let here = |flags: &str| refused(&format!("--model-id {} {flags}", env!("CARGO_MANIFEST_DIR"))).to_string();
    for (flags, words) in [
        ("--device cpu --dtype float16", "--dtype float16 is for GPUs"),
        ("--device cpu --cpu-kernels neon", "--cpu-kernels: kernels `neon` are not available on this CPU (auto, "),
        ("--device cpu --cpu-replicas 5000", "--cpu-replicas: 5000 replicas need a core each"),
        ("--device cuda --cpu-replicas 2", "--cpu-replicas: 2 replicas are for a CPU"),
    ] {
        assert!(here(flags).contains(words), "{flags}: {}", here(flags));
    }
}

#[test]
fn settings_that_do_not_fit_each_other_are_refused_by_their_flags() {
    let here = |flags: &str| refused(&format!("--model-id {} {flags}", env!("CARGO_MANIFEST_DIR"))).to_string();
    assert_eq!(
        here("--max-batch-tokens 32 --max-batch-ragged-tokens 16"),
        "`--max-batch-ragged-tokens` is 16, it must be at least the 32 distinct tokens of a batch"
    );
    assert_eq!(
        here("--max-batch-tokens 32 --radix-mlp-pad 5"),
        "`--radix-mlp-pad` is 5, it must divide the 32 distinct tokens of a batch"
    );
    assert_eq!(here("--max-batch-tokens 4294967296"), "`--max-batch-tokens` is 4294967296, the limit is 2147483647");
}

#[test]
fn every_setting_of_the_engine_is_a_flag() {
    let flags: Vec<String> =
        Cli::command().get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    let settings = format!("{:?},{:?}", EngineConfig::default(), ProcessLimits::default());
    let names = settings.split(['{', ',']).filter_map(|part| part.split_once(": ")).map(|(name, _)| flag(name.trim()));
    let unknown: Vec<String> = names.filter(|name| !flags.iter().any(|flag| format!("--{flag}") == *name)).collect();
    assert_eq!(unknown, ["--caches-words"], "`--share-prefixes` says it");
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
    assert_eq!(config("--default-prompt hi").unwrap().load.default_prompt, Some(DefaultPrompt::Text("hi".to_owned())));
    assert_eq!(
        config("--default-prompt-name query").unwrap().load.default_prompt,
        Some(DefaultPrompt::Named("query".to_owned()))
    );
    assert!(config("").unwrap().server.http.allowed_origins.is_none());
    assert!(config("--cors-allow-origin *").unwrap().server.http.allowed_origins.is_none());
    let origins = config("--cors-allow-origin https://a.example").unwrap().server.http.allowed_origins;
    assert_eq!(origins.unwrap(), ["https://a.example"]);
    for origin in ["a.example", "https://a.example/", "https://a.example/path", "HTTPS://A.example", "https://", "://a"]
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
    // Without flags the settings equal the defaults of `routes`.
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
    let endpoint = |url: &str| config(&format!("--otlp-endpoint {url}")).unwrap().telemetry.traces.unwrap().endpoint;
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

#[test]
fn metrics_have_a_port_of_their_own() {
    let error = refused("--port 4000 --prometheus-port 4000").to_string();
    assert!(error.contains("`--port` and `--prometheus-port` are both 4000"), "{error}");
    for good in
        ["--port 0 --prometheus-port 0", "--port 4000 --prometheus-port 4001", "--prometheus-port 3000 --uds-path s"]
    {
        assert!(config(good).is_ok(), "{good}");
    }
}
