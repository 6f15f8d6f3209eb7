//! Flags from a TOML file, for settings that are neither on the command line nor in the environment.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::any::TypeId;
use std::ffi::OsString;
use std::ops::Range;
use thiserror::Error;
use toml::{Table, Value};

/// Errors in a configuration file. No message quotes a line of the file, which may hold secrets.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("line {line}: {problem} (the format is TOML, as in `max-batch-tokens = 16384`)")]
    Syntax { line: usize, problem: String },
    #[error("`{key}` is not a flag{hint}")]
    Unknown { key: String, hint: String },
    #[error("`{key}` is {is}; it must be {expected}")]
    Type { key: String, is: &'static str, expected: &'static str },
    #[error("`{0}` and `{1}` are the same flag; give one of them")]
    Twice(String, String),
}

/// Settings of the file as arguments, without settings that `matches` has from the command line or environment, or that
/// contradict these.
///
/// Keys are flag names or their aliases, with `-` or `_` between words.
///
/// # Errors
/// [`FileError`]: the text is not TOML, or a key is not a flag.
pub(crate) fn arguments(text: &str, command: &Command, matches: &ArgMatches) -> Result<Vec<OsString>, FileError> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| FileError::Syntax {
        line: line_of(text, error.span()),
        problem: error.message().to_owned(),
    })?;
    let mut arguments = Vec::new();
    let mut seen: Vec<(&Arg, &String)> = Vec::new();
    for (key, value) in &table {
        let flag = find(command, key)?;
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == flag) {
            return Err(FileError::Twice(String::clone(other), key.clone()));
        }
        seen.push((flag, key));
        let given = given(flag, key, value)?;
        let has_priority = |other: &Arg| other == flag || contradict(command, other, flag);
        if !command.get_arguments().any(|other| is_explicit(matches, other) && has_priority(other)) {
            arguments.extend(given);
        }
    }
    Ok(arguments)
}

fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let end = span.map_or(0, |span| span.start.min(text.len()));
    text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn is_explicit(matches: &ArgMatches, flag: &Arg) -> bool {
    let source = matches.value_source(flag.get_id().as_str());
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// True if either flag excludes the other.
fn contradict(command: &Command, one: &Arg, other: &Arg) -> bool {
    command.get_arg_conflicts_with(one).contains(&other) || command.get_arg_conflicts_with(other).contains(&one)
}

/// The flag of a key.
///
/// # Errors
/// [`FileError::Unknown`]
pub(super) fn find<'a>(command: &'a Command, key: &str) -> Result<&'a Arg, FileError> {
    let long = key.replace('_', "-");
    let in_a_file = |flag: &&Arg| !matches!(flag.get_id().as_str(), "help" | "version" | "config");
    let mut flags = command.get_arguments().filter(in_a_file);
    let is_named = |flag: &&Arg| {
        let aliases = flag.get_all_aliases().unwrap_or_default();
        flag.get_long() == Some(&long) || flag.get_long().is_some() && aliases.contains(&&*long)
    };
    flags.find(is_named).ok_or_else(|| {
        let hint = match command.get_arguments().filter_map(Arg::get_long).find(|known| differ_by_one(known, &long)) {
            Some(known) if known == long => " here; give it on the command line".to_owned(),
            Some(known) => format!("; is `{known}` meant?"),
            None => " (prefold --help lists all flags)".to_owned(),
        };
        FileError::Unknown { key: key.to_owned(), hint }
    })
}

/// True if the words differ by one inserted or replaced letter.
pub(super) fn differ_by_one(a: &str, b: &str) -> bool {
    let same_start = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let same_end = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    a.len().abs_diff(b.len()) <= 1 && same_start + same_end + 1 >= a.len().max(b.len())
}

