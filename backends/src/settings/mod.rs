//! The list of all files and fields that transformers and sentence-transformers read for a tokenizer, a model, its
//! modules and prompts, with the treatment of each here. A warning names each field of a model's files that has no
//! effect here but may have one there.

mod adapter_config;
mod config_json;
#[cfg(test)]
mod document;
mod files;
mod gguf;
mod list;
mod modules;
mod named;
mod named_metadata;
mod rope;
mod row;
mod tokenizer_config;

#[cfg(test)]
pub(crate) use list::groups;
pub(crate) use named::named;
#[cfg(test)]
pub(crate) use named::warning;
pub(crate) use named_metadata::named_metadata;
#[cfg(test)]
pub(crate) use row::{File, Mark};
