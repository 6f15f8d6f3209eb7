//! Command lines, right and wrong.

use super::*;
use crate::cli::args::InputLength;
use prefold_core::Scheduling;

fn read(line: &str) -> Result<Args, clap::Error> {
    Cli::try_read(std::iter::once("prefold").chain(line.split_whitespace())).map(|cli| cli.serve)
}

#[test]
fn the_command_is_sound() {
    Cli::command().debug_assert();
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
    let command = Cli::command();
    let flags: Vec<_> = command.get_arguments().filter(|arg| arg.get_long().is_some()).collect();
    assert!(flags.len() > 25);
    for flag in flags {
        let long = flag.get_long().unwrap();
        let prefixed = format!("PREFOLD_{}", long.to_uppercase().replace('-', "_"));
        assert_eq!(environment::names(flag).first(), Some(&prefixed), "--{long}");
    }
    let names_of = |long| environment::names(command.get_arguments().find(|arg| arg.get_long() == Some(long)).unwrap());
    assert_eq!(names_of("max-batch-tokens"), ["PREFOLD_MAX_BATCH_TOKENS", "MAX_BATCH_TOKENS"]);
    assert_eq!(names_of("offline"), ["PREFOLD_OFFLINE", "HF_HUB_OFFLINE"]);
    assert_eq!(names_of("config"), ["PREFOLD_CONFIG"]);
    let of_cache = ["PREFOLD_HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"];
    assert_eq!(names_of("huggingface-hub-cache"), of_cache, "the newer name has priority");
    let of_token = ["PREFOLD_HF_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_API_TOKEN"];
    assert_eq!(names_of("hf-token"), of_token);
    // May be anybody's.
    for long in ["task", "device", "attention", "scheduling"] {
        assert_eq!(names_of(long).len(), 1, "--{long}");
    }
}

#[test]
fn a_model_may_stand_alone() {
    for line in
        ["org/name", "serve org/name", "--port 1 org/name", "serve --model-id org/name", "serve org/name --json-output"]
    {
        assert_eq!(read(line).unwrap().model.source.model_id.as_deref(), Some("org/name"), "{line}");
    }
    assert_eq!(read("serve").unwrap().model.source.model_id, None);
    for line in ["a --model-id b", "check-model a --model-id b", "accuracy --model-id b a"] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.contains("`a` and --model-id: give one of them"), "{line}: {error}");
    }
    assert!(read("check-model a").is_ok() && read("check-model --model-id a").is_ok());
    assert!(read("a b").is_err());
    for line in ["--port 1 serve", "--port 1 check-model"] {
        assert!(read(line).unwrap_err().to_string().contains("put it first"), "{line}");
    }
}

#[test]
fn several_values_of_a_flag_are_written_otherwise_than_in_vllm() {
    for line in [
        "model --served-model-name a b",
        "serve model --served-model-name a b",
        "--model-id model --served-model-name a b",
        "--served-model-name a b --model-id model",
        "--served-model-name a b model",
    ] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.contains("`b` after `--served-model-name a`") && error.contains("a,b"), "{line}: {error}");
    }
    for line in [
        "model --api-key a b",
        "serve model --api-key a b",
        "--model-id model --api-key a b",
        "model --api-key first --api-key a b",
    ] {
        let error = read(line).unwrap_err().to_string();
        let is_plain = error.contains("`--api-key KEY1 --api-key KEY2`") && !error.contains("'b'");
        assert!(is_plain && !error.contains("`b`"), "{line}: {error}");
    }
    let other = read("model --served-model-name a --default-prompt b --default-prompt-name c").unwrap_err().to_string();
    assert!(!other.contains("commas"), "{other}");
    assert_eq!(read("--served-model-name a model").unwrap().model.source.model_id.as_deref(), Some("model"));
}

