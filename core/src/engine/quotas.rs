//! The quotas that requests of an engine share, and their metrics.

use super::{Engine, Inner};
use crate::admission::quota::Quota;
use crate::metrics;
use std::sync::Arc;

impl Engine {
    /// All quotas that requests share, one for each [`Resource`](crate::Resource) and in the order of [`ALL`](crate::Resource::ALL).
    pub fn quotas(&self) -> [&Arc<Quota>; 5] {
        let Inner { requests, pipeline, buffered, tokenize_quota, .. } = &*self.inner;
        let [inputs, tokens] = pipeline.quotas();
        [requests, inputs, tokens, buffered, tokenize_quota.quota()]
    }

    /// Sets the gauges of the quotas to their current use, when they are read, so that requests do not pay for it.
    pub fn record_quotas(&self) {
        self.quotas().into_iter().for_each(|quota| metrics::quota(quota));
    }
}
