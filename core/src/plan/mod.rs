//! Tokens, ragged batches and their radix plans.

pub(crate) mod edge_table;
pub(crate) mod radix;
pub(crate) mod ragged;
mod scope;
pub(crate) mod tokens;
