//! How many values the answer to a request may have, and those to all requests at once.
//!
//! Few bytes can ask for a large answer: equal inputs are computed once and answered each. All of an answer is in memory
//! before its first byte is sent, four bytes for a value and some ten more while it is written as JSON.

use crate::gate::{Gate, Share};
use crate::{Error, ModelInfo, ModelKind, Wanted};
use std::sync::Arc;

/// Values of vectors or logits in an answer.
const MAX_POOLED: usize = 1 << 26;

/// Values of tokens' states in an answer; more only where one input of the greatest length has more.
const MAX_OF_TOKENS: usize = 1 << 24;

/// While answers of so many values are being computed or written, no other is begun.
const MAX_AT_ONCE: usize = 1 << 27;

/// How large the served model's answers are and may be.
#[derive(Debug)]
pub(crate) struct AnswerSizes {
    gate: Arc<Gate>,
    pooled: Size,
    tokens: Size,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    /// Values of one vector.
    dim: usize,
    /// What has one vector.
    unit: &'static str,
    /// Values in an answer.
    limit: usize,
}

/// The answer to one request as far as it is known; given back when dropped.
#[derive(Debug)]
pub(crate) struct AnswerSize {
    size: Size,
    share: Share,
}

impl AnswerSizes {
    pub(crate) fn new(info: &ModelInfo) -> Self {
        let values_of_an_input = match &info.kind {
            ModelKind::Embedding { dim, .. } => *dim,
            ModelKind::Reranker => 2,
            ModelKind::Classifier { labels } => labels.len(),
        };
        let longest = info.max_input_length.saturating_mul(info.token_dim);
        Self {
            gate: Gate::new(MAX_AT_ONCE, "values of answers are being computed or written"),
            pooled: Size { dim: values_of_an_input, unit: "input", limit: MAX_POOLED },
            tokens: Size { dim: info.token_dim, unit: "token", limit: MAX_OF_TOKENS.max(longest) },
        }
    }

    /// For one request.
    pub(crate) fn begin(&self, wanted: Wanted) -> AnswerSize {
        let size = match wanted {
            Wanted::Pooled => self.pooled,
            Wanted::Tokens => self.tokens,
        };
        AnswerSize { size, share: self.gate.share() }
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.gate.held()
    }
}

impl AnswerSize {
    /// So many more inputs, or tokens, get a vector.
    ///
    /// # Errors
    /// [`Error::Validation`] for more than one request may ask for, [`Error::Overloaded`] while others get too much.
    pub(crate) fn grow(&mut self, vectors: usize, field: &'static str) -> Result<(), Error> {
        let Size { dim, unit, limit } = self.size;
        let more = vectors.saturating_mul(dim);
        let values = self.share.amount().saturating_add(more);
        if values > limit {
            let problem = format!(
                "asks for {values} values or more, {dim} for each {unit}; the limit is {limit} in a request, send several"
            );
            return Err(Error::Validation { field, problem });
        }
        self.share.grow(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{DIM, classifier_kind, embedding_kind, info};

    #[test]
    fn an_answer_has_a_limit_of_values() {
        let sizes = AnswerSizes::new(&info(embedding_kind(), 500));
        for (wanted, limit, unit) in [(Wanted::Pooled, MAX_POOLED, "input"), (Wanted::Tokens, MAX_OF_TOKENS, "token")] {
            let mut answer = sizes.begin(wanted);
            answer.grow(limit / DIM - 1, "inputs").unwrap();
            answer.grow(1, "inputs").unwrap();
            let error = answer.grow(1, "inputs").unwrap_err();
            let text = format!(
                "`inputs` asks for {} values or more, {DIM} for each {unit}; the limit is {limit} in a request, send several",
                limit + DIM
            );
            assert!(matches!(error, Error::Validation { .. }) && error.to_string() == text, "{error}");
            assert!(answer.grow(usize::MAX, "inputs").is_err());
        }
        assert_eq!(sizes.held(), 0);
    }

    #[test]
    fn the_longest_input_has_its_answer_and_labels_count() {
        let longest = MAX_OF_TOKENS / DIM + 1;
        let mut answer = AnswerSizes::new(&info(embedding_kind(), longest)).begin(Wanted::Tokens);
        answer.grow(longest, "inputs").unwrap();
        assert!(answer.grow(1, "inputs").is_err());
        let mut answer = AnswerSizes::new(&info(classifier_kind(8), 10)).begin(Wanted::Pooled);
        assert!(answer.grow(MAX_POOLED / 8 + 1, "inputs").is_err());
        answer.grow(MAX_POOLED / 8, "inputs").unwrap();
    }

    #[test]
    fn all_answers_together_have_a_limit() {
        let sizes = AnswerSizes::new(&info(embedding_kind(), 500));
        let mut answers = [Wanted::Pooled; 4].map(|wanted| sizes.begin(wanted));
        for answer in &mut answers[..2] {
            answer.grow(MAX_POOLED / DIM - 1, "inputs").unwrap();
        }
        answers[2].grow(MAX_POOLED / DIM, "inputs").unwrap();
        let error = answers[3].grow(1, "inputs").unwrap_err();
        assert!(matches!(&error, Error::Overloaded(text) if text.contains("134217728 values")), "{error}");
        drop(answers);
        assert_eq!(sizes.held(), 0);
    }
}
