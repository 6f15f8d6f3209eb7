//! Reports, their prose and their charts.

pub(crate) mod mixed;
pub(crate) mod plot;
pub(crate) mod report;
pub(crate) mod size;
pub(crate) mod summary;
