//! How a large request is cut, so that its parts never fill the queue.
//!
//! The next part enters the queue while the one before is computed: two of them together must leave room for others.

use crate::room::QueueLimits;

/// A part has this part of what may wait, and its last sequence may reach beyond it.
const OF_THE_QUEUE: usize = 4;

/// The sequences in their order, in parts that end as soon as they have a quarter of the queue's tokens or inputs.
pub(crate) fn parts(sequences: Vec<Vec<u32>>, queue: QueueLimits) -> impl Iterator<Item = Vec<Vec<u32>>> {
    let (max_tokens, max_inputs) = (part_of(queue.tokens), part_of(queue.inputs));
    let mut rest = sequences.into_iter();
    std::iter::from_fn(move || {
        let (mut part, mut tokens) = (Vec::new(), 0);
        while tokens < max_tokens
            && part.len() < max_inputs
            && let Some(sequence) = rest.next()
        {
            tokens += sequence.len();
            part.push(sequence);
        }
        (!part.is_empty()).then_some(part)
    })
}

fn part_of(limit: usize) -> usize {
    (limit / OF_THE_QUEUE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(sequences: &[usize], tokens: usize, inputs: usize) -> Vec<Vec<usize>> {
        let sequences = sequences.iter().map(|&len| vec![0; len]).collect();
        parts(sequences, QueueLimits { tokens, inputs }).map(|part| part.iter().map(Vec::len).collect()).collect()
    }

    #[test]
    fn parts_end_with_their_tokens_and_nothing_is_lost() {
        assert_eq!(lens(&[3, 3, 3, 9, 1, 1, 1], 24, 100), [vec![3, 3], vec![3, 9], vec![1, 1, 1]]);
        assert_eq!(lens(&[20, 6], 24, 100), [[20], [6]], "a long one is not cut");
        assert_eq!(lens(&[1, 1, 1, 9, 1], 24, 8), [vec![1, 1], vec![1, 9], vec![1]]);
        assert_eq!(lens(&[1, 1], 3, 3), [[1], [1]], "of the smallest queue each is a part");
        assert!(lens(&[], 24, 100).is_empty());
    }
}
