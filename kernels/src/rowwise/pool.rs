//! Pooling functions: several rows to one.

/// Pooling function of a sequence's rows, in the order of their positions. A single row is returned unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// The mean.
    Mean,
    /// The maximum of each column.
    Max,
    /// The sum, divided by the square root of the number of rows.
    MeanSqrtLen,
    /// The mean with weights 1, 2, 3, ...
    WeightedMean,
}
