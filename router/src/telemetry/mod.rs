//! Logs, metrics and traces.

pub(crate) mod log_filter;
pub(crate) mod log_writer;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod metrics_text;
pub(crate) mod rare_warning;
pub(crate) mod traces;
pub(crate) mod version;
