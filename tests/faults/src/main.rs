//! The server with a fault-injecting backend. For tests; never part of a release.
//!
//! `PREFOLD_FAULTS` configures the faults, such as `seed=1,panic=0.02,nan=0.02` (see [`Faults`]). `@FILE` names a file
//! with the same content, read again before every batch, so that a test can enable and disable faults.
#![forbid(unsafe_code)]

mod backend;
mod faults;
mod freeze;
mod source;

use crate::backend::FaultyBackend;
use crate::source::Source;
use prefold::CommandLine;
use prefold_core::ModelBackend;
use std::process::ExitCode;
use std::sync::OnceLock;

/// Environment variable with the faults.
const VARIABLE: &str = "PREFOLD_FAULTS";

/// Set before the server starts, because [`prefold::Wrap`] is a plain function without captures.
static SOURCE: OnceLock<Source> = OnceLock::new();

fn main() -> ExitCode {
    match Source::parse(&std::env::var(VARIABLE).unwrap_or_default()) {
        Ok(source) => SOURCE.get_or_init(|| source),
        Err(problem) => {
            eprintln!("error: {VARIABLE}: {problem}");
            return ExitCode::from(2);
        }
    };
    prefold::run(&CommandLine::of_process(), wrap)
}

fn wrap(backend: ModelBackend) -> ModelBackend {
    freeze::learn_runtime();
    let source = SOURCE.get().cloned().unwrap_or_default();
    match backend {
        ModelBackend::Prefix(inner) => ModelBackend::Prefix(Box::new(FaultyBackend::new(inner, source))),
        ModelBackend::Whole(inner) => ModelBackend::Whole(Box::new(FaultyBackend::new(inner, source))),
    }
}
