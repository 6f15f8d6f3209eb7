//! Parts of models without a kernel for GPUs.

use super::head::Head;
use crate::config::TransformerConfig;

/// Operations of a model that only CPUs have kernels for.
pub(super) fn without_kernel(config: &TransformerConfig, head: &Head) -> Option<&'static str> {
    if head.pooling().len() > 1 {
        return Some("several pooling modes together");
    }
    if config.attention.softcap.is_some() {
        return Some("attention scores with a bound (`attn_logit_softcapping`)");
    }
    config.convolutions.map(|_| "short convolutions")
}
