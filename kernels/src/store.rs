//! Replacement of or addition to an output.

/// Whether an operation replaces its output or adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// The output becomes the result.
    Overwrite,
    /// The result is added to the output.
    Accumulate,
}
