//! Parts of a batch that go through the whole model one after another.
//!
//! If sequences share nothing, running all of them through a layer together gains nothing: a part that fills the cores' caches is as fast,
//! and needs memory for a part instead of a batch.

use std::ops::Range;

/// Splits the sequences of a batch into neighbouring parts of at most `max_rows` rows each and about equal size. A longer sequence is a part
/// of its own.
pub(super) fn parts(cu_seqlens: &[u32], max_rows: usize) -> Vec<Range<usize>> {
    let rows = |sequences: &Range<usize>| (cu_seqlens[sequences.end] - cu_seqlens[sequences.start]) as usize;
    let count = cu_seqlens.len().saturating_sub(1);
    let total = rows(&(0..count));
    let even = total.div_ceil(total.div_ceil(max_rows.max(1)).max(1));
    let mut parts: Vec<Range<usize>> = Vec::new();
    for sequence in 0..count {
        match parts.last_mut() {
            Some(last) if rows(last) < even && rows(&(last.start..sequence + 1)) <= max_rows => last.end = sequence + 1,
            _ => parts.push(sequence..sequence + 1),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_even_and_no_longer_than_they_may_be() {
        assert_eq!(parts(&[0, 3, 5, 9], 100).len(), 1);
        assert_eq!(parts(&[0, 3, 5, 9], 5), [0..2, 2..3]);
        assert_eq!(parts(&[0, 4, 8, 12, 16], 12), [0..2, 2..4], "8 and 8, not 12 and 4");
        assert_eq!(parts(&[0, 9, 10, 11], 5), [0..1, 1..3], "a sequence is not cut");
    }

    proptest! {
        #[test]
        fn every_sequence_is_in_one_part(lens in prop::collection::vec(1u32..50, 1..60), max_rows in 1usize..120) {
            let mut ends = vec![0];
            lens.iter().for_each(|len| ends.push(ends[ends.len() - 1] + len));
            let mut next = 0;
            for part in parts(&ends, max_rows) {
                prop_assert_eq!(part.start, next);
                let rows = (ends[part.end] - ends[part.start]) as usize;
                prop_assert!(rows <= max_rows || part.len() == 1);
                next = part.end;
            }
            prop_assert_eq!(next, lens.len());
        }
    }
}
