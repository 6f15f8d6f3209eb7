//! The server; all of it is in the library.
#![forbid(unsafe_code)]

use prefold::CommandLine;
use std::convert::identity;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    prefold::run(&CommandLine::of_process(), identity)
}
