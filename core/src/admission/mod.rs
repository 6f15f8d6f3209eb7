//! Admission: quotas that all requests share, and the chunks of large requests.

pub(crate) mod ahead;
pub(crate) mod chunk;
pub(crate) mod process_quotas;
pub(crate) mod queue_quota;
pub(crate) mod quota;
pub(crate) mod response_cost;
pub(crate) mod tokenize_quota;
