//! Quotas of the process, which the requests of all its engines share.
//!
//! They bound the memory and the number of requests, whatever their models: a body is counted before it says which model it asks for. The
//! quotas of [waiting tokens and inputs](super::queue_quota) belong to an engine instead, because they bound its queue:
//! a slow model whose queue is full refuses no request for another model.

use super::quota::Quota;
use super::tokenize_quota::TokenizeQuota;
use crate::config::{InvalidSetting, ProcessLimits};
use crate::error::Resource;
use std::sync::Arc;

/// Quotas of the process, made once. Clones are handles to the same quotas.
#[derive(Debug, Clone)]
pub struct ProcessQuotas {
    requests: Arc<Quota>,
    buffered: Arc<Quota>,
    tokenize: TokenizeQuota,
}

impl ProcessQuotas {
    /// Unused quotas with these limits.
    ///
    /// # Errors
    /// A limit is out of its range.
    pub fn new(limits: ProcessLimits) -> Result<Self, InvalidSetting> {
        limits.check()?;
        Ok(Self {
            requests: Quota::new(limits.max_concurrent_requests, Resource::Requests),
            buffered: Quota::new(limits.max_buffered_bytes, Resource::BufferedBytes),
            tokenize: TokenizeQuota::default(),
        })
    }

    /// Quota of requests in the engines.
    pub fn requests(&self) -> &Arc<Quota> {
        &self.requests
    }

    /// Quota of bytes that requests hold: their bodies and the values of their responses.
    pub fn buffered(&self) -> &Arc<Quota> {
        &self.buffered
    }

    /// Quota of texts and ids that are tokenized or decoded without a forward pass.
    pub(crate) fn tokenize(&self) -> &TokenizeQuota {
        &self.tokenize
    }
}
