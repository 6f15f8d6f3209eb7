//! Dense embedding of a sequence.

use super::spec::{Rows, Spec};

pub(super) const SPEC: Spec = Spec {
    rows: Rows::Sequence,
    dim: |capabilities| capabilities.embed.as_ref().map_or(0, |embed| embed.dim),
    labels: |_| 0,
    embeds: true,
};
