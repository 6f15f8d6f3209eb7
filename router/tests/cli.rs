//! The binary's command line and environment, as far as it gets without a model.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers for code outside of tests")]

use std::path::Path;
use std::process::{Command, Output};

fn prefold(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prefold"));
    command.env_clear().args(arguments).envs(variables.iter().copied()).output().unwrap()
}

/// The exit code and everything that was written.
fn fails(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = prefold(arguments, variables);
    assert!(!output.status.success());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn help_groups_the_flags_and_shows_no_secret() {
    let output = prefold(&["--help"], &[("API_KEY", "hunter2"), ("HF_TOKEN", "hunter3"), ("PORT", "4711")]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    for heading in ["Model:", "Batching:", "Server:", "Telemetry:"] {
        assert!(help.contains(heading), "{heading}");
    }
    assert!(help.contains("PORT=4711") && help.contains("API_KEY"), "{help}");
    assert!(!help.contains("hunter"), "{help}");
}

#[test]
fn the_environment_counts_and_flags_win() {
    let (code, text) = fails(&[], &[("MAX_BATCH_TOKENS", "0")]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--max-batch-tokens") && text.contains("at least 1"), "{text}");
    let (code, text) =
        fails(&["--max-batch-tokens", "5"], &[("MAX_BATCH_TOKENS", "0"), ("MODEL_ID", "/no/such/model")]);
    assert_eq!(code, Some(2));
    assert!(text.contains("/no/such/model") && text.contains("no such file"), "{text}");
    for name in ["JSON_OUTPUT", "DISABLE_SPANS", "AUTO_TRUNCATE"] {
        for value in ["1", "true", "no"] {
            let (_, text) = fails(&["--model-id", "/no/such/model"], &[(name, value)]);
            assert!(text.contains("no such file"), "{name}={value}: {text}");
        }
        assert!(fails(&[], &[(name, "perhaps")]).1.contains("perhaps"), "{name}");
    }
}

#[test]
fn numbers_of_the_environment_have_the_limits_of_the_flags() {
    for (name, value, words) in [
        ("PREFOLD_MAX_CONNECTIONS", "1152921504606846977", "--max-connections"),
        ("PREFOLD_TOKENIZATION_WORKERS", "1025", "--tokenization-workers"),
        ("TOKENIZATION_WORKERS", "18446744073709551615", "--tokenization-workers"),
        ("PREFOLD_RADIX_MLP_THRESHOLD", "NaN", "--radix-mlp-threshold"),
        ("TOKIO_WORKER_THREADS", "0", "a whole number from 1 to 1024"),
        ("RAYON_NUM_THREADS", "100000", "a whole number from 0 to 1024"),
    ] {
        let (code, text) = fails(&[], &[(name, value)]);
        assert_eq!(code, Some(2), "{name}={value}: {text}");
        assert!(text.contains(name) && text.contains(value) && text.contains(words), "{name}={value}: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn threads_that_the_system_refuses_are_an_error_and_not_a_panic() {
    // No address space has room for such a stack.
    let (code, text) = fails(&["--port", "0"], &[("RUST_MIN_STACK", "70000000000000"), ("RAYON_NUM_THREADS", "5")]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains(
            "thread 1 of 5 (by the environment variable RAYON_NUM_THREADS, or one per core) cannot be started: "
        ),
        "{text}"
    );
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn a_subcommand_stands_alone() {
    let (code, text) = fails(&["--port", "1", "bench"], &[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("subcommand 'bench' cannot be used with"), "{text}");
    // Variables are meant for the server; they must not keep a subcommand from running.
    let output = prefold(&["bench", "--help"], &[("PORT", "4711"), ("API_KEY", "hunter2")]);
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && help.contains("--url") && !help.contains("hunter"), "{help}");
}

#[test]
fn a_model_that_cannot_be_loaded_is_an_error_and_not_a_crash() {
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty-model");
    std::fs::create_dir_all(&empty).unwrap();
    let path = empty.to_str().unwrap();
    let (code, text) = fails(&["--model-id", path, "--port", "0"], &[]);
    assert_eq!(code, Some(1));
    assert!(text.contains("the model could not be loaded") && text.contains("config.json"), "{text}");
    assert!(!text.contains("panicked"), "{text}");

    let (code, text) = fails(&["--model-id", path, "--port", "0", "--json-output"], &[]);
    assert_eq!(code, Some(1));
    assert!(text.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{text}");
}

#[cfg(feature = "builtin-model")]
#[test]
fn what_cannot_be_started_is_refused_with_its_reason() {
    let (code, text) = fails(&["--default-prompt-name", "nix", "--port", "0"], &[]);
    assert_eq!(code, Some(1));
    assert!(text.contains("--default-prompt-name nix") && text.contains("it has: document, query"), "{text}");
    // A container's own name in HOSTNAME is not an address; one in the flag is, and must exist.
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, text) = fails(&["--port", &port], &[("HOSTNAME", "container-1.invalid")]);
    assert_eq!(code, Some(1));
    assert!(text.contains(&format!("cannot listen on 0.0.0.0:{port}")), "{text}");
    let (code, text) = fails(&["--port", "0", "--hostname", "container-1.invalid"], &[]);
    assert_eq!(code, Some(1));
    assert!(text.contains("cannot listen on container-1.invalid:0"), "{text}");
}

#[test]
fn names_in_a_models_files_begin_no_line_of_a_check() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/qwen3-tiny");
    let model = Path::new(env!("CARGO_TARGET_TMPDIR")).join("names-of-prompts");
    std::fs::create_dir_all(model.join("1_Pooling")).unwrap();
    for file in ["config.json", "modules.json", "1_Pooling/config.json"] {
        std::fs::copy(fixture.join(file), model.join(file)).unwrap();
    }
    let names: Vec<String> = (0..256).map(|it| format!(r#""\n\u001b[31m{it}{}": """#, "x".repeat(100))).collect();
    let prompts = format!(r#"{{"prompts": {{{}}}}}"#, names.join(","));
    std::fs::write(model.join("config_sentence_transformers.json"), prompts).unwrap();
    let output = prefold(&["check-model", model.to_str().unwrap()], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains(r"  prompts     \n\u{1b}[31m0xxx"), "{text}");
    assert!(text.len() < 4000 && text.contains(" and 236 more") && !text.contains('\u{1b}'), "{text}");
}
