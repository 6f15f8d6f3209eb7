//! Extreme values of every numeric flag, on the command line and in a file: a server starts with them and answers, or an error names
//! the flag, the value and the limit.

use super::Config;
use crate::cli::args::InputLength;
use crate::cli::parsing::Cli;
use crate::error::flag as flag_of;
use crate::loading::StartError;
use crate::server::connections;
use crate::server::routing;
use crate::testing::{Setup, embedding};
use clap::CommandFactory;
use std::any::TypeId;
use std::ffi::OsString;
use std::future::pending;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio::net::TcpListener;

const VALUES: [&str; 20] = [
    "0",
    "1",
    "2",
    "-1",
    "0.5",
    "1.0",
    "1e9",
    "2147483647",
    "2147483648",
    "4294967296",
    "1152921504606846976",
    "1152921504606846977",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "NaN",
    "inf",
    "-inf",
    "1e400",
];

/// Words by which a message names a limit.
const LIMITS: [&str; 10] = [
    "at least 1",
    "at least 0",
    "must be a whole number from",
    "must be between 0 and 1",
    "must be a number between 0 and 1",
    "it must be at least",
    "can be used",
    "it must divide",
    "less than --payload-limit",
    "limit is",
];

/// Names of the flags whose values are numbers.
fn numeric() -> Vec<String> {
    let types = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i64>(),
        TypeId::of::<f32>(),
        TypeId::of::<f64>(),
        TypeId::of::<InputLength>(),
    ];
    let command = Cli::command();
    let is_number = |flag: &&clap::Arg| types.iter().any(|known| flag.get_value_parser().type_id() == *known);
    command.get_arguments().filter(is_number).filter_map(|flag| Some(flag.get_long()?.to_owned())).collect()
}

/// Starts what a configuration sizes, and asks it for an answer. Its model is the fake one.
///
/// # Errors
/// A setting is refused.
async fn start(config: Config) -> Result<(), String> {
    let setup = Setup { engine: config.engine, http: config.server.http, ..Setup::new(embedding()) };
    let app = setup.try_build().map_err(|error| StartError::from(error).to_string())?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (routes, limits) = (routing::router(app), config.server.serving.connections);
    let serving = connections::serve(listener.into(), move || routes.clone(), limits, Arc::default(), pending::<()>());
    let serving = tokio::spawn(serving);
    let ask = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let body = r#"{"inputs":"a b c"}"#;
        let head = "POST /embed HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length";
        write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = tokio::task::spawn_blocking(ask).await.unwrap();
    serving.abort();
    // A body of at most one byte, or a text that is too long, is the client's fault.
    assert!(["200", "413"].iter().any(|status| answer.starts_with(&format!("HTTP/1.1 {status}"))), "{answer}");
    Ok(())
}

/// Runs with these arguments as far as to the first answer.
async fn run(arguments: &[&str]) -> Result<(), String> {
    start(read(arguments)?).await
}

fn read<T: Into<OsString> + Clone>(arguments: impl IntoIterator<Item = T>) -> Result<Config, String> {
    let cli = Cli::try_read(arguments).map_err(|error| error.to_string())?;
    Config::try_from(cli.serve).map_err(|error| error.to_string())
}

fn check_message(message: &str, flag: &str, value: &str) {
    let shown = value.strip_suffix(".0").unwrap_or(value);
    for part in [&flag_of(flag), shown] {
        assert!(message.contains(part), "--{flag} {value}: {part} is missing in: {message}");
    }
    assert!(LIMITS.iter().any(|limit| message.contains(limit)), "--{flag} {value}: no limit in: {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_number_starts_a_server_or_is_refused_with_its_limit() {
    let flags = numeric();
    assert_eq!(flags.len(), 24, "{flags:?}");
    let mut started = 0;
    for flag in &flags {
        for value in VALUES {
            match run(&["prefold", &format!("--{flag}={value}")]).await {
                Ok(()) => started += 1,
                Err(message) => check_message(&message, flag, value),
            }
        }
    }
    assert!(started > 3 * flags.len(), "{started}");
}

#[test]
fn numbers_of_a_file_are_refused_alike() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("prefold.toml");
    for flag in &numeric() {
        for value in VALUES {
            let read_file = |text: String| {
                std::fs::write(&path, text).unwrap();
                read(["prefold", "--config", path.to_str().unwrap()]).map(drop)
            };
            let line = read(["prefold".to_owned(), format!("--{flag}={value}")]);
            let text = read_file(format!("{flag} = '{value}'"));
            assert_eq!(text.is_ok(), line.is_ok(), "{flag} = '{value}': {text:?}");
            text.err().iter().for_each(|message| check_message(message, flag, value));
            // Numbers as TOML writes them; TOML has no numbers of more than 64 bits.
            let number = read_file(format!("{flag} = {}", value.to_lowercase()));
            match number {
                Ok(()) => {}
                Err(message) if message.contains("line 1: ") => {}
                Err(message) => assert!(message.contains(&flag_of(flag)), "{flag} = {value}: {message}"),
            }
        }
    }
}
