//! GGUF files.

mod blocks;
mod byte_level;
mod classifier;
mod config;
mod dequantize;
mod end_token;
mod facts;
mod file;
mod header;
mod letter_case;
mod names;
mod pre_tokenizers;
mod sentencepiece;
mod settings;
pub(crate) mod tokenizer;
mod tokens;
mod translate;
mod unigram;
mod weights;
mod wordpiece;

pub(crate) use facts::GgufFacts;
pub(crate) use file::{CLASS_ROWS, GgufFile, METADATA, has_gguf_extension};
pub(crate) use pre_tokenizers::QWEN2;
pub(crate) use weights::{ClassRows, GgufWeights};
