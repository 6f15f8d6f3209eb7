//! The server over a backend that fails as it is told. For tests; never part of a release.
//!
//! `PREFOLD_FAULTS` says how, see [`Faults`]: `seed=1,panic=0.02,nan=0.02`. As `@FILE` it names a file that holds the
//! same and is read anew before every batch, so that a test can start and end a fault.
#![forbid(unsafe_code)]

mod backend;
mod faults;
mod source;

use crate::backend::FaultyBackend;
use crate::source::Source;
use prefold_core::Backend;
use std::process::ExitCode;
use std::sync::OnceLock;

/// The variable that says how to fail.
const VARIABLE: &str = "PREFOLD_FAULTS";

/// Read before the server starts, because [`prefold::Wrap`] brings nothing along.
static SOURCE: OnceLock<Source> = OnceLock::new();

fn main() -> ExitCode {
    match Source::parse(&std::env::var(VARIABLE).unwrap_or_default()) {
        Ok(source) => SOURCE.get_or_init(|| source),
        Err(problem) => {
            eprintln!("error: {VARIABLE}: {problem}");
            return ExitCode::from(2);
        }
    };
    prefold::run(wrap)
}

fn wrap(backend: Box<dyn Backend>) -> Box<dyn Backend> {
    Box::new(FaultyBackend::new(backend, SOURCE.get().cloned().unwrap_or_default()))
}
