//! Logs, metrics and traces.

pub(crate) mod log_filter;
pub(crate) mod log_writer;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod traces;
