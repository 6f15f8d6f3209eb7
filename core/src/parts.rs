//! How a large request is cut, so that its parts never fill the queue.
//!
//! The next part enters the queue while the one before is computed: two of them together must leave room for others.

/// A part has this part of the tokens that may wait, and its last sequence may reach beyond it.
const OF_THE_QUEUE: usize = 4;

/// The tokens with which a part ends.
pub(crate) fn part_tokens(max_queued_tokens: usize) -> usize {
    (max_queued_tokens / OF_THE_QUEUE).max(1)
}

/// The sequences in their order, in parts that end as soon as they have `max_tokens` tokens.
pub(crate) fn parts(sequences: Vec<Vec<u32>>, max_tokens: usize) -> impl Iterator<Item = Vec<Vec<u32>>> {
    let mut rest = sequences.into_iter();
    std::iter::from_fn(move || {
        let (mut part, mut tokens) = (Vec::new(), 0);
        while tokens < max_tokens
            && let Some(sequence) = rest.next()
        {
            tokens += sequence.len();
            part.push(sequence);
        }
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(sequences: &[usize], max_tokens: usize) -> Vec<Vec<usize>> {
        let sequences = sequences.iter().map(|&len| vec![0; len]).collect();
        parts(sequences, max_tokens).map(|part| part.iter().map(Vec::len).collect()).collect()
    }

    #[test]
    fn parts_end_with_their_tokens_and_nothing_is_lost() {
        assert_eq!(lens(&[3, 3, 3, 9, 1, 1, 1], 6), [vec![3, 3], vec![3, 9], vec![1, 1, 1]]);
        assert_eq!(lens(&[20, 6], 6), [[20], [6]], "a long one is not cut");
        assert!(lens(&[], 6).is_empty());
        assert_eq!((part_tokens(400), part_tokens(3)), (100, 1));
    }
}
