//! GGUF files.

mod blocks;
mod config;
mod file;
mod header;
mod names;
pub(crate) mod tokenizer;
mod weights;

pub(crate) use file::{CLASS_ROWS, GgufFile, has_gguf_extension};
pub(crate) use weights::{ClassRows, GgufWeights};
