//! States of a sequence's tokens, or a token classifier's logits of them.

use super::spec::{Rows, Spec};
use crate::capabilities::Capabilities;

pub(super) const SPEC: Spec = Spec {
    rows: Rows::Token,
    dim: |capabilities| capabilities.embed.as_ref().map_or_else(|| num_labels(capabilities), |embed| embed.token_dim),
    labels: num_labels,
    embeds: true,
};

fn num_labels(capabilities: &Capabilities) -> usize {
    capabilities.classify_tokens.as_ref().map_or(0, |classify| classify.labels.len())
}
