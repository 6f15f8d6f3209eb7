//! Cost of responses: the number of values is limited, and their bytes count in the request's share before they are computed.
//!
//! A small request can ask for a large response, since equal inputs are computed once but each is answered. All values of a
//! response are in memory before its first byte is sent; its text is written piece by piece.

use super::quota::Share;
use crate::backend::Wanted;
use crate::capabilities::Capabilities;
use crate::error::Error;
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
pub(crate) struct ResponseLimits {
    embedding: Size,
    logits: Size,
    tokens: Size,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    /// Number of values of one vector.
    dim: usize,
    /// Owner of a vector in messages: input or token.
    owner: &'static str,
    /// Maximum values in one response.
    limit: usize,
    /// Bytes for writing it, independent of the number of its vectors.
    writing: usize,
}

/// Cost of one response as far as known.
#[derive(Debug)]
pub(crate) struct ResponseCost {
    size: Size,
    values: usize,
    share: Arc<Share>,
}

impl ResponseLimits {
    /// Limits for a model whose longest input has `longest` tokens.
    pub(crate) fn new(capabilities: &Capabilities, longest: usize) -> Self {
        let Capabilities { embed, classify, classify_tokens, .. } = capabilities;
        let num_token_labels = classify_tokens.as_ref().map_or(0, |classify| classify.labels.len());
        let (dim, token_dim) = embed.as_ref().map_or((0, num_token_labels), |embed| (embed.dim, embed.token_dim));
        // A reranker's prompt has at most two logits.
        let num_logits = classify.as_ref().map_or(2, |classify| classify.labels.len());
        let longest = longest.saturating_mul(token_dim);
        let [of_labels, of_token_labels] = [num_logits, num_token_labels].map(|labels| labels * LABEL_BYTES);
        Self {
            embedding: Size { dim, owner: "input", limit: MAX_POOLED, writing: 0 },
            logits: Size { dim: num_logits, owner: "input", limit: MAX_POOLED, writing: of_labels },
            tokens: Size {
                dim: token_dim,
                owner: "token",
                limit: MAX_OF_TOKENS.max(longest),
                writing: of_token_labels,
            },
        }
    }

    /// Cost of an empty response, to be counted in `share`.
    pub(crate) fn cost(&self, wanted: Wanted, share: Arc<Share>) -> ResponseCost {
        let size = match wanted {
            Wanted::Embedding => self.embedding,
            Wanted::Logits => self.logits,
            Wanted::Tokens => self.tokens,
        };
        ResponseCost { size, values: 0, share }
    }
}

impl ResponseCost {
    /// Adds the vectors of more inputs, or tokens.
    ///
    /// # Errors
    /// [`Error::Validation`] beyond the limit of a request, [`Error::Overloaded`] while others hold the limit.
    pub(crate) fn grow(&mut self, vectors: usize, field: &'static str) -> Result<(), Error> {
        let Size { dim, owner, limit, writing } = self.size;
        let writing = if self.values == 0 { writing } else { 0 };
        let values = self.values.saturating_add(vectors.saturating_mul(dim));
        if values > limit {
            let problem = format!(
                "asks for {values} values or more, {dim} for each {owner}; the limit is {limit} in a request, split it"
            );
            return Err(Error::invalid(field, problem));
        }
        self.values = values;
        self.share.grow(vectors.saturating_mul(dim * size_of::<f32>() + VECTOR_OVERHEAD).saturating_add(writing))
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
    use crate::test_support::{DIM, classifier, embedder};

    fn share(limit: usize) -> Arc<Share> {
        Arc::new(Quota::new(limit, Resource::BufferedBytes).share())
    }

    #[test]
    fn a_response_has_a_limit_of_values() {
        for (wanted, limit, owner) in
            [(Wanted::Embedding, MAX_POOLED, "input"), (Wanted::Tokens, MAX_OF_TOKENS, "token")]
        {
            let mut cost = ResponseLimits::new(&embedder(), 500).cost(wanted, share(1));
            cost.grow(limit / DIM - 1, "inputs").unwrap();
            cost.grow(1, "inputs").unwrap();
            let error = cost.grow(1, "inputs").unwrap_err();
            let text = format!(
                "`inputs` asks for {} values or more, {DIM} for each {owner}; the limit is {limit} in a request, split it",
                limit + DIM
            );
            assert!(matches!(error, Error::Validation { .. }) && error.to_string() == text, "{error}");
            assert!(cost.grow(usize::MAX, "inputs").is_err());
            assert_eq!(cost.into_share().held(), limit / DIM * (DIM * 4 + VECTOR_OVERHEAD));
        }
    }

    #[test]
    fn the_longest_input_fits_and_labels_count() {
        let longest = MAX_OF_TOKENS / DIM + 1;
        let limits = ResponseLimits::new(&embedder(), longest);
        let mut cost = limits.cost(Wanted::Tokens, share(1));
        cost.grow(longest, "inputs").unwrap();
        assert!(cost.grow(1, "inputs").is_err());
        let mut cost = ResponseLimits::new(&classifier(8), 500).cost(Wanted::Logits, share(1));
        assert!(cost.grow(MAX_POOLED / 8 + 1, "inputs").is_err());
        cost.grow(MAX_POOLED / 8, "inputs").unwrap();
    }

    #[test]
    fn responses_are_refused_while_other_requests_hold_the_limit() {
        let quota = Quota::new(1000, Resource::BufferedBytes);
        let limits = ResponseLimits::new(&embedder(), 500);
        let [mut large, mut other] = [(); 2].map(|()| limits.cost(Wanted::Embedding, Arc::new(quota.share())));
        large.grow(1000, "inputs").unwrap();
        let error = other.grow(1, "inputs").unwrap_err();
        assert!(matches!(error, Error::Overloaded { resource: Resource::BufferedBytes, limit: 1000, .. }), "{error}");
        drop(large);
        other.grow(1, "inputs").unwrap();
    }
}
