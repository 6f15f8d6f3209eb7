//! Pooling: the positions whose states are pooled, and the function that pools them.
//!
//! This is the one description; [`ops::Pool`](crate::ops::Pool) executes it on every device.

use crate::ops::PoolKind;
use prefold_core::Pooling;
use std::ops::Range;

/// Positions of a sequence of `len` tokens that are pooled.
pub(super) fn positions(pooling: Pooling, len: u32) -> Range<u32> {
    match pooling {
        Pooling::Cls => 0..1,
        Pooling::LastToken => len - 1..len,
        Pooling::Mean | Pooling::Max | Pooling::MeanSqrtLen | Pooling::WeightedMean => 0..len,
    }
}

/// `true` if one state of a sequence is enough.
pub(super) fn is_single(pooling: Pooling) -> bool {
    match pooling {
        Pooling::Cls | Pooling::LastToken => true,
        Pooling::Mean | Pooling::Max | Pooling::MeanSqrtLen | Pooling::WeightedMean => false,
    }
}

/// Function of the states.
pub(super) fn kind(pooling: Pooling) -> PoolKind {
    match pooling {
        Pooling::Cls | Pooling::LastToken | Pooling::Mean => PoolKind::Mean,
        Pooling::Max => PoolKind::Max,
        Pooling::MeanSqrtLen => PoolKind::MeanSqrtLen,
        Pooling::WeightedMean => PoolKind::WeightedMean,
    }
}
