//! The command `prefold bench`: flags, rounds and output files.

pub(crate) mod args;
pub(crate) mod bench;
pub(crate) mod measure;
pub(crate) mod queries_args;
