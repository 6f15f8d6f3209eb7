//! The command line as the process was given it.

use std::env;
use std::ffi::OsString;

/// Arguments of the command `prefold`, and how to start the same program again.
#[derive(Debug, Clone)]
pub struct CommandLine {
    /// Program and leading arguments that start `prefold` in a new process.
    pub program: Vec<OsString>,
    /// Arguments after the program.
    pub arguments: Vec<OsString>,
}

impl CommandLine {
    /// The line of this process, whose executable is the program.
    pub fn of_process() -> Self {
        let mut arguments = env::args_os();
        let name = arguments.next().unwrap_or_else(|| "prefold".into());
        let program = env::current_exe().map_or(name, OsString::from);
        Self { program: vec![program], arguments: arguments.collect() }
    }
}
