//! The functions that make one row of several.

/// Function of a sequence's rows, in the order of their positions. What is made of one row is the row itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// Their mean.
    Mean,
    /// The largest value of each column.
    Max,
    /// Their sum, divided by the root of their number.
    MeanSqrtLen,
    /// Their mean with weights 1, 2, 3, ...
    WeightedMean,
}
