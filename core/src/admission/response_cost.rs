//! Cost of responses: the number of values is limited, and their bytes count in the request's share before they are computed.
//!
//! A small request can ask for a large response, since equal inputs are computed once but each is answered. All values of a
//! response are in memory before its first byte is sent; its text is written piece by piece.

use super::quota::Share;
use crate::capabilities::Capabilities;
use crate::error::Error;
use crate::outputs::{OutputKind, Outputs, Rows, Spec};
use std::sync::Arc;

/// Maximum values of vectors or logits in one response.
const MAX_POOLED: usize = 1 << 26;

/// Maximum values of token states in one response; more only if one input of maximum length has more.
const MAX_OF_TOKENS: usize = 1 << 24;

/// Bytes of a vector in addition to its values: allocation, queue entry and reply; for a token, its id, string and position.
const VECTOR_OVERHEAD: usize = 256;

/// Bytes for each label while an answer is written, one input at a time: a score, and an index with it for sorting; for a token, its
/// probability, and the sum for the mean over a word.
const LABEL_BYTES: usize = 12;

/// Limits of one response from the served model.
#[derive(Debug)]
pub(crate) struct ResponseLimits(Vec<Size>);

/// Size of an output in a response.
#[derive(Debug, Clone, Copy)]
struct Size {
    kind: OutputKind,
    /// Number of values of one vector.
    dim: usize,
    /// Maximum values in one response.
    limit: usize,
    /// Bytes for writing it, independent of the number of its vectors.
    writing: usize,
    /// Values of the response so far.
    values: usize,
}

/// Cost of one response as far as known.
#[derive(Debug)]
pub(crate) struct ResponseCost {
    sizes: Vec<Size>,
    share: Arc<Share>,
}

impl ResponseLimits {
    /// Limits for a model whose longest input has `longest` tokens.
    pub(crate) fn new(capabilities: &Capabilities, longest: usize) -> Self {
        let size = |kind: OutputKind| {
            let Spec { rows, dim, labels, .. } = kind.spec();
            let dim = dim(capabilities);
            let limit = match rows {
                Rows::Sequence => MAX_POOLED,
                Rows::Token => MAX_OF_TOKENS.max(longest.saturating_mul(dim)),
            };
            Size { kind, dim, limit, writing: labels(capabilities) * LABEL_BYTES, values: 0 }
        };
        Self(OutputKind::ALL.map(size).to_vec())
    }

    /// Cost of an empty response with these outputs, to be counted in `share`.
    pub(crate) fn cost(&self, wanted: Outputs, share: Arc<Share>) -> ResponseCost {
        let sizes = self.0.iter().copied().filter(|size| wanted.contains(size.kind));
        ResponseCost { sizes: sizes.collect(), share }
    }
}

impl ResponseCost {
    /// Adds the vectors of more inputs, or tokens, in the outputs with such rows.
    ///
    /// # Errors
    /// [`Error::Validation`] beyond the limit of a request, [`Error::Overloaded`] while others hold the limit.
    pub(crate) fn grow(&mut self, rows: Rows, vectors: usize, field: &'static str) -> Result<(), Error> {
        for Size { dim, limit, writing, values, .. } in
            self.sizes.iter_mut().filter(|size| size.kind.spec().rows == rows)
        {
            let writing = if *values == 0 { *writing } else { 0 };
            let all = values.saturating_add(vectors.saturating_mul(*dim));
            if all > *limit {
                let problem = format!(
                    "asks for {all} values or more, {dim} for each {}; the limit is {limit} in a request, split it",
                    rows.owner()
                );
                return Err(Error::invalid(field, problem));
            }
            *values = all;
            self.share
                .grow(vectors.saturating_mul(*dim * size_of::<f32>() + VECTOR_OVERHEAD).saturating_add(writing))?;
        }
        Ok(())
    }

