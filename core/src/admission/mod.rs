//! Admission: quotas that all requests share, and chunks that large requests are done in.

pub(crate) mod ahead;
pub(crate) mod chunk;
pub(crate) mod queue_quota;
pub(crate) mod quota;
pub(crate) mod response_cost;
pub(crate) mod tokenize_quota;
