//! How an operation writes its output.

/// Replaces the output or adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// The result.
    Overwrite,
    /// What was there, plus the result.
    Accumulate,
}
