//! The quotas that requests of an engine take from, and their metrics.

use super::{Engine, Inner};
use crate::admission::process_quotas::ProcessQuotas;
use crate::admission::quota::Quota;
use crate::metrics;
use std::sync::Arc;

impl Engine {
    /// The quotas that its requests share with other engines' requests.
    pub fn process_quotas(&self) -> &ProcessQuotas {
        &self.inner.quotas
    }

    /// All quotas that its requests take from, the process's and its queue's: one for each
    /// [`Resource`](crate::Resource), in the order of [`ALL`](crate::Resource::ALL).
    pub fn quotas(&self) -> [&Arc<Quota>; 5] {
        let Inner { quotas, pipeline, .. } = &*self.inner;
        let [inputs, tokens] = pipeline.quotas();
        [quotas.requests(), inputs, tokens, quotas.buffered(), quotas.tokenize().quota()]
    }

    /// Sets the gauges of the quotas to their current use, when they are read, so that requests do not pay for it.
    pub fn record_quotas(&self) {
        self.quotas().into_iter().for_each(|quota| metrics::quota(quota));
    }
}
