//! Replacement of or addition to an output.

/// Replacement of an output's values, or addition to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// The output becomes the result.
    Overwrite,
    /// The result is added to the output.
    Accumulate,
}