/// The flag and its value in the form of the command line.
///
/// # Errors
/// [`FileError::Type`]
pub(super) fn given(flag: &Arg, key: &str, value: &Value) -> Result<Vec<OsString>, FileError> {
    let long = flag.get_long().unwrap_or_default();
    let wrong = |value: &Value, expected| FileError::Type { key: key.to_owned(), is: kind(value), expected };
    let switch = matches!(flag.get_action(), ArgAction::SetTrue);
    let is_boolean = flag.get_value_parser().type_id() == TypeId::of::<bool>();
    let values = match value {
        Value::Boolean(on) if switch => return Ok(on.then(|| format!("--{long}").into()).into_iter().collect()),
        Value::Boolean(_) if is_boolean => vec![value],
        _ if switch || is_boolean => return Err(wrong(value, "true or false")),
        Value::Array(items) if matches!(flag.get_action(), ArgAction::Append) => items.iter().collect(),
        one => vec![one],
    };
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(on) => Ok(on.to_string()),
        Value::Array(_) | Value::Table(_) | Value::Datetime(_) => Err(wrong(value, "a text, a number, true or false")),
    };
    values.into_iter().map(|value| Ok(format!("--{long}={}", text(value)?).into())).collect()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
        Value::Datetime(_) => "a date",
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::args::Args;
    use crate::cli::parsing::Cli;
    use std::io::Write;

    fn read(file: &str, line: &str) -> Result<Args, String> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file.as_bytes()).unwrap();
        let path = on_disk.path().to_str().unwrap();
        let line = ["prefold", "--config", path].into_iter().chain(line.split_whitespace());
        let read = Cli::try_read(line).map_err(|error| error.to_string().replace(path, "FILE"))?;
        Ok(read.serve)
    }

    #[test]
    fn settings_come_from_the_file_unless_the_command_line_has_them() {
        let file = "max-batch-tokens = 100\nradix_mlp_threshold = 0.5\nauto-truncate = false\njson-output = true\n\
                    protect-docs = false\ncors-allow-origin = ['https://a.example', 'https://b.example']\n\
                    served-model-name = 'a,b'\nmodel-id = 'models/x y'\napi-key = ['k', 'l']\n";
        let args = read(file, "--max-batch-tokens 200").unwrap();
        assert_eq!((args.batching.max_batch_tokens, args.batching.radix_mlp_threshold), (200, 0.5));
        assert!(!args.batching.auto_truncate && args.telemetry.json_output && !args.server.protect_docs);
        assert_eq!(args.server.cors_allow_origin, ["https://a.example", "https://b.example"]);
        assert_eq!(args.model.served_model_name, ["a", "b"]);
        assert_eq!(args.model.source.model_id.as_deref(), Some("models/x y"));
        assert_eq!(args.server.api_key, ["k".parse().unwrap(), "l".parse().unwrap()]);
        assert_eq!(args.batching.max_concurrent_requests, 512);
        assert_eq!(read("host = '::1'\nmax_model_len = 7", "").unwrap().server.hostname, "::1");
        // A list of the command line replaces the file's.
        assert_eq!(read(file, "--cors-allow-origin https://c.example").unwrap().server.cors_allow_origin.len(), 1);
    }

    #[test]
    fn what_contradicts_the_command_line_is_left_out() {
        let args = read("default-prompt = 'a'", "--default-prompt-name b").unwrap();
        assert_eq!(
            (args.model.load.files.default_prompt, args.model.load.files.default_prompt_name.as_deref()),
            (None, Some("b"))
        );
        let both = read("default-prompt = 'a'\ndefault-prompt-name = 'b'", "").unwrap_err();
        assert!(both.contains("FILE") && both.contains("cannot be used with"), "{both}");
    }

    #[test]
    fn what_is_wrong_is_said_and_secrets_are_not() {
        for (file, words) in [
            ("max-batch-token = 1", "`max-batch-token` is not a flag; is `max-batch-tokens` meant?"),
            ("colour = 'red'", "`colour` is not a flag (prefold --help lists all flags)"),
            ("config = 'x'", "`config` is not a flag here; give it on the command line"),
            ("max-batch-tokens = 0", "at least 1"),
            ("max-batch-tokens = 'many'", "invalid value 'many' for '--max-batch-tokens"),
            ("max-batch-tokens = -1", "invalid value '-1' for '--max-batch-tokens"),
            ("json-output = 'yes'", "`json-output` is a text; it must be true or false"),
            ("strict-fields = 'false'", "`strict-fields` is a text; it must be true or false"),
            ("auto-truncate = 'no'", "`auto-truncate` is a text; it must be true or false"),
            ("auto-truncate = 1", "`auto-truncate` is a number; it must be true or false"),
            ("offline = [true]", "`offline` is a list; it must be true or false"),
            ("port = [1]", "`port` is a list; it must be"),
            ("[server]\nport = 1", "`server` is not a flag"),
            ("port = 1\nport = 2", "line 2"),
            ("port: 3000", "(the format is TOML, as in `max-batch-tokens = 16384`)"),
            (
                "max-batch-tokens = 1\nmax_batch_tokens = 2",
                "`max-batch-tokens` and `max_batch_tokens` are the same flag",
            ),
            ("host = '::'\nhostname = '::1'", "`host` and `hostname` are the same flag"),
            ("port = 1\n\napi-key = hunter2", "line 3"),
            ("port = 1\napi-key = 'hunter2", "line 2"),
        ] {
            let error = read(file, "").expect_err(file);
            assert!(error.contains("FILE") && error.contains(words), "{file}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let missing = Cli::try_read(["prefold", "--config", "/no/such.toml"]).unwrap_err().to_string();
        assert!(missing.contains("/no/such.toml") && missing.contains("No such file"), "{missing}");
    }
}
