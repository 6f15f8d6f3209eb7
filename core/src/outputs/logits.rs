//! Logits of a sequence: a classifier's, or a yes/no reranker's.

use super::spec::{Rows, Spec};
use crate::capabilities::Capabilities;

pub(super) const SPEC: Spec = Spec { rows: Rows::Sequence, dim: num_logits, labels: num_logits, embeds: false };

/// A reranker's prompt has at most two logits.
fn num_logits(capabilities: &Capabilities) -> usize {
    capabilities.classify.as_ref().map_or(2, |classify| classify.labels.len())
}
