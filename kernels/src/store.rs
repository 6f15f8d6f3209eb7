//! Replacement of or addition to an output.

/// What an operation does with the values of its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// The output becomes the result.
    Overwrite,
    /// The result is added to the output.
    Accumulate,
}
