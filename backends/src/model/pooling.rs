//! Pooling: the positions whose states are pooled, and the function that pools them.
//!
//! This is the one description; [`ops::Pool`](crate::ops::Pool) executes it on every device.

use crate::ops::PoolKind;
use prefold_core::Pooling;
use std::ops::Range;

/// Positions of a sequence of `len` tokens that are pooled, without the first `skipped`. If that leaves none, the last one is, or
/// with [`Pooling::Cls`] the first, as in sentence-transformers.
pub(super) fn positions(pooling: Pooling, len: u32, skipped: u32) -> Range<u32> {
    let first = skipped.min(len.saturating_sub(1));
    match pooling {
        Pooling::Cls if skipped >= len => 0..1,
        Pooling::Cls => first..first + 1,
        Pooling::LastToken => len - 1..len,
        Pooling::Mean | Pooling::Max | Pooling::MeanSqrtLen | Pooling::WeightedMean => first..len,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_may_be_left_out() {
        assert_eq!(positions(Pooling::Mean, 7, 0), 0..7);
        assert_eq!(positions(Pooling::Mean, 7, 3), 3..7);
        assert_eq!(positions(Pooling::Max, 7, 9), 6..7);
        assert_eq!((positions(Pooling::Cls, 7, 0), positions(Pooling::Cls, 7, 3)), (0..1, 3..4));
        assert_eq!((positions(Pooling::Cls, 7, 6), positions(Pooling::Cls, 7, 7)), (6..7, 0..1));
        assert_eq!(positions(Pooling::LastToken, 7, 3), 6..7);
    }
}
