//! Chunks of a large request, small enough that it alone never fills the queue.
//!
//! A chunk enters the queue while the one before is computed: two of them together must leave room for other requests.

use super::queue_quota::QueueLimits;
use crate::plan::tokens::Tokens;

/// Fraction of the queue's limits at which a chunk ends; its last sequence may exceed it.
const CHUNKS_IN_QUEUE: usize = 4;

/// Tokens and inputs with which a chunk ends.
pub(super) fn chunk_limits(queue: QueueLimits) -> [usize; 2] {
    [queue.tokens, queue.inputs].map(|limit| (limit / CHUNKS_IN_QUEUE).max(1))
}

/// The sequences in their order, in chunks that end as soon as they have a quarter of the queue's tokens or inputs.
pub(crate) fn chunks(sequences: Vec<Tokens>, queue: QueueLimits) -> impl Iterator<Item = Vec<Tokens>> {
    let [max_tokens, max_inputs] = chunk_limits(queue);
    let mut rest = sequences.into_iter();
    std::iter::from_fn(move || {
        let (mut chunk, mut tokens) = (Vec::new(), 0);
        while tokens < max_tokens
            && chunk.len() < max_inputs
            && let Some(sequence) = rest.next()
        {
            tokens += sequence.len();
            chunk.push(sequence);
        }
        (!chunk.is_empty()).then_some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(sequences: &[usize], tokens: usize, inputs: usize) -> Vec<Vec<usize>> {
        let sequences = sequences.iter().map(|&len| Tokens::new(vec![0; len])).collect();
        chunks(sequences, QueueLimits { tokens, inputs }).map(|chunk| chunk.iter().map(Tokens::len).collect()).collect()
    }

    #[test]
    fn chunks_end_with_their_tokens_and_nothing_is_lost() {
        assert_eq!(lens(&[3, 3, 3, 9, 1, 1, 1], 24, 100), [vec![3, 3], vec![3, 9], vec![1, 1, 1]]);
        assert_eq!(lens(&[20, 6], 24, 100), [[20], [6]], "a long one is not cut");
        assert_eq!(lens(&[1, 1, 1, 9, 1], 24, 8), [vec![1, 1], vec![1, 9], vec![1]]);
        assert_eq!(lens(&[1, 1], 3, 3), [[1], [1]], "a chunk of the smallest queue has one sequence");
        assert!(lens(&[], 24, 100).is_empty());
    }
}
