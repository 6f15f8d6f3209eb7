//! Lines on standard output.

use std::fmt::Display;
use std::io::{Write, stdout};

/// Prints a line. A reader that has left, such as `head`, ends nothing: what else the command writes is still wanted.
pub fn print_line(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}