#[test]
fn names_of_other_servers_are_understood() {
    let args = read("--max-num-batched-tokens 100 --max-num-seqs 7 --max-model-len 50 --host 127.0.0.1").unwrap();
    let batching = args.batching;
    assert_eq!(
        (batching.max_batch_tokens, batching.max_batch_requests, batching.max_input_length),
        (100, Some(7), Some(InputLength(Some(50))))
    );
    for (value, tokens) in [
        ("auto", Some(None)),
        ("-1", Some(None)),
        ("2k", Some(Some(2000))),
        ("2K", Some(Some(2048))),
        ("7", Some(Some(7))),
    ] {
        let read = read(&format!("--max-model-len {value}")).unwrap().batching.max_input_length;
        assert_eq!(read.map(|InputLength(tokens)| tokens), tokens, "{value}");
    }
    for value in ["0", "-2", "k", "1m", "1.5k", "99999999999999999999K"] {
        let error = read(&format!("--max-model-len={value}")).unwrap_err().to_string();
        assert!(
            error.contains("at least 1, also with k") && error.contains("--max-model-len is another name"),
            "{error}"
        );
    }
    assert!(!read("--max-input-length 0").unwrap_err().to_string().contains("another name"));
    assert_eq!(args.server.hostname, "127.0.0.1");
    for (name, dtype) in
        [("auto", None), ("half", Some("float16")), ("bf16", Some("bfloat16")), ("fp32", Some("float32"))]
    {
        let read = read(&format!("--dtype {name}")).unwrap().model.dtype.0;
        assert_eq!(read.map(|dtype| dtype.as_str()), dtype, "{name}");
    }
    for (name, task) in [("score", prefold_core::Task::Rerank), ("embedding", prefold_core::Task::Embed)] {
        assert_eq!(read(&format!("--task {name}")).unwrap().model.load.files.task, Some(task));
    }
    for flag in ["--max_model_len 5", "--ssl_certfile a", "--served_model_name=a", "--port_ 5"] {
        let error = read(flag).unwrap_err().to_string();
        assert_eq!(error.contains("is written with hyphens here"), flag != "--port_ 5", "{flag}: {error}");
    }
    for flag in [
        "--trust-remote-code",
        "--trust_remote_code",
        "--pooler-config.task embed",
        "--hf_overrides {}",
        "--enable-lora",
        "--enable-tokenizer-info-endpoint",
        "--no-enable-flash-late-interaction",
        "--gpu-memory-utilization 0.9",
        "--batch-size=3",
        "--tokenizer x",
        "--no-enable-log-requests",
        "--disable-uvicorn-access-log",
        "-tp 2",
        "-tp=2",
        "-dp 2",
        "-q=fp8",
        "-q fp8",
        "--model org/name",
    ] {
        let error = read(flag).unwrap_err().to_string();
        assert!(
            error.contains("is not a flag here; docs/migrating.md says: ") && !error.contains("similar"),
            "{flag}: {error}"
        );
    }
    for (flag, instead) in [
        ("--runner pooling", "`--task`"),
        ("--no-enable-prefix-caching", "compaction"),
        ("--seed 1", "leave out"),
        ("-q=fp8", "a GGUF file"),
        ("--model org/name", "`--model-id`"),
        ("--task reward", "`classify`"),
    ] {
        let error = read(flag).unwrap_err().to_string();
        assert!(error.contains(&format!("says: {instead}")), "{flag}: {error}");
    }
}

#[test]
fn a_second_model_is_named() {
    let error = read("org/name org/other").unwrap_err().to_string();
    assert!(error.contains("`org/other`: the model is given once"), "{error}");
    assert!(read("org/name bench").unwrap_err().to_string().contains("subcommand 'bench' cannot be used with"));
}

/// A second key, as vLLM takes it, is not looked up as a model on the hub.
#[test]
fn a_word_after_a_key_is_no_model() {
    for line in ["--api-key k secret/two", "--port 1 --api-key k secret/two --offline"] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.contains("a further key") && !error.contains("secret"), "{line}: {error}");
    }
    for line in ["org/name --api-key k", "--api-key k --model-id org/name", "--api-key k --port 1 org/name"] {
        assert_eq!(read(line).unwrap().model.source.model_id.as_deref(), Some("org/name"), "{line}");
    }
}

#[test]
fn the_names_are_those_that_people_know() {
    let command = Cli::command();
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
        ("--auto-truncate=maybe", "must be true or false"),
        ("--dtype int3", "unknown dtype `int3`; use auto, float32, bfloat16, float16 or int8"),
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
        ("--port 65536", "must be a whole number from 0 to 65535"),
        ("--port abc", "must be a whole number from 0 to 65535"),
        ("--client-timeout 0", "must be a whole number from 1 to 86400"),
        ("--max-batch-tokens 1.5", "must be a whole number, at least 1"),
        ("--max-batch-ms -1", "must be a whole number, at least 0"),
        ("--max-batch-ms 99999999999999999999", "must be a whole number from 0 to 18446744073709551615"),
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
    assert!(Cli::command().get_arguments().filter(|a| a.is_hide_env_values_set()).count() == 2);
}

#[test]
fn a_value_is_shown_unless_its_flag_is_a_secret() {
    let flag = |name| clap::Arg::new(name).long(name).value_parser(clap::value_parser!(u16));
    let mut command = clap::Command::new("x").args([flag("key").hide_env_values(true), flag("size")]);
    for (line, shown) in [(["x", "--key", "hunter2"], "'...'"), (["x", "--size", "hunter2"], "'hunter2'")] {
        let error = command.clone().try_get_matches_from(line).unwrap_err();
        let message = without_secret(&error, &mut command);
        assert!(message.contains(&format!("invalid value {shown}")), "{message}");
    }
}

