//! The command `prefold bench`: flags, rounds and output files.

pub(crate) mod args;
pub(crate) mod bench;
pub(crate) mod measure;
pub(crate) mod queries_args;
pub(crate) mod search;
pub(crate) mod size;
pub(crate) mod size_args;
pub(crate) mod values;