    /// Share that holds the response's bytes.
    pub(crate) fn into_share(self) -> Arc<Share> {
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::quota::Quota;
    use crate::error::Resource;
    use crate::testing::support::{DIM, classifier, embedder};

    fn share(limit: usize) -> Arc<Share> {
        Arc::new(Quota::new(limit, Resource::BufferedBytes).share())
    }

    #[test]
    fn a_response_has_a_limit_of_values() {
        for (wanted, rows, limit) in
            [(Outputs::EMBEDDING, Rows::Sequence, MAX_POOLED), (Outputs::TOKENS, Rows::Token, MAX_OF_TOKENS)]
        {
            let mut cost = ResponseLimits::new(&embedder(), 500).cost(wanted, share(1));
            cost.grow(rows, limit / DIM - 1, "inputs").unwrap();
            cost.grow(rows, 1, "inputs").unwrap();
            let error = cost.grow(rows, 1, "inputs").unwrap_err();
            let text = format!(
                "`inputs` asks for {} values or more, {DIM} for each {}; the limit is {limit} in a request, split it",
                limit + DIM,
                rows.owner()
            );
            assert!(matches!(error, Error::Validation { .. }) && error.to_string() == text, "{error}");
            assert!(cost.grow(rows, usize::MAX, "inputs").is_err());
            assert_eq!(cost.into_share().held(), limit / DIM * (DIM * 4 + VECTOR_OVERHEAD));
        }
    }

    #[test]
    fn the_longest_input_fits_and_values_of_labels_count() {
        let longest = MAX_OF_TOKENS / DIM + 1;
        let limits = ResponseLimits::new(&embedder(), longest);
        let mut cost = limits.cost(Outputs::TOKENS, share(1));
        cost.grow(Rows::Token, longest, "inputs").unwrap();
        assert!(cost.grow(Rows::Token, 1, "inputs").is_err());
        let mut cost = ResponseLimits::new(&classifier(8), 500).cost(Outputs::LOGITS, share(1));
        assert!(cost.grow(Rows::Sequence, MAX_POOLED / 8 + 1, "inputs").is_err());
        cost.grow(Rows::Sequence, MAX_POOLED / 8, "inputs").unwrap();
    }

    #[test]
    fn labels_count_once_while_they_are_written() {
        let labels = 8;
        let mut cost = ResponseLimits::new(&classifier(labels), 500).cost(Outputs::LOGITS, share(1));
        cost.grow(Rows::Sequence, 2, "inputs").unwrap();
        cost.grow(Rows::Sequence, 1, "inputs").unwrap();
        assert_eq!(cost.into_share().held(), 3 * (labels * 4 + VECTOR_OVERHEAD) + labels * LABEL_BYTES);
    }

    #[test]
    fn every_output_of_a_set_counts() {
        let limits = ResponseLimits::new(&embedder(), 500);
        let held = |wanted| {
            let mut cost = limits.cost(wanted, share(1));
            cost.grow(Rows::Sequence, 2, "inputs").unwrap();
            cost.grow(Rows::Token, 5, "inputs").unwrap();
            cost.into_share().held()
        };
        let [both, one, other] =
            [Outputs::EMBEDDING.and(Outputs::TOKENS), Outputs::EMBEDDING, Outputs::TOKENS].map(held);
        assert_eq!((both, one), (one + other, 2 * (DIM * 4 + VECTOR_OVERHEAD)));
    }

    #[test]
    fn responses_are_refused_while_other_requests_hold_the_limit() {
        let quota = Quota::new(1000, Resource::BufferedBytes);
        let limits = ResponseLimits::new(&embedder(), 500);
        let [mut large, mut other] = [(); 2].map(|()| limits.cost(Outputs::EMBEDDING, Arc::new(quota.share())));
        large.grow(Rows::Sequence, 1000, "inputs").unwrap();
        let error = other.grow(Rows::Sequence, 1, "inputs").unwrap_err();
        assert!(matches!(error, Error::Overloaded { resource: Resource::BufferedBytes, limit: 1000, .. }), "{error}");
        drop(large);
        other.grow(Rows::Sequence, 1, "inputs").unwrap();
    }
}