#[test]
fn variables_that_no_flag_has_are_told_with_the_name_that_may_be_meant() {
    let command = Cli::command();
    let unknown = |name: &str, value: &str| environment::unknown(&command, [(name.to_owned(), value.to_owned())]);
    for (name, value, hint) in [
        ("PREFOLD_MAX_BATCH_TOKNS", "5", "; is PREFOLD_MAX_BATCH_TOKENS meant?"),
        ("PREFOLD_BENCH_CONCURENCY", "5", "; is PREFOLD_BENCH_CONCURRENCY meant?"),
        ("PREFOLD_COLOUR", "red", " (prefold --help lists all flags)"),
    ] {
        let told = unknown(name, value);
        assert_eq!(told, [format!("the environment variable {name} matches no flag and is ignored{hint}")]);
    }
    for (name, value) in [
        ("PREFOLD_MAX_BATCH_TOKENS", "5"),
        ("PREFOLD_CONFIG", "a"),
        ("PREFOLD_CHECK_MODEL_POOLING", "mean"),
        ("PREFOLD_ACCURACY_DTYPE", "int8"),
        ("PREFOLD_MAX_BATCH_TOKNS", ""),
        ("MAX_BATCH_TOKNS", "5"),
        ("PREFOLD_SERVICE_HOST", "10.0.0.1"),
        ("PREFOLD_SERVICE_PORT", "80"),
        ("PREFOLD_SERVICE_PORT_HTTP", "80"),
        ("PREFOLD_PORT", "tcp://10.0.0.1:80"),
        ("PREFOLD_CPU_PORT", "tcp://10.0.0.1:80"),
        ("PREFOLD_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("PREFOLD_CPU_PORT_80_TCP_ADDR", "10.0.0.1"),
    ] {
        assert!(unknown(name, value).is_empty(), "{name}");
    }
}

#[test]
fn addresses_of_services_in_variables_of_ports_are_told() {
    let command = Cli::command();
    let links = |name: &str, value: &str| environment::service_links(&command, [(name.to_owned(), value.to_owned())]);
    for name in ["PORT", "PREFOLD_PORT", "PROMETHEUS_PORT", "PREFOLD_PROMETHEUS_PORT"] {
        let told = links(name, "tcp://10.0.0.1:3000");
        assert!(told.len() == 1 && told[0].contains(name) && told[0].contains("is ignored"), "{told:?}");
        assert!(links(name, "3000").is_empty(), "{name}");
    }
    assert!(links("REDIS_PORT", "tcp://10.0.0.1:3000").is_empty() && links("HF_ENDPOINT", "https://hub").is_empty());
}

#[test]
fn keys_in_variables_of_other_servers_are_told() {
    let unread = |name: &str, value: &str| environment::unread_keys([(name.to_owned(), value.to_owned())]);
    for name in ["VLLM_API_KEY", "INFINITY_API_KEY"] {
        let told = unread(name, "hunter2");
        assert!(told.len() == 1 && told[0].contains(name) && told[0].contains("API_KEY or --api-key"), "{told:?}");
        assert!(told[0].contains("no key is required") && !told[0].contains("hunter2"), "{told:?}");
        assert!(unread(name, "").is_empty(), "{name}");
    }
    assert!(unread("API_KEY", "a").is_empty() && unread("OPENAI_API_KEY", "a").is_empty());
}

#[test]
fn numbers_of_threads_that_libraries_read_are_checked() {
    let check = |name: &'static str, value: &'static str| {
        environment::check_threads(|asked| (asked == name).then(|| value.into())).err().unwrap_or_default()
    };
    for (name, value) in [
        ("TOKIO_WORKER_THREADS", "1"),
        ("TOKIO_WORKER_THREADS", "1024"),
        ("RAYON_NUM_THREADS", ""),
        ("RAYON_NUM_THREADS", "0"),
        ("RAYON_NUM_THREADS", "64"),
    ] {
        assert_eq!(check(name, value), "", "{name}={value}");
    }
    for value in ["", "0", "-1", "two", "1025", "18446744073709551616", "NaN"] {
        let problem = format!("TOKIO_WORKER_THREADS is `{value}`; it must be a whole number from 1 to 1024");
        assert!(check("TOKIO_WORKER_THREADS", value).ends_with(&problem), "{value}");
    }
    assert!(check("RAYON_NUM_THREADS", "4294967296").ends_with("from 0 to 1024"));
}

#[test]
fn origins_are_a_list() {
    let args = read("--cors-allow-origin https://a.example,https://b.example").unwrap();
    assert_eq!(args.server.cors_allow_origin, ["https://a.example", "https://b.example"]);
}
